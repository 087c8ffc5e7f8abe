"""The table of all routes of version 2."""

from dataclasses import replace
from typing import Final

from log_service.http.rest_proxy.bodies import MAX_BODY_BYTES
from log_service.http.rest_proxy.context import CallHandler, RestContext, handled
from log_service.http.rest_proxy.v2 import consumers, metadata
from log_service.http.rest_proxy.v2.media_types import refusal_type_of
from log_service.http.rest_proxy.v2.produce import produce
from log_service.http.server.routes import Route

INSTANCE: Final = "/consumers/{group}/instances/{instance}"
POSITIONS: Final = "/positions/"
READ_DEADLINE_MS: Final = 90_000
"""Above the longest time that a client may wait for records."""
ROWS: Final[tuple[tuple[str, str, CallHandler], ...]] = (
    ("GET", "/topics", metadata.list_topics),
    ("GET", "/topics/{topic}", metadata.get_topic),
    ("POST", "/topics/{topic}", produce),
    ("GET", "/topics/{topic}/partitions", metadata.list_partitions),
    ("GET", "/topics/{topic}/partitions/{partition}", metadata.get_partition),
    ("POST", "/topics/{topic}/partitions/{partition}", produce),
    ("GET", "/topics/{topic}/partitions/{partition}/offsets", metadata.get_offsets),
    ("GET", "/brokers", metadata.list_brokers),
    ("POST", "/consumers/{group}", consumers.create),
    ("DELETE", INSTANCE, consumers.delete),
    ("GET", f"{INSTANCE}/subscription", consumers.get_subscription),
    ("POST", f"{INSTANCE}/subscription", consumers.subscribe),
    ("DELETE", f"{INSTANCE}/subscription", consumers.unsubscribe),
    ("GET", f"{INSTANCE}/assignments", consumers.get_assignments),
    ("POST", f"{INSTANCE}/assignments", consumers.assign),
    ("POST", f"{INSTANCE}/positions", consumers.seek),
    ("POST", f"{INSTANCE}/positions/beginning", consumers.seek_to_beginning),
    ("POST", f"{INSTANCE}/positions/end", consumers.seek_to_end),
    ("GET", f"{INSTANCE}/offsets", consumers.get_committed),
    ("POST", f"{INSTANCE}/offsets", consumers.commit),
    ("GET", f"{INSTANCE}/records", consumers.read),
)


def routes(context: RestContext) -> list[Route]:
    """Return the routes of version 2."""
    return [
        Route(
            method=method,
            path=path,
            handler=handled(context, handler, refusal_type_of),
            max_body_bytes=MAX_BODY_BYTES,
            deadline_ms=READ_DEADLINE_MS,
        )
        for method, path, handler in ROWS
    ]


def doubled_routes(context: RestContext) -> list[Route]:
    """Return the routes whose paths some clients write with a double slash.

    A client does so if it appends a path to a URL that ends in a slash.
    """
    return [
        replace(each, path=each.path.replace(POSITIONS, f"{POSITIONS}/"))
        for each in routes(context)
        if POSITIONS in each.path
    ]
