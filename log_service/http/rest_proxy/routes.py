"""The table of all routes of the proxy, and the proxy as a service of an HTTP server."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from log_service.http.rest_proxy.context import RestContext, http_error
from log_service.http.rest_proxy.metrics import families
from log_service.http.rest_proxy.openapi import index_routes, openapi_route
from log_service.http.rest_proxy.v1.routes import routes as v1_routes
from log_service.http.rest_proxy.v2.routes import doubled_routes
from log_service.http.rest_proxy.v2.routes import routes as v2_routes
from log_service.http.rest_proxy.v3.routes import routes as v3_routes
from log_service.http.server.health import health_routes
from log_service.http.server.metrics import HttpMeter, metrics_route
from log_service.http.server.routes import Route, Router
from log_service.http.server.service import Authenticate, HttpService


def rest_routes(context: RestContext) -> list[Route]:
    """Return the routes of all versions."""
    versions: Sequence[Callable[[RestContext], Iterable[Route]]] = (v1_routes, v2_routes, v3_routes)
    return [route for routes in versions for route in routes(context)]


def rest_service(context: RestContext, authenticate: Authenticate, meter: HttpMeter) -> HttpService:
    """Return the proxy as a service, with its health and its metrics."""
    figures = partial(families, meter, context.clients, context.instances, context.readers)
    routes = rest_routes(context)
    extra = [
        *doubled_routes(context),
        *health_routes(_no_obstacle),
        metrics_route(figures, is_public=False),
        openapi_route(routes),
        *index_routes(),
    ]
    return HttpService(
        router=Router([*routes, *extra]),
        authenticate=authenticate,
        error_response=http_error,
        note_response=meter.note,
        host_names=context.settings.host_names,
        is_host_checked=not context.settings.logins,
    )


def _no_obstacle() -> str | None:
    """Return None, because a proxy is ready as soon as it listens."""
    return None
