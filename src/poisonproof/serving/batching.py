"""Requests that come while others are being answered are answered together.

Nobody waits for company: whoever comes while the model is idle is answered at once, and what comes meanwhile is the
next batch. No answer depends on the batch, to the bit; a request that cannot be answered is tried by itself, so that it
harms no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

from poisonproof.errors import PoisonproofError
from poisonproof.runs.answers import Question, SavedRun
from poisonproof.serving.bodies import BodyReader, RefusedError, Rows

Answered = list[tuple[Any, ...]]


class _Waiting(NamedTuple):
    rows: Rows
    question: Question
    future: asyncio.Future[Answered]


class Batcher:
    """One thread that asks the model, and a queue before it."""

    def __init__(
        self, kept: SavedRun, reader: BodyReader, *, most_rows: int, most_waiting: int, told: Callable[[int], None]
    ) -> None:
        self.kept, self.reader, self.told = kept, reader, told
        self.most_rows, self.most_waiting = most_rows, most_waiting
        self.waiting: list[_Waiting] = []
        self.n_waiting = 0
        self.called = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "poisonproof")
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer."""
        self.task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Answer what waits, and end."""
        while self.waiting:
            await asyncio.sleep(0.005)
        if self.task is not None:
            self.task.cancel()
        self.thread.shutdown()

    async def ask(self, rows: Rows, question: Question) -> Answered:
        """The answers for these rows; raises `RefusedError`."""
        if self.n_waiting + len(rows) > self.most_waiting and self.n_waiting:
            raise RefusedError(503, f"{self.n_waiting} rows wait already; try again in a second.")
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.waiting.append(_Waiting(rows, question, future))
        self.n_waiting += len(rows)
        self.called.set()
        return await future

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.called.wait()
            batch = self._next()
            if not batch:
                self.called.clear()
                continue
            outcomes = await loop.run_in_executor(self.thread, self._answers, batch)
            for one, outcome in zip(batch, outcomes, strict=True):
                if one.future.cancelled():  # whoever asked has gone
                    continue
                if isinstance(outcome, BaseException):
                    one.future.set_exception(outcome)
                else:
                    one.future.set_result(outcome)

    def _next(self) -> list[_Waiting]:
        """Requests with the same question, as many as are answered at once; the others go on waiting."""
        batch: list[_Waiting] = []
        left: list[_Waiting] = []
        n_rows = 0
        for one in self.waiting:
            fits = not batch or (one.question == batch[0].question and n_rows + len(one.rows) <= self.most_rows)
            if fits:
                n_rows += len(one.rows)
            (batch if fits else left).append(one)
        self.waiting, self.n_waiting = left, self.n_waiting - n_rows
        return [one for one in batch if not one.future.cancelled()] or batch

    def _answers(self, batch: Sequence[_Waiting]) -> list[Answered | BaseException]:
        """In the thread: what to tell each of them."""
        try:
            answers = list(self.kept.answers(self.reader.joined([one.rows for one in batch]), batch[0].question).rows())
        except Exception as error:
            if len(batch) > 1:
                return [self._answers([one])[0] for one in batch]
            return [RefusedError(422, str(error)) if isinstance(error, PoisonproofError) else error]
        self.told(len(answers))
        rest = iter(answers)
        return [list(islice(rest, len(one.rows))) for one in batch]
