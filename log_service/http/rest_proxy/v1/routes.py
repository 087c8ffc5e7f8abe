"""The table of all routes of version 1."""

from log_service.http.rest_proxy.context import RestContext, handled
from log_service.http.rest_proxy.v1.produce import produce
from log_service.http.rest_proxy.v1.reading import read
from log_service.http.server.routes import Route

RECORDS = "/v1/topics/{topic}/records"


def routes(context: RestContext) -> list[Route]:
    """Return the routes of version 1."""
    return [
        Route(method="GET", path=RECORDS, handler=handled(context, read)),
        Route(method="POST", path=RECORDS, handler=handled(context, produce), is_streamed=True),
    ]
