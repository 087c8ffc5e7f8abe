"""The parameters of a stream of records, from the query and the headers of a request."""

from dataclasses import dataclass
from typing import Final, TypeVar

from log_service.http.record_formats.decoding import FORMATS
from log_service.http.record_formats.filters import Comparison, parse_filter
from log_service.http.rest_proxy.bodies import whole_number
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.v1.positions import Start, parse_start
from log_service.http.server.negotiation import best_media_type
from log_service.http.server.values import HttpRequest

NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
MEDIA_TYPES: Final = {"ndjson": NDJSON, "sse": EVENTS}
PARAMETERS: Final = (
    "from", "partitions", "limit", "follow", "filter", "encoding", "format", "isolation"
)  # fmt: skip
ISOLATIONS: Final = ("read_committed", "read_uncommitted")
BOOLEANS: Final = {"": False, "false": False, "0": False, "true": True, "1": True}
MAX_LIMIT: Final = 2**53
MAX_PARTITIONS: Final = 64
"""The most partitions of one stream. The id of each event has all their positions."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamQuery:
    """The records that a client requests.

    Empty ``partitions`` mean all, and a ``limit`` of None means no limit. ``encoding`` is the
    format of keys and values, one of ``FORMATS`` of decoding.
    """

    start: Start
    partitions: tuple[int, ...] = ()
    limit: int | None = None
    is_following: bool = False
    comparisons: tuple[Comparison, ...] = ()
    encoding: str = "auto"
    has_events: bool = False
    is_committed_only: bool = True


def query_of(request: HttpRequest) -> StreamQuery:
    """Return the parameters of a request for a stream.

    Raises:
        RestError: 422, a parameter is unknown or not valid. 406, ``Accept`` has no type of a
            stream.
        HttpError: 400, the filter is not valid.
    """
    given: dict[str, str] = {}
    for name, value in request.query:
        if name not in PARAMETERS:
            known = ", ".join(PARAMETERS)
            raise RestError(422, f"The query has {name[:60]!r}; it may have {known}.")
        given.setdefault(name, value.strip())
    is_following = _chosen(given, "follow", BOOLEANS)
    usual = "latest" if is_following else "earliest"
    last_id = request.headers.get("last-event-id", "").strip()
    limit = given.get("limit")
    return StreamQuery(
        start=parse_start(last_id or given.get("from") or usual),
        partitions=_partitions(given.get("partitions", "")),
        limit=None if limit is None else _number(limit, "limit", 1, MAX_LIMIT),
        is_following=is_following,
        comparisons=parse_filter(given.get("filter", "")),
        encoding=_chosen(given, "encoding", {"": FORMATS[0], **{each: each for each in FORMATS}}),
        has_events=_has_events(request, given),
        is_committed_only=_chosen(
            given, "isolation", {"": True, **{each: each == ISOLATIONS[0] for each in ISOLATIONS}}
        ),
    )


def _has_events(request: HttpRequest, given: dict[str, str]) -> bool:
    if given.get("format"):
        return _chosen(given, "format", {each: each == "sse" for each in MEDIA_TYPES})
    found = best_media_type(request.headers.get("accept"), (NDJSON, EVENTS))
    if found is None:
        raise RestError(406, f"HTTP 406 Not Acceptable: ask for {NDJSON} or {EVENTS}")
    return found == EVENTS


def _partitions(text: str) -> tuple[int, ...]:
    if not text:
        return ()
    parts = text.split(",", MAX_PARTITIONS)
    if len(parts) > MAX_PARTITIONS:
        raise RestError(422, f"partitions has at most {MAX_PARTITIONS} numbers.")
    return tuple(sorted({_number(each, "partitions", 0, 2**31 - 1) for each in parts}))


def _number(text: str, name: str, at_least: int, at_most: int) -> int:
    found = whole_number(text)
    if found is None or not at_least <= found <= at_most:
        reason = f"it has to be a whole number from {at_least} to {at_most}"
        raise RestError(422, f"{name} is {text[:30]!r}: {reason}.")
    return found


def _chosen(given: dict[str, str], name: str, choices: dict[str, T]) -> T:
    text = given.get(name, "")
    if text not in choices:
        allowed = ", ".join(filter(None, choices))
        raise RestError(422, f"{name} is {text[:30]!r}: it may be {allowed}.")
    return choices[text]
