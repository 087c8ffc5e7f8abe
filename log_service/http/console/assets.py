"""Serves the static files: styles, scripts and the icon.

The files are read once, when the routes are made. A client cannot name a path to read.
"""

from log_service.http.console.browser_rules import SECURITY_HEADERS
from log_service.http.console.rendering import HERE, mark_of
from log_service.http.server.routes import Route
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse

CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
FOREVER = ("cache-control", "public, max-age=31536000, immutable")


def asset_routes() -> tuple[Route, Route]:
    """Return the routes of the static files, and of the icon that browsers ask for."""
    responses = {
        (mark_of(path), path.name): HttpResponse(
            body=path.read_bytes(),
            content_type=CONTENT_TYPES[path.suffix],
            headers=(*SECURITY_HEADERS, FOREVER),
        )
        for path in sorted((HERE / "static").iterdir())
        if path.suffix in CONTENT_TYPES
    }
    icon = next(each for (_, name), each in responses.items() if name == "icon.svg")

    async def respond(request: HttpRequest) -> HttpResponse:
        values = request.path_values
        found = responses.get((values["mark"], values["name"]))
        if found is None:
            raise HttpError(404, "there is no such file")
        return found

    async def respond_icon(_request: HttpRequest) -> HttpResponse:
        return icon

    return (
        Route(method="GET", path="/static/{mark}/{name}", handler=respond, is_public=True),
        Route(method="GET", path="/favicon.ico", handler=respond_icon, is_public=True),
    )
