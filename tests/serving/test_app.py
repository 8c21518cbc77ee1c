"""The server's paths without a socket: the same answers as predict, one sentence for the rest, and nobody harmed."""

import asyncio
import base64
import csv
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from sklearn.naive_bayes import GaussianNB

from command_line import poisonproof
from poisonproof import FiniteAggregationClassifier
from poisonproof.runs.answers import SavedRun
from poisonproof.runs.election import FittedEnsemble
from poisonproof.samples.schema import ArraySchema, ImageSchema, SparseSchema
from poisonproof.serving.app import BodyReader
from tables import wine_rows, write_csv

pytest.importorskip("starlette", reason="NOTHING SERVED: pip install '.[serve]'")
from poisonproof.serving.app import ServeSettings, create_app

NAMES, ROWS = wine_rows()
FEATURES = [name for name in NAMES if name not in ("class", "maker")]
JSON = {"content-type": "application/json"}
MANIFEST = SimpleNamespace(settings=SimpleNamespace(name="own"), threat_model={"insert": 1}, method=None)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    names = [name for name in NAMES if name != "maker"]
    table = write_csv(folder / "wine.csv", names, [[row[NAMES.index(name)] for name in names] for row in ROWS])
    poisonproof(
        "run", table, "--label", "class", "--k", 4, "--d", 2, "--n-jobs", 1, "--no-undefended", "--out", folder / "run"
    )
    return folder / "run", table


@pytest.fixture(scope="module")
def kept(run):
    return SavedRun.open(run[0])


class Client:
    """Asks an application, within its life."""

    def __init__(self, app):
        self.app = app

    async def ask(self, path, body=b"", headers=JSON, method="POST", query="", pieces=None, wait=0.0):
        pieces = [body] if pieces is None else pieces
        messages = [
            {"type": "http.request", "body": one, "more_body": at < len(pieces) - 1} for at, one in enumerate(pieces)
        ]
        sent = []

        async def receive():
            if not messages:
                await asyncio.sleep(60)
            await asyncio.sleep(wait)
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "path": path, "method": method, "headers": pairs, "query_string": query.encode()}
        await self.app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
        kind = dict(sent[0]["headers"])[b"content-type"].decode()
        return SimpleNamespace(status=sent[0]["status"], text=text, record=json.loads(text) if "json" in kind else None)


def within(app, act):
    """What ``act`` gives, a coroutine of a client, while the application lives."""

    async def live():
        incoming, started, ended = asyncio.Queue(), asyncio.Event(), asyncio.Event()

        async def send(message):
            (started if "startup" in message["type"] else ended).set()

        task = asyncio.create_task(app({"type": "lifespan"}, incoming.get, send))
        await incoming.put({"type": "lifespan.startup"})
        await started.wait()
        try:
            return await act(Client(app))
        finally:
            await incoming.put({"type": "lifespan.shutdown"})
            await ended.wait()
            await task

    return asyncio.run(live())


def ask(kept, *words, settings=None, **more):
    return within(create_app(kept, settings or ServeSettings()), lambda client: client.ask(*words, **more))


def rows_as_json(rows):
    def value(name, cell):
        if name == "shade":
            return cell
        return None if cell in ("", "NA", "?") else float(cell)

    return [{name: value(name, row[NAMES.index(name)]) for name in FEATURES} for row in rows]


def test_every_entry_point_gives_the_answers_of_predict_to_the_bit(run, kept):
    text = poisonproof("predict", run[0], run[1], "--n-jobs", 1, "--attack-size", 1, "--min-radius", 1, "--json").stdout
    columns = ("prediction", "radius", "runner_up", "vote_share", "certified")
    expected = [tuple(json.loads(line)[name] for name in columns) for line in text.splitlines()]
    query = "attack_size=1&min_radius=1"
    by_csv = ask(kept, "/predict", run[1].read_bytes(), {"content-type": "text/csv; charset=utf-8"}, query=query)
    by_name = ask(kept, "/predict", json.dumps({"rows": rows_as_json(ROWS)}).encode(), query=query)
    lists = [list(row.values()) for row in rows_as_json(ROWS)]
    by_place = ask(kept, "/predict", json.dumps(lists).encode(), query=query)
    for answer in (by_csv, by_name, by_place):
        assert answer.status == 200
        assert [tuple(one[name] for name in columns) for one in answer.record["answers"]] == expected
    assert [one["sample"] for one in by_csv.record["answers"]] == list(range(2, len(ROWS) + 2))
    assert [one["sample"] for one in by_name.record["answers"]] == list(range(len(ROWS)))
    assert by_csv.record["unit"] == "training samples"


