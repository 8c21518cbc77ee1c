"""What does the HTTP server hold? 200 requests a second on one core, then 10,000 requests, all from this machine.

python benchmarks/http_serve.py [--k 20 --d 1] [--count 2000] [--rate 200] [--more 10000]

Requests leave by the clock, whether or not earlier ones were answered, over 16 kept connections to 127.0.0.1; each
holds one row of digits. CPU time is the server's own, by its /metrics, so that the ratio holds on a busy machine, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import poisonproof

CONNECTIONS = 16
POISONPROOF = str(Path(sys.executable).with_name("poisonproof"))


class Connection:
    """One kept connection."""

    async def open(self, port: int) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer)[1])
        return int(answer.split()[1]), await self.reader.readexactly(length)


async def load(port: int, bodies: list[bytes], count: int, rate: float | None) -> tuple[list[float], int]:
    """Seconds from when each request should have left to its answer, and how many were refused."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await Connection().open(port))
    seconds: list[float] = []
    refused = 0
    started = time.perf_counter()

    async def one(at: int) -> None:
        nonlocal refused
        due = started + at / rate if rate else time.perf_counter()
        connection = await free.get()
        due = due if rate else time.perf_counter()
        status, _ = await connection.ask("POST", "/predict", bodies[at % len(bodies)])
        seconds.append(time.perf_counter() - due)
        refused += status != 200
        free.put_nowait(connection)

    tasks = []
    for at in range(count):
        if rate and (wait := started + at / rate - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(at)))
        if not rate and at % CONNECTIONS == 0:
            await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    return seconds, refused


def metric(port: int, name: str) -> float:
    async def read() -> str:
        return (await (await Connection().open(port)).ask("GET", "/metrics"))[1].decode()

    return float(re.search(rf"^{name} (\S+)$", asyncio.run(read()), re.M)[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("k", 20), ("d", 1), ("count", 2000), ("rate", 200), ("more", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    bodies = [json.dumps([row.tolist()]).encode() for row in poisonproof.load("digits").test.X]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [POISONPROOF, "run", "digits", "--k", asked.k, "--d", asked.d, "--no-undefended", "--out", run]
        subprocess.run(list(map(str, words)), check=True, capture_output=True)
        words = [POISONPROOF, "serve", str(run), "--port", "0", "--json"]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = int(json.loads(server.stdout.readline())["address"].rpartition(":")[2])
            asyncio.run(load(port, bodies, 100, None))
            for count, rate in ((asked.count, asked.rate), (asked.more, None)):
                cpu, memory = (
                    metric(port, f"process_{name}") for name in ("cpu_seconds_total", "resident_memory_bytes")
                )
                started = time.perf_counter()
                seconds, refused = asyncio.run(load(port, bodies, count, rate))
                wall = time.perf_counter() - started
                cpu = metric(port, "process_cpu_seconds_total") - cpu
                grown = metric(port, "process_resident_memory_bytes") - memory
                p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
                pace = f"at {rate}/s" if rate else "as fast as it answers"
                print(
                    f"k = {asked.k}, d = {asked.d}: {count} requests {pace}: "
                    f"{count / wall:.0f}/s, median {p50:.1f} ms, p99 {p99:.1f} ms, {refused} refused; server CPU "
                    f"{1e3 * cpu / count:.2f} ms each; memory {grown / 1e6:+.1f} MB of {memory / 1e6:.0f}"
                )
            batches = metric(port, "poisonproof_batch_rows_sum") / metric(port, "poisonproof_batch_rows_count")
            print(f"rows in a batch: {batches:.1f}; machine load {Path('/proc/loadavg').read_text().split()[0]}")
        finally:
            server.terminate()
            print("ended with code", server.wait(timeout=60))


if __name__ == "__main__":
    main()
