"""The search in a table of routes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.http.server.routes import Route, Router
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse


async def handler(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def router(*rows: str) -> Router:
    pairs = [row.split() for row in rows]
    return Router([Route(method=method, path=path, handler=handler) for method, path in pairs])


REGISTRY = router(
    "GET /",
    "GET /subjects",
    "POST /subjects/{subject}",
    "GET /subjects/{subject}/versions/{version}",
    "GET /subjects/{subject}/versions/latest",
    "PUT /config",
    "PUT /config/{subject}",
    "GET /console/{file*}",
)


@pytest.mark.parametrize(
    ("method", "path", "found", "values"),
    [
        ("GET", "/", "/", {}),
        ("GET", "/subjects", "/subjects", {}),
        ("GET", "/subjects/", "/subjects", {}),
        ("HEAD", "/subjects", "/subjects", {}),
        ("POST", "/subjects/a%20b", "/subjects/{subject}", {"subject": "a b"}),
        ("POST", "/subjects/a%2Fb%2f", "/subjects/{subject}", {"subject": "a/b/"}),
        (
            "GET",
            "/subjects/s/versions/latest",
            "/subjects/{subject}/versions/latest",
            {"subject": "s"},
        ),
        (
            "GET",
            "/subjects/s/versions/1",
            "/subjects/{subject}/versions/{version}",
            {"subject": "s", "version": "1"},
        ),
        (
            "GET",
            "/subjects/a%zz%/versions/1",
            "/subjects/{subject}/versions/{version}",
            {"subject": "a%zz%", "version": "1"},
        ),
        ("GET", "/console/a/b%2Fc.js", "/console/{file*}", {"file": "a/b/c.js"}),
    ],
)
def test_a_path_finds_its_route(method: str, path: str, found: str, values: dict[str, str]) -> None:
    """Literal parts win, and placeholders are decoded after the path was split."""
    match = REGISTRY.find(method, path)
    assert (match.route.path, match.path_values) == (found, values)


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nothing", 404, None),
        ("GET", "/subjects//versions/1", 404, None),
        ("GET", "//subjects", 404, None),
        ("GET", "/console", 404, None),
        ("GET", "/a" * 33, 404, None),
        ("GET", "/subjects/%ff/versions/1", 400, None),
        ("GET", "/config", 405, "OPTIONS, PUT"),
        ("DELETE", "/subjects", 405, "GET, HEAD, OPTIONS"),
        ("get", "/subjects", 405, "GET, HEAD, OPTIONS"),
    ],
)
def test_other_requests_are_refused(method: str, path: str, status: int, allow: str | None) -> None:
    """A path without the method names the methods that it has."""
    with pytest.raises(HttpError) as refused:
        REGISTRY.find(method, path)
    assert refused.value.status == status
    assert dict(refused.value.headers).get("allow") == allow


def test_options_of_any_path_are_counted_under_the_path_of_a_route() -> None:
    """Each path of a stranger would be a row of the metrics otherwise."""
    paths = {
        REGISTRY.find("OPTIONS", f"/subjects/{name}/versions/1").route.path
        for name in ("a", "b", "%2F")
    }
    assert paths <= {route.path for route in REGISTRY.routes}
    assert REGISTRY.find("OPTIONS", "*").route.path in {"*", "/"}


def test_a_route_that_is_there_twice_is_refused() -> None:
    """Two placeholders of other names at the same place are the same path."""
    with pytest.raises(ValueError, match="twice"):
        router("GET /a/{b}", "GET /a/{c}")


@given(st.text(max_size=200), st.sampled_from(["GET", "HEAD", "OPTIONS", "x"]))
def test_any_path_is_found_or_refused(path: str, method: str) -> None:
    """No path is an error of another kind."""
    with contextlib.suppress(HttpError):
        REGISTRY.find(method, "/" + path)