def test_half_a_surrogate_in_a_cell_is_read_as_everywhere(kept):
    rows = [{**rows_as_json(ROWS)[0], "shade": cell} for cell in ("\ud800", "\ufffd", "\udc00")]
    answer = ask(kept, "/predict", json.dumps(rows).encode())
    assert answer.status == 200
    assert len({one["vote_share"] for one in answer.record["answers"]}) == 1


def test_a_target_is_asked_for_by_its_name(run, kept):
    text = poisonproof("predict", run[0], run[1], "--n-jobs", 1, "--target", "a").stdout
    expected = [answer["target_radius"] for answer in csv.DictReader(io.StringIO(text))]
    answer = ask(kept, "/predict", run[1].read_bytes(), {"content-type": "text/csv"}, query="target=a")
    got = ["" if one["target_radius"] is None else str(one["target_radius"]) for one in answer.record["answers"]]
    assert got == expected
    refused = ask(kept, "/predict", b"[]", query="target=z")
    assert refused.status == 400
    assert "must name one of the 3 classes" in refused.record["error"]


def test_requests_that_come_together_have_the_answers_that_they_have_alone(kept):
    rows = rows_as_json(ROWS)
    app = create_app(kept, ServeSettings())

    async def together(client):
        asked = (client.ask("/predict", json.dumps([row]).encode()) for row in rows)
        return await asyncio.gather(*asked)

    one_by_one = [
        tuple(answer)
        for answer in kept.answers(
            app.state.service.reader.joined([app.state.service.reader.rows(json.dumps(rows).encode(), "")])
        ).rows()
    ]
    answers = within(app, together)
    assert [tuple(answer.record["answers"][0].values())[1:] for answer in answers] == one_by_one
    value = app.state.service.metrics.registry.get_sample_value
    assert value("poisonproof_batch_rows_count") < len(rows)  # some were answered together
    assert value("poisonproof_rows_total") == len(rows)


def test_a_request_that_breaks_the_model_harms_no_other(kept, monkeypatch, capsys):
    rows = rows_as_json(ROWS[:12])
    app = create_app(kept, ServeSettings())
    joined = app.state.service.reader.joined

    def break_on_odd(parts):
        if any(cells[-1] == "odd" for part in parts for cells in part.held):
            raise RuntimeError("boom")
        return joined(parts)

    monkeypatch.setattr(app.state.service.reader, "joined", break_on_odd)
    rows[5]["shade"] = "odd"

    async def together(client):
        return await asyncio.gather(*(client.ask("/predict", json.dumps([row]).encode()) for row in rows))

    answers = within(app, together)
    assert [answer.status for answer in answers] == [500 if at == 5 else 200 for at in range(12)]
    assert "defect of poisonproof" in answers[5].record["error"]
    assert "boom" in capsys.readouterr().err


ROW = rows_as_json(ROWS[:1])[0]


