"""Records as a stream, with a line of the response for each, and records as a batch."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from log_service.client.connections.cluster_view import TopicView
from log_service.http.rest_proxy.bodies import (
    as_object,
    json_response,
    list_of,
    read_object,
    refuse_unknown,
    run_off_loop,
    text_of,
)
from log_service.http.rest_proxy.cluster_reading import known_topic
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.producing import Outcome, OutgoingRecord, require_room
from log_service.http.rest_proxy.record_stream import Prepared, RecordStream
from log_service.http.rest_proxy.v3.documents import ClusterCall, cluster_call
from log_service.http.rest_proxy.v3.records import record_of, shown_outcome, shown_refusal
from log_service.http.server.values import HttpResponse

MAX_ENTRIES: Final = 1_000
MAX_ID_CHARACTERS: Final = 80
MULTI_STATUS: Final = 207


async def produce(call: Call) -> HttpResponse:
    """Write the records of a stream, and send a line for each.

    A body with a single record has the status of that record.
    """
    at = await cluster_call(call)
    require_room(await call.producer())
    return await _stream(at, await known_topic(call, call.value("topic"))).respond()


def _stream(at: ClusterCall, topic: TopicView) -> RecordStream:
    def made(fields: Mapping[str, Any]) -> OutgoingRecord:
        return record_of(fields, topic)

    def shown(outcome: Outcome, prepared: Prepared) -> dict[str, Any]:
        return shown_outcome(outcome, *prepared, at.cluster_id)

    return RecordStream(
        call=at.call, topic=topic, record_of=made, shown=shown, refused=shown_refusal
    )


async def produce_batch(at: ClusterCall) -> HttpResponse:
    """Write the records of a batch. Each has an id, by which the response names it."""
    body = await read_object(at.call.request)
    refuse_unknown(body, ("entries",), "The body")
    entries = [
        as_object(each, "An entry") for each in list_of(body, "entries", max_count=MAX_ENTRIES)
    ]
    if not entries:
        raise RestError(422, "entries is empty: a batch has at least one record.")
    ids = [text_of(each, "id") for each in entries]
    if len(set(ids)) < len(ids) or not all(0 < len(each) <= MAX_ID_CHARACTERS for each in ids):
        raise RestError(422, "id has to be a short text that no other entry has.")
    require_room(await at.call.producer())
    topic = await known_topic(at.call, at.value("topic"))
    work = partial(_prepared, entries, topic)
    prepared = await run_off_loop(work, len(at.call.request.body))
    lines = await _stream(at, topic).outcomes(prepared)
    shown: dict[str, list[dict[str, Any]]] = {"successes": [], "failures": []}
    for entry_id, line in zip(ids, lines, strict=True):
        is_written = line["error_code"] == 200
        shown["successes" if is_written else "failures"].append({"id": entry_id, **line})
    return json_response(shown, status=MULTI_STATUS)


def _prepared(entries: Sequence[dict[str, Any]], topic: TopicView) -> list[Prepared | RestError]:
    found: list[Prepared | RestError] = []
    for each in entries:
        fields = {name: value for name, value in each.items() if name != "id"}
        try:
            found.append((fields, record_of(fields, topic)))
        except RestError as error:
            found.append(error)
    return found
