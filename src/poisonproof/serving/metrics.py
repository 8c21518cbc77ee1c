"""What a server counts, in the text that Prometheus reads. Nothing in it comes from requests but their number."""

from __future__ import annotations

import mmap
import time
from collections import Counter
from pathlib import Path

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram:
    """How many observations lie at or below each bound, their sum and their number."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count one."""
        self.counts[sum(value > bound for bound in self.bounds)] += 1
        self.total += value

    def text(self, name: str, words: str) -> list[str]:
        """Its lines."""
        lines, seen = [f"# HELP {name} {words}", f"# TYPE {name} histogram"], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            seen += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {seen}')
        return [*lines, f"{name}_sum {self.total:.6f}", f"{name}_count {seen}"]


class Metrics:
    """Counts since the server began."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.rows, self.in_flight = 0, 0
        self.seconds, self.batches = Histogram(SECONDS), Histogram(BATCHES)

    def batch(self, rows: int) -> None:
        """A batch was answered."""
        self.rows += rows
        self.batches.add(rows)

    def text(self, waiting: int) -> str:
        """Everything, line by line."""
        lines = [
            "# HELP poisonproof_requests_total Requests by path and status.",
            "# TYPE poisonproof_requests_total counter",
        ]
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'poisonproof_requests_total{{path="{path}",status="{status}"}} {count}')
        numbers = {
            "poisonproof_rows_total": ("counter", "Rows answered.", self.rows),
            "poisonproof_in_flight": ("gauge", "Requests being answered.", self.in_flight),
            "poisonproof_rows_waiting": ("gauge", "Rows that wait for the model.", waiting),
            "process_start_time_seconds": ("gauge", "When the server began.", round(self.started, 3)),
            "process_cpu_seconds_total": ("counter", "CPU time of the process.", round(time.process_time(), 3)),
            "process_resident_memory_bytes": ("gauge", "Memory of the process, where the system says.", resident()),
        }
        for name, (kind, words, value) in numbers.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}", f"{name} {value}"]
        lines += self.seconds.text("poisonproof_request_seconds", "From the head of a request to its answer.")
        lines += self.batches.text("poisonproof_batch_rows", "Rows that were answered together.")
        return "\n".join(lines) + "\n"


def resident() -> int:
    """Bytes of memory that the process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    except (OSError, IndexError, ValueError):
        return 0
