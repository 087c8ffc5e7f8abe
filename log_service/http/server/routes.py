"""The routes of a service: one table of methods, paths and handlers, and the search in it.

A path is split at its slashes before anything is decoded. A placeholder ``{name}`` matches one
part, which may have an encoded slash. A last placeholder ``{name*}`` matches all remaining parts.
A literal part is preferred to a placeholder. A single slash at the end of a path is ignored.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from log_service.http.server.values import Handler, HttpError, HttpRequest, HttpResponse

MAX_PART_COUNT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One row of the table.

    If a bound or deadline is None, that of the server applies. A streaming route gets ``pieces``
    instead of a body, and its body is not bounded if ``max_body_bytes`` is None. A public route
    needs no login.
    """

    method: str
    path: str
    handler: Handler
    max_body_bytes: int | None = None
    deadline_ms: int | None = None
    is_streamed: bool = False
    is_public: bool = False


class Match(NamedTuple):
    """A matching route, and the decoded values of its placeholders."""

    route: Route
    path_values: Mapping[str, str]


@dataclass(slots=True)
class _Node:
    """A node of the search tree: the routes whose paths have the same beginning."""

    children: dict[str, "_Node"] = field(default_factory=dict)
    any_part: "_Node | None" = None
    rest: "_Node | None" = None
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)
    """By method, with the names of the placeholders."""


class Router:
    """Finds routes in a table. GET routes handle HEAD too, and every path has OPTIONS.

    Raises:
        ValueError: two routes have the same method and path.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in routes:
            self._add(route)

    def __repr__(self) -> str:
        return f"<Router routes={len(self.routes)}>"

    def find(self, method: str, path: str) -> Match:
        """Return the route of a request.

        Raises:
            HttpError: 404, no route has the path. 405 with ``Allow``, it has another method. 400,
                the path is not UTF-8.
        """
        parts = _parts(path)
        wanted = "GET" if method == "HEAD" else method
        allowed: dict[str, Route] = {}
        for routes, texts in _matches(self._root, parts, ()):
            if wanted in routes:
                route, names = routes[wanted]
                return Match(route, _decoded(names, texts))
            allowed |= {each: route for each, (route, _) in routes.items()}
        if not allowed and path != "*":
            raise HttpError(404, f"there is nothing at {path[:200]}")
        heads = {"HEAD"} if "GET" in allowed else set()
        allow = ("allow", ", ".join(sorted({"OPTIONS", *allowed, *heads})))
        if method != "OPTIONS":
            raise HttpError(405, f"{method[:20]} is not possible at {path[:200]}", (allow,))
        known = next((route.path for route in allowed.values()), "*")
        return Match(_options_route(known, allow), {})

    def _add(self, route: Route) -> None:
        node, names = self._root, list[str]()
        for part in _parts(route.path):
            if not part.startswith("{"):
                node = node.children.setdefault(part, _Node())
            elif part.endswith("*}"):
                names.append(part[1:-2])
                node.rest = node.rest or _Node()
                node = node.rest
            else:
                names.append(part[1:-1])
                node.any_part = node.any_part or _Node()
                node = node.any_part
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} is there twice")
        node.routes[route.method] = route, tuple(names)


Found = tuple[dict[str, tuple[Route, tuple[str, ...]]], tuple[str, ...]]
"""The routes of a path by method, and the encoded texts of its placeholders."""


def _matches(node: _Node, parts: Sequence[str], texts: tuple[str, ...]) -> Iterator[Found]:
    """Yield the routes that match all parts, the most literal ones first."""
    if not parts:
        if node.routes:
            yield node.routes, texts
        return
    first, rest = parts[0], parts[1:]
    if first in node.children:
        yield from _matches(node.children[first], rest, texts)
    if node.any_part is not None and first:
        yield from _matches(node.any_part, rest, (*texts, first))
    if node.rest is not None:
        yield node.rest.routes, (*texts, "/".join(parts))


def _parts(path: str) -> list[str]:
    parts = path.removesuffix("/").split("/")[1:]
    if len(parts) > MAX_PART_COUNT:
        raise HttpError(404, f"a path has at most {MAX_PART_COUNT} parts")
    return parts


def _decoded(names: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, str]:
    try:
        values = [unquote(text, errors="strict") if "%" in text else text for text in texts]
    except UnicodeDecodeError as error:
        raise HttpError(400, "the path is not UTF-8") from error
    return dict(zip(names, values, strict=True))


def _options_route(path: str, allow: tuple[str, str]) -> Route:
    """Return the route of OPTIONS for a path of the table. Metrics count it under that path."""

    async def respond(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(status=204, headers=(allow,))

    return Route(method="OPTIONS", path=path, handler=respond, is_public=True)
