"""Records as a stream, with a line of the response for each, and records as a batch.

A stream is read no faster than the cluster takes its records: a piece is read once all records of
the piece before are settled. A record that is refused does not end the stream. A stream that is no
JSON any more does, because nothing says where the next record begins.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

import trio

from log_service.client.connections.cluster_view import TopicView
from log_service.http.rest_proxy.bodies import (
    JSON,
    as_object,
    compact,
    elsewhere,
    json_response,
    list_of,
    read_object,
    refuse_unknown,
    text_of,
)
from log_service.http.rest_proxy.cluster_reading import known_topic
from log_service.http.rest_proxy.context import Call, error_response, refusal_of
from log_service.http.rest_proxy.errors import RestError, of_http
from log_service.http.rest_proxy.producing import Outcome, OutgoingRecord, require_room, send_all
from log_service.http.rest_proxy.v3.documents import ClusterCall, cluster_call
from log_service.http.rest_proxy.v3.json_stream import JsonObjects
from log_service.http.rest_proxy.v3.records import record_of, shown_outcome, shown_refusal
from log_service.http.server.json_bodies import parse_json
from log_service.http.server.values import HttpError, HttpResponse

MAX_RECORD_BYTES: Final = 3 << 19
"""The longest JSON of a record in a stream. A record of 1 MiB fits as base64."""
MAX_ENTRIES: Final = 1_000
MAX_ID_CHARACTERS: Final = 80
MULTI_STATUS: Final = 207
Prepared = tuple[dict[str, Any], OutgoingRecord]


async def produce(call: Call) -> HttpResponse:
    """Write the records of a stream, and send a line for each.

    A body with a single record has the status of that record.
    """
    at = await cluster_call(call)
    require_room(await call.producer())
    topic = await known_topic(call, call.value("topic"))
    pieces, objects = call.request.pieces, JsonObjects(MAX_RECORD_BYTES)
    if pieces is None:
        raise RestError(400, "The request has no body.")
    declared = int(call.request.headers.get("content-length", "-1"))
    read_bytes, first = 0, list[bytes]()
    while not first:
        try:
            piece = await anext(pieces)
        except StopAsyncIteration:
            raise RestError(400, "The body has no whole record.") from None
        read_bytes += len(piece)
        first = objects.add(piece)
        call.request.hold_bytes(objects.waiting_bytes)
    lines = await _written(at, topic, first)
    if read_bytes == declared and len(lines) == 1 and objects.is_between:
        return _single(lines[0])
    body = _stream(at, topic, pieces, objects, lines)
    return HttpResponse(body=body, content_type=JSON)


def _single(line: dict[str, Any]) -> HttpResponse:
    code = line["error_code"]
    if code == 200:
        return json_response(line)
    return error_response(RestError(code, line["message"]))


async def _stream(
    at: ClusterCall,
    topic: TopicView,
    pieces: AsyncIterator[bytes],
    objects: JsonObjects,
    lines: Sequence[dict[str, Any]],
) -> AsyncIterator[bytes]:
    """Yield the lines of the records. The clients are leased for as long as the stream lasts."""
    context = at.call.context
    async with context.clients.lease(at.call.credentials):
        yield _lines(lines)
        try:
            async for piece in pieces:
                found = objects.add(piece)
                at.call.request.hold_bytes(objects.waiting_bytes)
                if found:
                    yield _lines(await _written(at, topic, found))
        except (RestError, HttpError) as error:
            refusal = of_http(error) if isinstance(error, HttpError) else error
            yield _lines([shown_refusal(refusal)])
            return
    if not objects.is_between:
        yield _lines([shown_refusal(RestError(400, "The body ends within a record."))])


def _lines(lines: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(compact(each) + b"\r\n" for each in lines)


async def _written(
    at: ClusterCall, topic: TopicView, objects: Sequence[bytes]
) -> list[dict[str, Any]]:
    """Write the records of objects, and return a line for each, in their order."""
    prepared: list[Prepared | RestError] = []
    for each in objects:
        try:
            fields = await elsewhere(partial(parse_json, each), len(each))
            prepared.append((fields, record_of(fields, topic)))
        except (RestError, HttpError) as error:
            prepared.append(of_http(error) if isinstance(error, HttpError) else error)
        await trio.lowlevel.checkpoint()
    return await _outcomes(at, topic, prepared)


async def _outcomes(
    at: ClusterCall, topic: TopicView, prepared: Sequence[Prepared | RestError]
) -> list[dict[str, Any]]:
    records = [each[1] for each in prepared if not isinstance(each, RestError)]
    try:
        outcomes: list[Outcome | RestError] = [
            *await send_all(await at.call.producer(), topic.name, records)
        ]
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        outcomes = [refusal] * len(records)
    following = iter(outcomes)
    return [
        shown_refusal(each) if isinstance(each, RestError) else _line(at, each, next(following))
        for each in prepared
    ]


def _line(at: ClusterCall, prepared: Prepared, outcome: Outcome | RestError) -> dict[str, Any]:
    if isinstance(outcome, RestError):
        return shown_refusal(outcome)
    fields, record = prepared
    return shown_outcome(outcome, fields, record, at.cluster_id)


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
    prepared = await elsewhere(work, len(at.call.request.body))
    lines = await _outcomes(at, topic, prepared)
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
