"""The process that serves: its socket, its signals, and patience that ends.

uvicorn speaks HTTP. What it leaves to others is here: a head that does not arrive is answered and its connection
closed, and SIGTERM ends the process with code 0 when all requests that were being answered have their answers.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

from poisonproof.errors import PoisonproofError, missing_extra
from poisonproof.runs.answers import SavedRun
from poisonproof.serving.app import App, ServeSettings

MOST_CONNECTIONS = 512
LARGEST_HEAD = 1 << 15
KEEP_ALIVE = 15
SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 44\r\n\r\n"
    b'{"error": "The request did not arrive."}    '
)


def bound(settings: ServeSettings) -> socket.socket:
    """The socket to listen on; one sentence if it cannot be had."""
    where = f"{settings.host}:{settings.port}"
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((settings.host, settings.port), family=family, backlog=256)
    except OverflowError:
        raise PoisonproofError(f"A port is a number from 0 to 65535. Got {settings.port}.") from None
    except socket.gaierror:
        raise PoisonproofError(f"There is no host '{settings.host}' to listen on; leave --host out.") from None
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: "something listens there already; choose another --port",
            errno.EACCES: "ports below 1024 need rights that this process has not; choose another --port",
            errno.EADDRNOTAVAIL: "this machine has no such address; leave --host out",
        }
        reason = reasons.get(error.errno or 0, str(error))
        raise PoisonproofError(f"Cannot listen on {where}: {reason}.") from None


def serve(kept: SavedRun, settings: ServeSettings, ready: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or SIGINT; ``ready`` is told the address."""
    try:
        import uvicorn
        from uvicorn.protocols.http.h11_impl import H11Protocol
    except ImportError:
        raise missing_extra("Serving", "uvicorn", "serve") from None

    app = App(kept, settings)

    class PatientProtocol(H11Protocol):
        """A connection whose next head must arrive in time."""

        waits: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if self.waits is None and (before is None or before.response_complete):
                self._wait()
            super().data_received(data)
            if self.cycle is not before:
                self._cease()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cease()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._cease()
            self.waits = self.loop.call_later(settings.timeout, self._too_slow)

        def _cease(self) -> None:
            if self.waits is not None:
                self.waits.cancel()
                self.waits = None

        def _too_slow(self) -> None:
            self.waits = None
            if not self.transport.is_closing():
                self.transport.write(SLOW)
                self.transport.close()

    class EndingServer(uvicorn.Server):
        """A server that says when it is ready, and that a signal does not kill after it has ended well."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            host, port = listening.getsockname()[:2]
            ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.ending = True
            super().handle_exit(sig, frame)
            self._captured_signals.clear()

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a malformed request has its answer, and is no news
    with bound(settings) as listening:
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
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
        EndingServer(config).run([listening])
