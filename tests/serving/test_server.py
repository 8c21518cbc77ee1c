"""The server as a process: real sockets, signals, and clients that mean no good."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from command_line import POISONPROOF, poisonproof
from poisonproof import load

pytest.importorskip("uvicorn", reason="NOTHING SERVED: pip install '.[serve]'")
pytest.importorskip("starlette", reason="NOTHING SERVED: pip install '.[serve]'")

pytestmark = pytest.mark.posix
ROWS = load("digits").test.X[:40]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "run"
    poisonproof("run", "digits", "--k", 3, "--d", 1, "--no-undefended", "--n-jobs", 1, "--out", folder)
    return folder


@contextmanager
def served(run):
    """A server of our own, and its port."""
    words = [POISONPROOF, "serve", str(run), "--port", "0", "--timeout", "1.5", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    record = json.loads(process.stdout.readline())
    assert record["address"].startswith("http://127.0.0.1:")
    assert record["pid"] == process.pid
    yield process, int(record["address"].rpartition(":")[2])
    if process.poll() is None:
        process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def serving(run):
    """One for all tests but the one that ends it: workers take tests in any order."""
    with served(run) as server_and_port:
        yield server_and_port


def ask(port, body, connection=None):
    connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/predict", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def raw(port, *pieces, pause=0.0):
    """What a server says to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
        for piece in pieces:
            one.sendall(piece)
            time.sleep(pause)
        text = b""
        while piece := one.recv(65536):
            text += piece
        return text.decode()


def test_a_row_over_a_kept_connection(serving, run):
    from poisonproof import FiniteAggregationClassifier

    _, port = serving
    expected = FiniteAggregationClassifier.load(run / "models").certify(ROWS)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for at in range(3):
        status, record = ask(port, json.dumps([ROWS[at].tolist()]), connection)
        assert status == 200
        assert record["answers"][0]["radius"] == expected.radius[at]
        assert record["answers"][0]["prediction"] == expected.labels[at]
    connection.close()


def test_malformed_huge_and_slow_requests_get_an_answer_and_harm_nobody(serving):
    process, port = serving
    good = json.dumps(ROWS.tolist())
    before = ask(port, good)
    assert before[0] == 200
    assert raw(port, b"no http at all\r\n\r\n").startswith("HTTP/1.1 400")
    assert raw(port, b"GET /health HTTP/1.1\r\nhost: x\r\na: " + b"b" * 70_000).startswith("HTTP/1.1 400")
    head = b"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
    huge = raw(port, head + b"99999999999\r\n\r\n", b"[" * 1_000_000)
    assert huge.startswith("HTTP/1.1 413")
    assert "larger than 4000000 bytes" in huge
    slow_body = socket.create_connection(("127.0.0.1", port), timeout=30)
    slow_body.sendall(head + b"100\r\n\r\n[")
    assert ask(port, good) == before  # meanwhile
    assert slow_body.recv(1000).startswith(b"HTTP/1.1 408")
    slow_body.close()
    gone = socket.create_connection(("127.0.0.1", port))
    gone.sendall(head + str(len(good)).encode() + b"\r\n\r\n" + good.encode())
    gone.close()
    assert ask(port, good) == before
    assert process.poll() is None


def test_what_cannot_be_served_is_one_sentence(run, serving, tmp_path):
    assert "holds no run; make one with" in poisonproof("serve", tmp_path, code=2).stderr
    port = serving[1]
    for words in (("--port", port), ("--port", 70_000), ("--host", "nowhere.invalid")):
        said = poisonproof("serve", run, *words, code=2).stderr
        assert re.search(r"Cannot listen on \S+:\d+ \(.+\); choose another --host or --port\.", said)
    assert "--timeout must be above 0" in poisonproof("serve", run, "--timeout", 0, code=2).stderr
    poisonproof(
        "run", "digits", "--k", 3, "--d", 1, "--votes-only", "--no-undefended", "--n-jobs", 1, "--out", tmp_path / "v"
    )
    refused = poisonproof("serve", tmp_path / "v", code=2).stderr
    assert "kept no base classifiers (--votes-only); train them with" in refused
    assert f"`poisonproof run digits --k 3 --d 1 --out {tmp_path}/v-models`" in refused


def test_other_hosts_are_warned_of(run, monkeypatch):
    monkeypatch.setattr("poisonproof.serving.app.serve", lambda kept, settings, ready: ready("http://0.0.0.0:1"))
    done = poisonproof("serve", run, "--host", "0.0.0.0")
    assert "WARNING: other machines can ask this server on 0.0.0.0, without encryption" in done.stderr
    assert "http://0.0.0.0:1/schema says how rows are read" in done.stdout
    assert "WARNING" not in poisonproof("serve", run).stderr


@pytest.fixture
def ending(run):
    with served(run) as server_and_port:
        yield server_and_port


def test_a_signal_ends_it_when_what_was_being_answered_has_its_answer(ending):
    """Half a request is on its way when the signal comes."""
    process, port = ending
    body = json.dumps(ROWS.tolist()).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as one:
        one.sendall(
            f"POST /predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body[:50]
        )
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        one.sendall(body[50:])
        text = b""
        while piece := one.recv(65536):
            text += piece
    assert text.startswith(b"HTTP/1.1 200")
    assert process.wait(timeout=20) in (0, -signal.SIGTERM)  # uvicorn ends well, and then by the signal that it got
    assert process.stderr.read() == ""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_without_uvicorn_the_extra_is_named(run, monkeypatch):
    from poisonproof import serving

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "poisonproof.serving.app", raising=False)
    monkeypatch.delattr(serving, "app", raising=False)
    assert (
        "Serving needs uvicorn, starlette and prometheus-client"
        in poisonproof("serve", run, "--port", 0, code=2).stderr
    )
