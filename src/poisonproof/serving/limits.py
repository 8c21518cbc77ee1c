"""How often somebody may ask: a bucket of tokens for each client, and never more than so many buckets."""

from __future__ import annotations

import time
from collections import OrderedDict

MOST_CLIENTS = 4096


class RateLimit:
    """So many requests a second for each client, and twice as many at once; 0 means no limit."""

    def __init__(self, rate: float) -> None:
        self.rate, self.room = rate, max(1.0, 2 * rate)
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str) -> float:
        """Seconds until this client may ask; 0 if it may now, and then it has."""
        if self.rate <= 0:
            return 0.0
        now = time.monotonic()
        tokens, at = self.buckets.pop(client, (self.room, now))
        tokens = min(self.room, tokens + (now - at) * self.rate)
        allowed = tokens >= 1
        self.buckets[client] = (tokens - 1 if allowed else tokens, now)
        if len(self.buckets) > MOST_CLIENTS:
            self.buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self.rate
