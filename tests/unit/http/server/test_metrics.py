"""The page of metrics: counts, durations, and what strangers cannot add to it."""

from log_service.http.server.metrics import HttpMeter, metrics_route, server_families
from tests.sim import VirtualClock
from tests.unit.http.server.harness import GET, Stage, play


def test_the_page_has_counts_and_durations() -> None:
    """Each route has its statuses. Requests without a route are one row."""
    meter = HttpMeter(VirtualClock(now=lambda: 0.0))
    for status in (200, 200, 404):
        meter.note("GET", "/subjects/{subject}", status, 2_000_000)
    for _ in range(3):
        meter.note("", "", 404, 1_000)

    async def scene(stage: Stage) -> None:
        client = await stage.connect()
        answer = await client.ask(GET.replace(b"/hello", b"/metrics"))
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = answer.body.decode().splitlines()
        route = 'method="GET",path="/subjects/{subject}"'
        assert f'tidelog_http_requests_total{{{route},status="200"}} 2' in lines
        assert f'tidelog_http_requests_total{{{route},status="404"}} 1' in lines
        assert 'tidelog_http_requests_total{method="",path="",status="404"} 3' in lines
        assert f"tidelog_http_request_time_ms_sum{{{route}}} 6.0" in lines
        assert f"tidelog_http_request_time_ms_count{{{route}}} 3" in lines
        assert "# TYPE tidelog_http_request_time_ms summary" in lines
        families = {family.name: list(family.samples) for family in server_families(stage.server)}
        assert families == {
            "tidelog_http_connections": [("", "", 1)],
            "tidelog_http_open_requests": [("", "", 0)],
        }

    play(scene, routes=[metrics_route(meter.families, is_public=True)])