@pytest.mark.parametrize(
    ("body", "headers", "query", "status", "words"),
    [
        (b"{", JSON, "", 400, "The body is not JSON"),
        (b"\xff\xfe\x00", JSON, "", 400, "The body is not JSON"),
        (b"[" * 100_000, JSON, "", 400, "nested too deeply"),
        (b"[NaN]", JSON, "", 400, "NaN is no number of JSON"),
        (b"[" + b"9" * 5000 + b"]", JSON, "", 400, "The body is not JSON"),
        (b"{}", JSON, "", 422, "must be a list of rows"),
        (b"[]", JSON, "", 422, "There is no row that can be read"),
        (b"[1]", JSON, "", 422, "Row 0 must be an object by column"),
        (b"[{}]", JSON, "", 422, "Row 0 has no 'alcohol'; null stands for a missing cell"),
        (json.dumps([ROW] * 60).encode(), JSON, "", 413, "There are 60 rows; at most 50"),
        (b"x,y\n1,2\n", {"content-type": "text/csv"}, "", 422, "The body has no column 'alcohol'"),
        (b"", {"content-type": "text/csv"}, "", 422, "The body is empty"),
        (b"x", {"content-type": "image/png"}, "", 415, "this run reads application/json, text/csv"),
        (b"[]", JSON, "radius=1", 400, "A query may hold attack_size, min_radius, target"),
        (b"[]", JSON, "attack_size=-1", 400, "attack_size must be a whole number"),
        (b"[]", JSON, "attack_size=1&attack_size=2", 400, "each once"),
        (b"[]", {**JSON, "content-length": "100001"}, "", 413, "larger than 100000 bytes"),
        (b"[]", {**JSON, "content-length": "many"}, "", 413, "larger than 100000 bytes"),
        (b" " * 100_001, JSON, "", 413, "larger than 100000 bytes"),
        (b"[]", {**JSON, "host": "evil.example:8000"}, "", 421, "for this machine alone"),
    ],
)  # fmt: skip
def test_bad_requests_get_one_sentence(kept, body, headers, query, status, words):
    settings = ServeSettings(max_body=100_000, max_rows=50)
    answer = ask(kept, "/predict", body, headers, query=query, settings=settings)
    assert answer.status == status, answer.text
    assert words in answer.record["error"]
    assert "/tmp" not in answer.text


def test_slow_bodies_and_waiting_rows_are_bounded(kept):
    slow = ask(kept, "/predict", pieces=[b"["] * 50, wait=0.05, settings=ServeSettings(timeout=0.2))
    assert slow.status == 408

    async def crowd(client):
        body = json.dumps([ROW] * 30).encode()
        return await asyncio.gather(*(client.ask("/predict", body) for _ in range(20)))

    crowded = within(create_app(kept, ServeSettings(max_waiting=40)), crowd)
    assert {answer.status for answer in crowded} == {200, 503}


def test_pages_say_what_there_is(kept):
    app = create_app(kept, ServeSettings())

    async def look(client):
        paths = ("/premises", "/schema", "/health")
        pages = {path: await client.ask(path, method="GET", headers={}) for path in paths}
        await client.ask("/predict", json.dumps([ROW] * 3).encode())
        return pages, await client.ask("/metrics", method="GET", headers={})

    pages, metrics = within(app, look)
    assert {page.status for page in pages.values()} == {200}
    assert pages["/premises"].record["premises"] == [str(premise) for premise in kept.model.premises_]
    assert pages["/schema"].record["classes"] == ["a", "b", "c"]
    assert pages["/schema"].record["content_types"] == ["application/json", "text/csv"]
    assert pages["/health"].record["status"] == "ok"
    assert 'poisonproof_requests_total{path="/predict",status="200"} 1.0' in metrics.text
    assert "poisonproof_rows_total 3.0" in metrics.text
    assert "process_cpu_seconds_total" in metrics.text
    assert str(ROW["alcohol"]) not in metrics.text
    for path, method, status in (("/nowhere", "GET", 404), ("/predict", "GET", 405), ("/health", "POST", 405)):
        answer = ask(kept, path, method=method)
        assert answer.status == status
        assert "there are POST /predict, /premises" in answer.record["error"]


def small(X, y, schema):
    learner = GaussianNB() if X.ndim == 2 else None
    model = FiniteAggregationClassifier(learner, k=3, d=1, classes=[0, 1], n_jobs=1).fit(X, y)
    return SavedRun(None, MANIFEST, schema, FittedEnsemble(model))


