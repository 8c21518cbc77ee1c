"""A saved run answers over HTTP: a Starlette application and the uvicorn server around it.

A request is refused before its body is read if it is too large, comes from elsewhere or finds too many waiting; a body
must arrive within a time. What is refused gets one sentence, as JSON, and a status that says who must act.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import io
import json
import logging
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from poisonproof.data.arrays import by_schema, sparse_samples
from poisonproof.data.dataset import ReadReport, Unread
from poisonproof.data.files import Body
from poisonproof.data.images import BadImageError, pixels
from poisonproof.data.options import ReadOptions
from poisonproof.data.reading import RowStream, in_place
from poisonproof.data.tables import RawBatch, read_table
from poisonproof.display import shown_lines
from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.runs.answers import Question, SavedRun
from poisonproof.samples.columns import ObjectCells
from poisonproof.samples.labels import label_cell
from poisonproof.samples.schema import FEATURES, ArraySchema, ImageSchema, Schema, SparseSchema, TableSchema

try:
    import uvicorn
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ImportError:
    raise missing_extra("Serving", "uvicorn, starlette and prometheus-client", "serve") from None

DRAINED, DRAIN_SECONDS = 1 << 24, 2.0  # what is read of a body that was refused, so that its sender gets the answer
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PARAMETERS = ("attack_size", "min_radius", "target")
MOST_CONNECTIONS = 512
LARGEST_HEAD = 1 << 15
KEEP_ALIVE = 15
BATCH_ROWS = 512  # base classifiers are asked so many rows at a time
PARSED_ASIDE = 1 << 16  # a body of more bytes is parsed in a thread, so that others are answered meanwhile

Answered = list[tuple[Any, ...]]


@dataclass(frozen=True)
class ServeSettings:
    """How a server is to be run.

    Attributes
    ----------
    host, port : where it listens; port 0 lets the system choose
    max_body : bytes of a request's body
    max_rows : rows of one request
    timeout : seconds for the body of a request
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


class Metrics:
    """What a server counts. Nothing in it comes from requests but their number."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "poisonproof_requests", "Requests by path and status.", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "poisonproof_request_seconds", "From the head of a request to its answer.", registry=registry
        )
        self.in_flight = Gauge("poisonproof_in_flight", "Requests being answered.", registry=registry)
        self.waiting = Gauge("poisonproof_rows_waiting", "Rows that wait for the model.", registry=registry)
        self.rows = Counter("poisonproof_rows", "Rows answered.", registry=registry)
        bounds = [1 << power for power in range(10)]
        self.batches = Histogram(
            "poisonproof_batch_rows", "Rows that were answered together.", registry=registry, buckets=bounds
        )


class _Waiting(NamedTuple):
    rows: Rows
    question: Question
    future: asyncio.Future[Answered]


class Batcher:
    """One thread that asks the model, and a queue before it.

    Nobody waits for company: whoever comes while the model is idle is answered at once, and what comes meanwhile is
    the next batch. No answer depends on the batch, to the bit; a request that cannot be answered is tried by itself,
    so that it harms no other.
    """

    def __init__(self, saved: SavedRun, reader: BodyReader, metrics: Metrics, max_waiting: int) -> None:
        self.saved, self.reader, self.metrics, self.max_waiting = saved, reader, metrics, max_waiting
        self.most_rows = min(BATCH_ROWS, saved.block_rows)
        self.waiting: list[_Waiting] = []
        self.n_waiting = 0
        self.called = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "poisonproof")
        metrics.waiting.set_function(lambda: self.n_waiting)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer, and in the end what waits."""
        task = asyncio.create_task(self._work())
        yield
        while self.waiting:
            await asyncio.sleep(0.005)
        task.cancel()
        self.thread.shutdown()

    async def ask(self, rows: Rows, question: Question) -> Answered:
        """The answers for these rows; raises `RefusedError`."""
        if self.n_waiting + len(rows) > self.max_waiting and self.n_waiting:
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
            X = self.reader.joined([one.rows for one in batch])
            answers = list(self.saved.answers(X, batch[0].question).rows())
        except Exception as error:
            if len(batch) > 1:
                return [self._answers([one])[0] for one in batch]
            return [RefusedError(422, str(error)) if isinstance(error, PoisonproofError) else error]
        self.metrics.rows.inc(len(answers))
        self.metrics.batches.observe(len(answers))
        rest = iter(answers)
        return [list(islice(rest, len(one.rows))) for one in batch]


