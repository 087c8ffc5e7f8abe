"""The table of all routes of version 1."""

from typing import Final

from log_service.http.rest_proxy.context import RestContext, handled
from log_service.http.rest_proxy.v1 import queues
from log_service.http.rest_proxy.v1.produce import produce
from log_service.http.rest_proxy.v1.reading import read
from log_service.http.server.routes import Route

RECORDS: Final = "/v1/topics/{topic}/records"
QUEUE: Final = "/v1/queues/{group}/topics/{topic}"
QUEUE_BODY_BYTES: Final = 64 << 10
QUEUE_DEADLINE_MS: Final = 90_000
"""Above the longest time that a client may wait for records."""


def routes(context: RestContext) -> list[Route]:
    """Return the routes of version 1."""
    return [
        Route(method="GET", path=RECORDS, handler=handled(context, read)),
        Route(method="POST", path=RECORDS, handler=handled(context, produce), is_streamed=True),
        *(
            Route(
                method="POST",
                path=f"{QUEUE}/{name}",
                handler=handled(context, handler),
                max_body_bytes=QUEUE_BODY_BYTES,
                deadline_ms=QUEUE_DEADLINE_MS,
            )
            for name, handler in (("acquire", queues.acquire), ("settle", queues.settle))
        ),
    ]