def test_numbers_and_pixels(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    X[:, 0] += y
    numbers = small(X, y, ArraySchema((4,), "float64"))
    answer = ask(numbers, "/predict", json.dumps(X[:9].tolist()).encode())
    assert [one["radius"] for one in answer.record["answers"]] == numbers.model.certify(X[:9]).radius.tolist()
    whole = np.zeros((3, 4), int)
    answer = ask(numbers, "/predict", json.dumps(whole.tolist()).encode())
    assert [one["radius"] for one in answer.record["answers"]] == numbers.model.certify(whole * 1.0).radius.tolist()
    for bad in ([[1, 2]], [[1, 2, 3, "4"]], [[1], [2, 3]], ["abcd"], [None], [[1, 2, 3, 10**400]]):
        assert ask(numbers, "/predict", json.dumps(bad).encode()).status == 422, bad
    pixels = rng.integers(0, 100, (60, 4, 5)).astype(np.uint8) + (100 * y).astype(np.uint8)[:, None, None]
    images = small(pixels, y, ImageSchema(5, 4, colour=False))
    radius = images.model.certify(pixels[:3]).radius.tolist()

    def png(image):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "png")
        return file.getvalue()

    by_pixel = ask(images, "/predict", json.dumps(pixels[:3].tolist()).encode())
    by_base64 = ask(
        images, "/predict", json.dumps([base64.b64encode(png(one)).decode() for one in pixels[:3]]).encode()
    )
    for answer in (by_pixel, by_base64):
        assert [one["radius"] for one in answer.record["answers"]] == radius
    alone = [ask(images, "/predict", png(one), {"content-type": "image/png"}) for one in pixels[:3]]
    assert [answer.record["answers"][0]["radius"] for answer in alone] == radius
    for body, kind in ((b"no image", "image/png"), (b'["!!"]', "application/json"), (b"[[[300]]]", "application/json")):
        assert ask(images, "/predict", body, {"content-type": kind}).status == 422


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_row_that_cannot_be_read_keeps_its_place_in_the_answers(kept, at):
    """Of whatever kind; the others have the answers that they have alone."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    numbers = small(X + y[:, None], y, ArraySchema((4,), "float64"))
    pixels = rng.integers(0, 100, (60, 4, 5)).astype(np.uint8) + (100 * y).astype(np.uint8)[:, None, None]
    images = small(pixels, y, ImageSchema(5, 4, colour=False))
    cases = {
        "numbers": (numbers, X[:4].tolist(), [1, 2]),
        "pixels": (images, pixels[:4].tolist(), "!!"),
        "cells": (kept, rows_as_json(ROWS[:4]), {"alcohol": 1}),
    }
    for name, (run, good, bad) in cases.items():
        alone = ask(run, "/predict", json.dumps(good).encode(), query="attack_size=1").record["answers"]
        rows = [*good[:at], bad, *good[at:]]
        answers = ask(run, "/predict", json.dumps(rows).encode(), query="attack_size=1").record["answers"]
        assert [answer["sample"] for answer in answers] == list(range(5)), name
        unread = answers.pop(at)
        assert unread["reason"], name
        assert {value for key, value in unread.items() if key not in ("sample", "reason")} == {None}, name
        assert [{**one, "sample": 0} for one in answers] == [{**one, "sample": 0} for one in alone], name
        refused = ask(run, "/predict", json.dumps([bad, bad]).encode())
        assert refused.status == 422, name
        assert "There is no row that can be read. Row 0" in refused.record["error"], name


def test_sparse_rows():
    reader = BodyReader(SparseSchema(5), 10)
    by_json = reader.rows(b'[{"3": 1.5, "9": 1}, {}]', "application/json")
    by_line = reader.rows(b"1 3:1.5 9:1\n0\n", "text/plain")
    for rows in (by_json, by_line):
        assert reader.joined([rows]).toarray().tolist() == [[0, 0, 0, 1.5, 0], [0] * 5]
    assert by_line.notes == ("the body: 1 entries lie beyond feature 4 and were dropped",)
