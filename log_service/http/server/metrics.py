"""Counts and durations of requests by route, and the page that shows them to Prometheus.

Metric names begin with ``tidelog_http_``. A request without a route has an empty path, so that
requests of strangers add no label values. A request whose client left has status 499.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import trio

from log_service.common.env import Clock
from log_service.http.server.routes import Route
from log_service.http.server.server import HttpServer
from log_service.http.server.values import HttpRequest, HttpResponse
from log_service.metrics.exposition import CONTENT_TYPE, Family, Sample, labels, rendered
from log_service.metrics.latency import NS_PER_MS, LatencyMeter, quantiles_ms

QUANTILES = {"0.5": 0.5, "0.9": 0.9, "0.99": 0.99, "0.999": 0.999}


class HttpMeter:
    """Counts the requests of one service. ``note`` is its ``HttpService.note_response``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts = Counter[tuple[str, str, int]]()
        self._times: dict[tuple[str, str], LatencyMeter] = {}

    def __repr__(self) -> str:
        return f"<HttpMeter requests={self._counts.total()}>"

    def note(self, method: str, path: str, status: int, duration_ns: int) -> None:
        """Count a response. ``service.NoteResponse`` explains the arguments."""
        self._counts[method, path, status] += 1
        meter = self._times.get((method, path))
        if meter is None:
            meter = self._times[method, path] = LatencyMeter(self._clock.monotonic_ms())
        meter.note(duration_ns)

    def families(self) -> Iterator[Family]:
        """Yield the metrics of request counts and durations."""
        yield Family(
            name="tidelog_http_requests_total",
            type="counter",
            help="Requests by method, path of the route, and status.",
            samples=self._count_samples(),
        )
        yield Family(
            name="tidelog_http_request_time_ms",
            type="summary",
            help="Time from the head of a request to the end of its response, in milliseconds.",
            samples=self._time_samples(),
        )

    def _count_samples(self) -> Iterator[Sample]:
        for (method, path, status), count in sorted(self._counts.items()):
            yield "", labels({"method": method, "path": path, "status": status}), count

    def _time_samples(self) -> Iterator[Sample]:
        now_ms = self._clock.monotonic_ms()
        for (method, path), meter in sorted(self._times.items()):
            names = {"method": method, "path": path}
            found = quantiles_ms(meter.recent(now_ms), tuple(QUANTILES.values()))
            for text, value in zip(QUANTILES, found, strict=True):
                yield "", labels({**names, "quantile": text}), round(value, 6)
            yield "_sum", labels(names), meter.sum_ns / NS_PER_MS
            yield "_count", labels(names), meter.count


def server_families(server: HttpServer) -> Iterator[Family]:
    """Yield the metrics of a server's open connections and requests."""
    counts = {
        "connections": ("Connections open now.", server.connection_count),
        "open_requests": ("Requests whose response is not complete.", server.open_request_count),
    }
    for name, (text, count) in counts.items():
        samples = [("", "", count)]
        yield Family(name=f"tidelog_http_{name}", type="gauge", help=text, samples=samples)


def metrics_route(make: Callable[[], Iterable[Family | None]], *, is_public: bool) -> Route:
    """Return the route ``GET /metrics``, which shows the families that ``make`` returns."""

    async def respond(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=_chunks(rendered(make())), content_type=CONTENT_TYPE)

    return Route(method="GET", path="/metrics", handler=respond, is_public=is_public)


async def _chunks(page: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the page in chunks, and let other tasks run between two of them."""
    for chunk in page:
        yield chunk
        await trio.lowlevel.checkpoint()
