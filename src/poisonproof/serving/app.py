"""The server's paths, as an ASGI application: limits first, then the answer.

A request is refused before its body is read if it is too large, comes too often or asks a server that ends; a body must
arrive within a time. What is refused gets one sentence, as JSON, and a status that says whose turn it is to mend it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from poisonproof.data.streaming import in_place
from poisonproof.display import shown_lines
from poisonproof.runs.answers import Question, SavedRun
from poisonproof.samples.labels import label_cell
from poisonproof.serving.batching import Batcher
from poisonproof.serving.bodies import BodyReader, RefusedError
from poisonproof.serving.metrics import Metrics
from poisonproof.serving.openapi import PARAMETERS, description, page

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
JSON_TYPE, TEXT_TYPE, HTML_TYPE = (
    "application/json",
    "text/plain; version=0.0.4; charset=utf-8",
    "text/html; charset=utf-8",
)
DRAINED, DRAIN_SECONDS = 1 << 24, 2.0  # what is read of a body that was refused, so that its sender hears the answer
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ServeSettings:
    """How a server is to be run.

    Attributes
    ----------
    host, port : where it listens; port 0 lets the system choose
    max_body : bytes of a request's body
    max_rows : rows of one request
    timeout : seconds for the head of a request, and again for its body
    max_waiting : rows that may wait for the model
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_body: int = 4_000_000
    max_rows: int = 4096
    timeout: float = 10.0
    max_waiting: int = 16_384

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can ask."""
        return self.host in LOOPBACK


class App:
    """Answers requests about one kept run."""

    def __init__(self, kept: SavedRun, settings: ServeSettings) -> None:
        self.kept, self.settings = kept, settings
        self.reader = BodyReader(kept.schema, settings.max_rows)
        self.metrics = Metrics()
        self.batcher: Batcher | None = None
        self.ending = False
        self.names = {label_cell(label): label for label in kept.model.classes_.tolist()}
        self.pages: dict[str, Callable[[], tuple[int, str, str]]] = {
            "/": lambda: (200, HTML_TYPE, self.page),
            "/docs": lambda: (200, HTML_TYPE, self.page),
            "/openapi.json": lambda: (200, JSON_TYPE, self.document),
            "/premises": lambda: (200, JSON_TYPE, json.dumps(self._premises())),
            "/schema": lambda: (200, JSON_TYPE, json.dumps(self._schema())),
            "/health": self._health,
            "/metrics": lambda: (200, TEXT_TYPE, self.metrics.text(self._waiting)),
        }
        self.page, self.document = page(kept, self.reader), json.dumps(description(kept, self.reader))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the life of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        started, path = time.perf_counter(), str(scope["path"])
        known = path if path in self.pages or path == "/predict" else "other"
        self.metrics.in_flight += 1
        status, kind, text, more = 500, JSON_TYPE, "", {}
        whole = False
        try:
            status, kind, text, whole = await self._answer(scope, receive)
        except RefusedError as error:
            status, text = error.status, json.dumps({"error": error.sentence})
            more = {"retry-after": "1"} if status == 503 else {}
        except Exception:
            sys.stderr.write(shown_lines(traceback.format_exc()))
            text = json.dumps({"error": "This is a defect of poisonproof; its server wrote down what happened."})
        finally:
            self.metrics.in_flight -= 1
            self.metrics.requests[known, status] += 1
            self.metrics.seconds.add(time.perf_counter() - started)
        await self._send(scope, receive, send, (status, kind, text, more), whole=whole)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, str, str, bool]:
        """Status, type and text, and whether the body was read to its end."""
        path, method = scope["path"], scope["method"]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._check_host(headers.get("host", ""))
        if path in self.pages:
            if method not in ("GET", "HEAD"):
                raise RefusedError(405, f"{path} takes GET.")
            return *self.pages[path](), method == "HEAD" or "content-length" not in headers
        if path != "/predict":
            raise RefusedError(404, f"There is nothing here; there are POST /predict, {', '.join(self.pages)}.")
        if method != "POST":
            raise RefusedError(405, "/predict takes POST.")
        if self.ending or self.batcher is None:
            raise RefusedError(503, "The server ends; ask another, or again.")
        question = self._question(scope["query_string"])
        body = await self._body(headers, receive)
        loop = asyncio.get_running_loop()
        kind = headers.get("content-type", "")
        if len(body) > 1 << 16:  # what takes long to parse is parsed beside, and the others are answered meanwhile
            rows = await loop.run_in_executor(None, self.reader.rows, body, kind)
        else:
            rows = self.reader.rows(body, kind)
        answers = await self.batcher.ask(rows, question)
        columns = ("sample", *question.columns)
        named = ((name, *answer) for name, answer in zip(rows.names, answers, strict=True))
        every = in_place(named, rows.unread, lambda one: (one.name, *question.unanswered(one.reason)))
        record = {
            "answers": [dict(zip(columns, answer, strict=True)) for answer in every],
            "unit": self.kept.unit,
            **({"notes": list(rows.notes)} if rows.notes else {}),
        }
        return 200, JSON_TYPE, json.dumps(record), True

    def _check_host(self, host: str) -> None:
        """A page elsewhere that a name of its own leads here is not answered, if the server is this machine's alone."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.settings.is_loopback and name.strip("[]") not in (*LOOPBACK, ""):
            raise RefusedError(421, "This server is for this machine alone; ask it as localhost or 127.0.0.1.")

    def _question(self, query: bytes) -> Question:
        try:
            given = parse_qs(
                query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), max_num_fields=8
            )
        except ValueError:
            raise RefusedError(400, "The query of the address cannot be read.") from None
        for name, values in given.items():
            if name not in PARAMETERS or len(values) > 1:
                raise RefusedError(400, f"A query may hold {', '.join(PARAMETERS)}, each once.")
        numbers = {}
        for name in ("attack_size", "min_radius"):
            if name in given:
                text = given[name][0]
                if not (text.isascii() and text.isdigit() and len(text) < 10):
                    raise RefusedError(400, f"{name} must be a whole number of 0 or more.")
                numbers[name] = int(text)
        target = given.get("target", [None])[0]
        if target is not None and label_cell(target) not in self.names:
            raise RefusedError(400, f"target must name one of the {len(self.names)} classes; see /schema.")
        return Question(None if target is None else self.names[label_cell(target)], **numbers)

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes:
        most = self.settings.max_body
        too_large = RefusedError(413, f"The body is larger than {most} bytes; send fewer rows at a time.")
        stated = headers.get("content-length", "0")
        if not stated.isdigit() or int(stated) > most:
            raise too_large
        pieces, size = [], 0
        try:
            async with asyncio.timeout(self.settings.timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "The sender hung up.")
                    piece = message.get("body", b"")
                    size += len(piece)
                    if size > most:
                        raise too_large
                    pieces.append(piece)
                    if not message.get("more_body"):
                        return b"".join(pieces)
        except TimeoutError:
            raise RefusedError(408, f"The body did not arrive within {self.settings.timeout:g} seconds.") from None

    async def _send(
        self, scope: Scope, receive: Receive, send: Send, answer: tuple[int, str, str, dict[str, str]], *, whole: bool
    ) -> None:
        status, kind, text, more = answer
        body = b"" if scope["method"] == "HEAD" else text.encode()
        headers = {"content-type": kind, "content-length": str(len(text.encode())), "cache-control": "no-store"}
        headers |= {"x-content-type-options": "nosniff", **more, **({} if whole else {"connection": "close"})}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": body, "more_body": not whole})
        if not whole:
            await _drain(receive)
            await send({"type": "http.response.body", "body": b""})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self.batcher = Batcher(
                    self.kept,
                    self.reader,
                    most_rows=min(512, self.kept.block_rows),
                    most_waiting=self.settings.max_waiting,
                    told=self.metrics.batch,
                )
                self.batcher.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                if self.batcher is not None:
                    await self.batcher.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    @property
    def _waiting(self) -> int:
        return 0 if self.batcher is None else self.batcher.n_waiting

    def _health(self) -> tuple[int, str, str]:
        well = not self.ending
        record = {
            "status": "ok" if well else "ending",
            "run": self.kept.manifest.settings.name,
            "waiting": self._waiting,
        }
        return 200 if well else 503, JSON_TYPE, json.dumps(record)

    def _premises(self) -> dict[str, Any]:
        manifest = self.kept.manifest
        return {"premises": self.kept.premises, "unit": self.kept.unit, "threat_model": manifest.threat_model}

    def _schema(self) -> dict[str, Any]:
        return {"schema": self.kept.schema.as_dict(), "classes": list(map(str, self.names.values()))}


async def _drain(receive: Receive) -> None:
    """Read on for a moment: a connection that closes on unread bytes takes the answer with it."""
    size = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while size < DRAINED:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
                size += len(message.get("body", b""))
    except TimeoutError:
        return
