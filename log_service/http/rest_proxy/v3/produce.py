"""Writes records as a stream with a response line for each, or as a batch."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import trio

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
from log_service.http.rest_proxy.producing import Outcome, require_room
from log_service.http.rest_proxy.record_stream import Prepared, RecordStream
from log_service.http.rest_proxy.v3.documents import MULTI_STATUS, ClusterCall, cluster_call
from log_service.http.rest_proxy.v3.parts import KnownEncoders, RecordEncoders, find_encoders
from log_service.http.rest_proxy.v3.records import (
    prepared_record,
    shown_outcome,
    shown_refusal,
)
from log_service.http.server.values import HttpResponse

MAX_ENTRIES: Final = 1_000
MAX_ID_CHARACTERS: Final = 80


async def produce(call: Call) -> HttpResponse:
    """Write the records of a stream, and send a line for each.

    The response to a body with a single record has the status of that record.
    """
    at = await cluster_call(call)
    require_room(await call.producer())
    return await _stream(at, await known_topic(call, call.value("topic"))).respond()


def _stream(at: ClusterCall, topic: TopicView) -> RecordStream:
    known: KnownEncoders = {}

    async def prepare(fields: Mapping[str, Any], size_bytes: int) -> Prepared:
        encoders = await find_encoders(at.call, topic.name, fields, known)
        work = partial(prepared_record, fields, topic, encoders)
        return await run_off_loop(work, size_bytes, has_schema=bool(encoders))

    def shown(outcome: Outcome, prepared: Prepared) -> dict[str, Any]:
        return shown_outcome(outcome, *prepared, at.cluster_id)

    return RecordStream(
        call=at.call,
        topic=topic,
        prepare=prepare,
        shown=shown,
        refused=shown_refusal,
        forget=known.clear,
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
    prepared = await _prepared(at, topic, entries)
    lines = await _stream(at, topic).outcomes(prepared)
    shown: dict[str, list[dict[str, Any]]] = {"successes": [], "failures": []}
    for entry_id, line in zip(ids, lines, strict=True):
        is_written = line["error_code"] == 200
        shown["successes" if is_written else "failures"].append({"id": entry_id, **line})
    return json_response(shown, status=MULTI_STATUS)


async def _prepared(
    at: ClusterCall, topic: TopicView, entries: Sequence[dict[str, Any]]
) -> list[Prepared | RestError]:
    known: KnownEncoders = {}
    found: list[RecordEncoders | RestError] = []
    given = [{name: part for name, part in each.items() if name != "id"} for each in entries]
    for fields in given:
        try:
            found.append(await find_encoders(at.call, topic.name, fields, known))
        except RestError as error:
            found.append(error)
        await trio.lowlevel.checkpoint()

    def work() -> list[Prepared | RestError]:
        return [
            encoders if isinstance(encoders, RestError) else _made(fields, topic, encoders)
            for fields, encoders in zip(given, found, strict=True)
        ]

    return await run_off_loop(work, len(at.call.request.body), has_schema=bool(known))


def _made(
    fields: Mapping[str, Any], topic: TopicView, encoders: RecordEncoders
) -> Prepared | RestError:
    try:
        return prepared_record(fields, topic, encoders)
    except RestError as error:
        return error