class Service:
    """What the paths answer, about one saved run."""

    def __init__(self, saved: SavedRun, settings: ServeSettings) -> None:
        self.saved, self.settings = saved, settings
        self.metrics = Metrics()
        self.reader = BodyReader(saved.schema, settings.max_rows)
        self.batcher = Batcher(saved, self.reader, self.metrics, settings.max_waiting)
        self.names = {label_cell(label): label for label in saved.model.classes_.tolist()}

    async def predict(self, request: Request) -> Response:
        """Prediction, radius, runner-up and share of votes for each row of the body."""
        question = self._question(request)
        body = await self._body(request)
        content_type = request.headers.get("content-type", "")
        if len(body) > PARSED_ASIDE:
            rows = await asyncio.to_thread(self.reader.rows, body, content_type)
        else:
            rows = self.reader.rows(body, content_type)
        answers = await self.batcher.ask(rows, question)
        columns = ("sample", *question.columns)
        named = ((name, *answer) for name, answer in zip(rows.names, answers, strict=True))
        every = in_place(named, rows.unread, lambda one: (one.name, *question.unanswered(one.reason)))
        record: dict[str, Any] = {
            "answers": [dict(zip(columns, answer, strict=True)) for answer in every],
            "unit": self.saved.unit,
        }
        return JSONResponse(record | ({"notes": list(rows.notes)} if rows.notes else {}))

    async def premises(self, request: Request) -> Response:
        """What every radius takes as given."""
        threats = self.saved.manifest.threat_model
        return JSONResponse({"premises": self.saved.premises, "unit": self.saved.unit, "threat_model": threats})

    async def schema(self, request: Request) -> Response:
        """What a row must hold, and the classes there are."""
        classes = list(map(str, self.names.values()))
        return JSONResponse(
            {"schema": self.saved.schema.as_dict(), "content_types": list(self.reader.types), "classes": classes}
        )

    async def health(self, request: Request) -> Response:
        """That it answers."""
        name = self.saved.manifest.settings.name
        return JSONResponse({"status": "ok", "run": name, "waiting": self.batcher.n_waiting})

    async def count(self, request: Request) -> Response:
        """The metrics, for Prometheus."""
        return Response(generate_latest(self.metrics.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _question(self, request: Request) -> Question:
        given: dict[str, str] = {}
        for name, value in request.query_params.multi_items():
            if name not in PARAMETERS or name in given:
                raise RefusedError(400, f"A query may hold {', '.join(PARAMETERS)}, each once.")
            given[name] = value
        target = given.pop("target", None)
        for name, text in given.items():
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise RefusedError(400, f"{name} must be a whole number of 0 or more.")
        if target is not None and label_cell(target) not in self.names:
            raise RefusedError(400, f"target must name one of the {len(self.names)} classes; see /schema.")
        numbers = {name: int(text) for name, text in given.items()}
        return Question(None if target is None else self.names[label_cell(target)], **numbers)

    async def _body(self, request: Request) -> bytes:
        most = self.settings.max_body
        too_large = RefusedError(413, f"The body is larger than {most} bytes; send fewer rows at a time.")
        stated = request.headers.get("content-length", "0")
        if not stated.isdigit() or int(stated) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.settings.timeout):
                async for piece in request.stream():
                    body += piece
                    if len(body) > most:
                        raise too_large
        except TimeoutError:
            raise RefusedError(408, f"The body did not arrive within {self.settings.timeout:g} seconds.") from None
        except ClientDisconnect:
            raise RefusedError(400, "The sender hung up.") from None
        return bytes(body)

    def check_host(self, host: str) -> None:
        """Refuse a page elsewhere whose own name leads here, if the server is for this machine alone."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.settings.is_loopback and name.strip("[]") not in (*LOOPBACK, ""):
            raise RefusedError(421, "This server is for this machine alone; ask it as localhost or 127.0.0.1.")

    def counted(self, act: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint with its requests counted, and whatever goes wrong as one sentence of JSON."""

        async def answer(request: Request) -> Response:
            started, status = time.perf_counter(), 500
            try:
                with self.metrics.in_flight.track_inprogress():
                    self.check_host(request.headers.get("host", ""))
                    response = await act(request)
            except RefusedError as error:
                await _drain(request)
                response = _refusal(error.status, error.sentence)
            except Exception:
                sys.stderr.write(shown_lines(traceback.format_exc()))
                response = _refusal(500, "This is a defect of poisonproof; its server wrote down what happened.")
            finally:
                self.metrics.seconds.observe(time.perf_counter() - started)
            status = response.status_code
            self.metrics.requests.labels(request.url.path, str(status)).inc()
            response.headers.update({"cache-control": "no-store", "x-content-type-options": "nosniff"})
            return response

        return answer


def create_app(saved: SavedRun, settings: ServeSettings) -> Starlette:
    """The application that answers about one saved run; its `Service` is ``app.state.service``."""
    service = Service(saved, settings)
    paths = {"/premises": service.premises, "/schema": service.schema, "/health": service.health}
    routes = [Route(path, service.counted(act)) for path, act in {**paths, "/metrics": service.count}.items()]
    routes.append(Route("/predict", service.counted(service.predict), methods=["POST"]))
    there_are = f"there are POST /predict, {', '.join(paths)}, /metrics."

    async def unrouted(request: Request, error: Any) -> Response:
        service.metrics.requests.labels("other", str(error.status_code)).inc()
        words = "This path takes another method" if error.status_code == 405 else "There is nothing here"
        await _drain(request)
        return _refusal(error.status_code, f"{words}; {there_are}")

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        async with service.batcher.running():
            yield

    app = Starlette(routes=routes, lifespan=life, exception_handlers={404: unrouted, 405: unrouted})
    app.state.service = service
    return app


def _refusal(status: int, sentence: str) -> Response:
    headers = {"connection": "close"} | ({"retry-after": "1"} if status == 503 else {})
    return JSONResponse({"error": sentence}, status, headers)


async def _drain(request: Request) -> None:
    """Read on for a moment: a connection that closes on unread bytes takes the answer with it."""
    size = 0
    with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):  # RuntimeError: the body was read already
        async with asyncio.timeout(DRAIN_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size > DRAINED:
                    return


def listening_socket(settings: ServeSettings) -> socket.socket:
    """The socket to listen on; one sentence if it cannot be had."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=256)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PoisonproofError(
            f"Cannot listen on {settings.host}:{settings.port} ({reason}); choose another --host or --port.",
            code="serve.address",
        ) from None


def serve(saved: SavedRun, settings: ServeSettings, ready: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or SIGINT, and then what is being answered; ``ready`` is told the address."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a malformed request has its answer, and is no news
    with listening_socket(settings) as listening:
        host, port = listening.getsockname()[:2]

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

        config = uvicorn.Config(
            create_app(saved, settings),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE,
            h11_max_incomplete_event_size=LARGEST_HEAD,
        )
        Server(config).run([listening])


JSON, CSV, SVMLIGHT = "application/json", "text/csv", "text/plain"
IMAGES = ("image/png", "image/jpeg", "image/bmp", "image/x-portable-pixmap", "image/x-portable-graymap")


class RefusedError(Exception):
    """A request that gets no answer: a status of HTTP, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class UnreadError(Exception):
    """Why one row of a request cannot be read, in words that follow its name."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The samples of one request: what each is called, what they hold, what a sender should know, and which samples
    besides cannot be read."""

    names: Sequence[int | str]
    held: Any
    notes: tuple[str, ...] = ()
    unread: Sequence[Unread] = ()

    def __len__(self) -> int:
        return len(self.names)


class BodyReader:
    """Reads bodies by one schema, and joins what several of them hold into samples for one question."""

    def __init__(self, schema: Schema, most_rows: int) -> None:
        self.schema, self.most_rows = schema, most_rows
        self.columns = tuple(schema.named(*FEATURES)) if isinstance(schema, TableSchema) else ()

    @property
    def types(self) -> tuple[str, ...]:
        """The types of content that it reads."""
        more: dict[str, tuple[str, ...]] = {"table": (CSV,), "sparse": (SVMLIGHT,), "images": IMAGES}
        return (JSON, *more.get(self.schema.kind, ()))

    def rows(self, body: bytes, content_type: str) -> Rows:
        """The samples of a body; raises `RefusedError`."""
        kind = content_type.partition(";")[0].strip().lower() or JSON
        if kind not in self.types:
            raise RefusedError(415, f"The body is of type '{kind[:60]}'; this run reads {', '.join(self.types)}.")
        try:
            rows = self._of_json(_parsed(body)) if kind == JSON else self._of_file(body, kind)
        except PoisonproofError as error:
            raise RefusedError(422, str(error)) from None
        if not len(rows):
            why = [f"Row {one.name} {one.reason}." for one in rows.unread[:1]]
            raise RefusedError(422, " ".join(["There is no row that can be read.", *why]))
        self._check_number(len(rows) + len(rows.unread))
        return rows

    def joined(self, parts: Sequence[Rows]) -> Any:
        """The samples of several requests, as the model takes them."""
        held = [part.held for part in parts]
        if isinstance(self.schema, TableSchema):
            rows = [cells for part in held for cells in part]
            return read_table(_Cells(list(self.columns), rows), self.schema, labelled=False).X
        if isinstance(self.schema, SparseSchema):
            return sp.vstack(held, format="csr")
        return np.concatenate(held)

    def _check_number(self, n_rows: int) -> None:
        if n_rows > self.most_rows:
            raise RefusedError(413, f"There are {n_rows} rows; at most {self.most_rows} are taken in one request.")

    def _of_json(self, rows: list[Any]) -> Rows:
        """Row by row: one that cannot be read costs itself and no other."""
        self._check_number(len(rows))
        readers: dict[type, Callable[[Any], Any]] = {
            TableSchema: self._cells,
            SparseSchema: self._entries,
            ImageSchema: self._picture,
            ArraySchema: lambda row: _numbers(row, cast(ArraySchema, self.schema)),
        }
        names, held, unread = list[int | str](), [], list[Unread]()
        for at, row in enumerate(rows):
            try:
                held.append(readers[type(self.schema)](row))
                names.append(at)
            except UnreadError as error:
                unread.append(Unread(len(held), at, str(error)))
        return Rows(names, self._whole(held), (), unread)

    def _whole(self, held: list[Any]) -> Any:
        """Rows of JSON as one: cells of tables as they are, everything else as the model takes it."""
        if isinstance(self.schema, TableSchema) or not held:
            return held
        if isinstance(self.schema, SparseSchema):
            return sparse_samples(held, self.schema.n_features).take(np.arange(len(held)))
        return np.stack(held)

    def _cells(self, row: Any) -> list[Any]:
        """The cells of one row, by name or in the order of the features."""
        if isinstance(row, str) and len(self.columns) == 1:
            return [row]
        if isinstance(row, list) and len(row) == len(self.columns):
            row = dict(zip(self.columns, row, strict=True))
        if not isinstance(row, dict):
            raise UnreadError(f"must be an object by column, or a list of {len(self.columns)} cells in their order")
        for name in self.columns:
            if name not in row:
                raise UnreadError(f"has no '{name}'; null stands for a missing cell")
        return [row[name] for name in self.columns]

    def _entries(self, row: Any) -> list[tuple[int, float]]:
        try:
            if all(name.isascii() and name.isdigit() and len(name) < 19 and _is_number(row[name]) for name in row):
                return [(int(name), float(value)) for name, value in row.items()]
        except (AttributeError, TypeError, OverflowError):
            pass
        raise UnreadError('must be an object of indices and numbers, such as {"3": 1.5}')

    def _picture(self, row: Any) -> NDArray[np.uint8]:
        assert isinstance(self.schema, ImageSchema)
        if isinstance(row, list):
            shape = (self.schema.height, self.schema.width, *([3] if self.schema.colour else []))
            return _numbers(row, ArraySchema(shape, "uint8"))
        try:
            return pixels(io.BytesIO(base64.b64decode(row, validate=True)), self.schema, resize=True)
        except (binascii.Error, TypeError, ValueError) as error:
            why = str(error) if isinstance(error, BadImageError) else "must be an image in base64, or rows of pixels"
            raise UnreadError(why) from None

    def _of_file(self, body: bytes, kind: str) -> Rows:
        if isinstance(self.schema, ImageSchema):
            try:
                return Rows([0], pixels(io.BytesIO(body), self.schema, resize=True)[None])
            except BadImageError as error:
                return Rows([], [], (), [Unread(0, 0, str(error))])
        sent = Body(body, "body.csv" if kind == CSV else "body.svm")
        try:
            stream = RowStream(sent, self.schema, ReadOptions(most_bytes=max(1, len(body))), self.most_rows + 1)
            blocks = list(stream)
        except PoisonproofError as error:
            raise RefusedError(422, str(error)) from None
        names = [name for block in blocks for name in block.part.names]
        starts = accumulate((len(block.part) for block in blocks), initial=0)
        unread = [
            one._replace(before=start + one.before)
            for start, block in zip(starts, blocks, strict=False)
            for one in block.unread
        ]
        notes = tuple(note.replace(sent.name, "the body") for note in stream.notes)
        if not isinstance(self.schema, TableSchema):
            held = sp.vstack([block.part.X for block in blocks], format="csr") if blocks else []
            return Rows(names, held, notes, unread)
        places = [stream.columns.index(name) for name in self.columns]
        cells = [[row[place] for place in places] for block in blocks for row in block.cells]
        return Rows(names, cells, notes, unread)


class _Cells:
    """Cells from requests, as a table: texts, numbers, truth values or nothing."""

    path = Body(b"", "the body")
    unreadable: list[str] = []  # noqa: RUF012 - of nobody

    def __init__(self, header: list[str], rows: list[list[Any]]) -> None:
        self.header, self.rows = header, rows

    def raw_batches(self, columns: Sequence[str], report: ReadReport) -> Iterator[RawBatch]:
        """All of them; they are good."""
        cells = dict(zip(self.header, map(ObjectCells, zip(*self.rows, strict=True)), strict=True))
        yield RawBatch(range(len(self.rows)), {name: cells[name] for name in columns})


def _parsed(body: bytes) -> list[Any]:
    """The rows of a body of JSON: a list, or an object with a list of ``rows``."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    try:
        record = json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        words = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise RefusedError(400, f"The body is not JSON ({words}).") from None
    rows = record.get("rows") if isinstance(record, dict) else record
    if not isinstance(rows, list):
        raise RefusedError(422, 'The body must be a list of rows, or an object with "rows": […].')
    return rows


def _numbers(row: Any, schema: ArraySchema) -> NDArray[Any]:
    """A row of numbers; null is a missing one."""
    words = f"must hold {schema}"
    try:
        array = np.array(row)
        if array.dtype.kind == "O" and all(value is None or _is_number(value) for value in array.flat):
            array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        raise UnreadError(f"{words}; it is of different lengths, or no numbers") from None
    if array.dtype.kind not in "iuf" or array.shape != schema.shape:
        got = "other things" if array.dtype.kind not in "iuf" else f"numbers of shape {array.shape}"
        raise UnreadError(f"{words}; it holds {got}")
    if schema.dtype == "uint8" and (array.dtype.kind == "f" or array.min() < 0 or array.max() > 255):
        raise UnreadError(f"{words}: whole numbers from 0 to 255")
    array = array.astype(schema.dtype)
    return by_schema(array[None], schema, Path("The body"), "rows")[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
