"""The routes by which an orchestrator checks whether a service is alive and ready."""

from collections.abc import Callable

from log_service.http.server.routes import Route
from log_service.http.server.values import PLAIN_TEXT, HttpRequest, HttpResponse

OK = HttpResponse(body=b"ok\n", content_type=PLAIN_TEXT)


def health_routes(obstacle: Callable[[], str | None]) -> tuple[Route, Route]:
    """Return ``/healthz`` and ``/readyz``, which need no login.

    ``obstacle`` returns why the service is not ready, None if it is.
    """

    async def respond_alive(_request: HttpRequest) -> HttpResponse:
        return OK

    async def respond_ready(_request: HttpRequest) -> HttpResponse:
        text = obstacle()
        if text is None:
            return OK
        return HttpResponse(status=503, body=f"{text}\n".encode(), content_type=PLAIN_TEXT)

    return (
        Route(method="GET", path="/healthz", handler=respond_alive, is_public=True),
        Route(method="GET", path="/readyz", handler=respond_ready, is_public=True),
    )
