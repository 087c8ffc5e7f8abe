"""The streams and other long work of a proxy: their number, their logins, and their end.

A stream is a task of the proxy and not of an HTTP connection, so the clients of the cluster that it
uses are closed in order. Invariants: the number of streams is bounded, in total and per login. All
streams end with a message when the proxy stops.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from log_service.http.server.service import Authenticate
from log_service.http.server.streams import Make, stream_of
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse
from log_service.http.server.work_limits import WorkLimits

LOGIN_PARTS: Final = 4
"""One login may have at most all streams divided by this. The same holds for other resources."""
MAX_KEYED_WRITES: Final = 32
"""Writes with an idempotency key at the same time. Each has a producer of its own."""


class Streams:
    """The streams of one proxy. ``stopping`` is set once, when the proxy stops."""

    def __init__(self, max_count: int) -> None:
        self.stopping = trio.Event()
        self.places = WorkLimits(
            most=max_count,
            most_of_one=max(1, max_count // LOGIN_PARTS),
            is_patient=False,
            status=429,
            busy=f"{max_count} streams are open, as many as streams.max allows",
            own_busy="your login has too many streams open: end one, or try again",
        )
        self.keyed_writes = WorkLimits(
            most=MAX_KEYED_WRITES,
            most_of_one=MAX_KEYED_WRITES // LOGIN_PARTS,
            status=429,
            busy="too many writes with an idempotency key wait: try again in a moment",
            own_busy="your login has too many writes with an idempotency key: try again",
        )
        self.authenticate: Authenticate | None = None
        """The check of logins, which a stream repeats from time to time."""
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<Streams stopping={self.stopping.is_set()}>"

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run all streams in a nursery, until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    async def stop_on_cancel(self) -> None:
        """Wait until the caller cancels, and then set ``stopping``."""
        try:
            await trio.sleep_forever()
        finally:
            self.stopping.set()

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run work that continues after its request. Does nothing unless ``run`` is running."""
        if self._nursery is not None:
            self._nursery.start_soon(work)

    def response(self, make: Make, content_type: str) -> HttpResponse:
        """Return a response whose pieces ``make`` sends.

        Raises:
            HttpError: 503, the proxy is stopping.
        """
        if self._nursery is None or self.stopping.is_set():
            raise HttpError(503, "the proxy is stopping", (("retry-after", "1"),))
        headers = (("cache-control", "no-store"), ("x-accel-buffering", "no"))
        body = stream_of(self._nursery, make)
        return HttpResponse(body=body, content_type=content_type, headers=headers)

    async def is_login_right(self, request: HttpRequest) -> bool:
        """Return whether the login of a request is still accepted, for the same user.

        Return True if the cluster cannot check the login now, so that its outage ends no stream.
        """
        if self.authenticate is None:
            return True
        try:
            return await self.authenticate(request) == request.principal
        except HttpError as error:
            return error.status != 401  # a cluster that does not respond ends no stream
