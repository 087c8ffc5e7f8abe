"""Reads the metrics pages of the nodes from time to time, and keeps the last hour.

Invariants: the pages are read at most every ``INTERVAL_S``, and reading takes at most a twentieth
of the time. If a page cannot be read, only its figures are missing, and the next sample tries
again.
"""

import logging
from collections.abc import Sequence
from typing import Final

import httpx
import trio

from log_service.common.env import Clock
from log_service.common.urls import shown_url
from log_service.http.console.history.history import History
from log_service.http.console.history.metrics_page import NodeFigures, PageReader
from log_service.http.console.history.rates import producer_rates, sample_of

INTERVAL_S: Final = 15.0
PAUSE_FACTOR: Final = 20
"""The least pause, as a multiple of the time that reading took."""
PAGE_TIMEOUT_S: Final = 10.0
MAX_PAGE_BYTES: Final = 64 << 20
PAGES_AT_ONCE: Final = 4
SPAN_MS: Final = 3_600_000

logger = logging.getLogger(__name__)


class Sampler:
    """Keeps the figures of the last hour of a cluster.

    ``urls`` are the metrics pages of the cluster's nodes.
    """

    def __init__(self, urls: Sequence[str], clock: Clock) -> None:
        self.urls = tuple(urls)
        self.history = History()
        self.failures: dict[str, str] = {}
        """The pages that could not be read the last time, each with the reason."""
        self.producer_rates: dict[tuple[str, str], float | None] = {}
        """Records per second by client id and topic, None if they are not known yet."""
        self.is_naming_clients = False
        """Whether a page that was read the last time has counts by client id."""
        self._clock = clock
        self._before: dict[str, NodeFigures] = {}
        self._before_ms = 0

    def __repr__(self) -> str:
        return f"<Sampler of {len(self.urls)} pages {self.history!r}>"

    async def run(self) -> None:
        """Take samples until cancelled."""
        # no proxy of the environment, and no redirect: the settings name the pages themselves
        async with httpx.AsyncClient(trust_env=False, timeout=PAGE_TIMEOUT_S) as client:
            while True:
                began_s = trio.current_time()
                await self.take(client)
                took_s = trio.current_time() - began_s
                await trio.sleep(max(INTERVAL_S - took_s, took_s * PAUSE_FACTOR))

    async def take(self, client: httpx.AsyncClient) -> None:
        """Read all pages, and keep one sample."""
        now: dict[str, NodeFigures] = {}
        failures: dict[str, str] = {}
        limiter = trio.CapacityLimiter(PAGES_AT_ONCE)

        async def read(url: str) -> None:
            async with limiter:
                try:
                    with trio.fail_after(PAGE_TIMEOUT_S):
                        now[url] = await read_page(client, url)
                except trio.TooSlowError:
                    failures[url] = f"it took longer than {PAGE_TIMEOUT_S:.0f} s"
                except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
                    failures[url] = str(error)[:200] or type(error).__name__

        async with trio.open_nursery() as nursery:
            for url in self.urls:
                nursery.start_soon(read, url)
        for url in failures.keys() - self.failures.keys():
            logger.warning("The metrics page %s cannot be read: %s", shown_url(url), failures[url])
        now_ms = self._clock.monotonic_ms()
        interval_s = (now_ms - self._before_ms) / 1_000
        sample = await trio.to_thread.run_sync(sample_of, self._before, now, interval_s)
        self.history.add(self._clock.wall_ms(), sample)
        self.producer_rates = producer_rates(self._before, now, interval_s)
        self.is_naming_clients = any(each.is_naming_clients for each in now.values())
        self._before, self._before_ms, self.failures = now, now_ms, failures


async def read_page(client: httpx.AsyncClient, url: str) -> NodeFigures:
    """Return the figures of one page. Other tasks run between the received parts.

    Raises:
        httpx.HTTPError: the page cannot be read.
        ValueError: the page is longer than ``MAX_PAGE_BYTES``, or is not a metrics page.
    """
    reader, size = PageReader(), 0
    headers = {"accept-encoding": "identity"}
    with trio.CancelScope() as scope:
        async with client.stream("GET", url, headers=headers) as response:
            if response.status_code != 200:
                raise ValueError(f"it responds with status {response.status_code}")
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > MAX_PAGE_BYTES:
                    scope.cancel()  # ends the response's generators from the inside, in order
                else:
                    reader.feed(piece)
    if scope.cancelled_caught:
        raise ValueError(f"it is longer than {MAX_PAGE_BYTES} bytes")
    return reader.figures
