"""Writes records to a topic: as a stream with a line for each, or once for an idempotency key.

The ``Content-Type`` of the body has to be JSON. A browser page of another site cannot send this
type without a CORS preflight, which the proxy does not grant.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio

from log_service.http.rest_proxy.bodies import JSON, MAX_BODY_BYTES, run_off_loop
from log_service.http.rest_proxy.cluster_reading import known_topic
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.json_stream import JsonObjects
from log_service.http.rest_proxy.producing import Outcome, OutgoingRecord, require_room
from log_service.http.rest_proxy.record_stream import (
    MAX_RECORD_BYTES,
    Prepared,
    RecordStream,
    as_refusal,
    text_of_lines,
)
from log_service.http.rest_proxy.v1.idempotency import (
    KEY_HEADER,
    REPLAYED,
    KeyedBody,
    checked_key,
    keyed_id,
    write_once,
)
from log_service.http.rest_proxy.v1.query import NDJSON
from log_service.http.rest_proxy.v1.records import (
    ENCODERS,
    record_of,
    shown_outcome,
    shown_place,
    shown_refusal,
)
from log_service.http.server.negotiation import parse_media_type
from log_service.http.server.values import HttpError, HttpRequest, HttpResponse

BODY_TYPES: Final = (NDJSON, JSON, "application/jsonl", "application/x-jsonlines")
MAX_KEYED_RECORDS: Final = 10_000


async def produce(call: Call) -> HttpResponse:
    """Write records, JSON objects one after the other, and send a line for each.

    With the header Idempotency-Key, the body is written as a whole or not at all, and only once,
    however often and to whichever proxy it is sent. A repeat gets the lines of the first response.
    """
    require_json(call.request)
    encoding = encoding_of(call.request)
    require_room(await call.producer())
    topic = await known_topic(call, call.value("topic"))

    async def prepare(fields: Mapping[str, Any], size_bytes: int) -> Prepared:
        work = partial(record_of, fields, topic.partition_count, encoding)
        return {}, await run_off_loop(work, size_bytes)

    def shown(outcome: Outcome, _prepared: Prepared) -> dict[str, Any]:
        return shown_outcome(outcome)

    stream = RecordStream(
        call=call,
        topic=topic,
        prepare=prepare,
        shown=shown,
        refused=shown_refusal,
        content_type=NDJSON,
    )
    key = call.request.headers.get(KEY_HEADER)
    if key is None:
        return await stream.respond()
    return await _respond_once(stream, checked_key(key), encoding)


def require_json(request: HttpRequest) -> None:
    """Refuse a content type that a page of another site could send without a CORS preflight.

    Raises:
        RestError: 415, the content type is not JSON.
    """
    found = parse_media_type(request.headers.get("content-type", ""))
    if found is None or found.name not in BODY_TYPES:
        advice = f"send Content-Type: {NDJSON} or {JSON}"
        raise RestError(415, f"HTTP 415 Unsupported Media Type: {advice}")


def encoding_of(request: HttpRequest) -> str:
    """Return the requested encoding of keys and values, a key of ``ENCODERS``.

    Raises:
        RestError: 422, the query has another parameter or value.
    """
    for name, _ in request.query:
        if name != "encoding":
            raise RestError(422, f"The query has {name[:60]!r}; it may have encoding.")
    found = request.query_value("encoding") or next(iter(ENCODERS))
    if found not in ENCODERS:
        raise RestError(422, f"encoding is {found[:30]!r}: it may be {', '.join(ENCODERS)}.")
    return found


async def _respond_once(stream: RecordStream, key: str, encoding: str) -> HttpResponse:
    """Write the records of a body with an idempotency key, and return their lines.

    Nothing is written if an earlier request with the key has written them.
    """
    call = stream.call
    body = await _whole_body(call.request)
    records = await _all_records(stream, body)
    principal, topic = call.request.principal, stream.topic.name
    name = keyed_id(principal, topic, key)
    keyed = await run_off_loop(
        partial(KeyedBody.of, name, topic, encoding, body, records), len(body)
    )
    async with call.context.streams.keyed_writes.one_of(
        "" if call.credentials is None else principal
    ):
        found = await write_once(call, keyed, stream.topic.partition_count)
    headers = ((REPLAYED, "true"),) if found.is_repeat else ()
    lines = await run_off_loop(
        lambda: text_of_lines([shown_place(*place) for place in found.places]), len(body)
    )
    return HttpResponse(body=lines, content_type=NDJSON, headers=headers)


async def _whole_body(request: HttpRequest) -> bytes:
    """Read the whole body. Its bytes count towards the server's limit of memory.

    Raises:
        RestError: 413, the body is too long.
        HttpError: too many bodies are in memory.
    """
    pieces, size_bytes = list[bytes](), 0
    if request.pieces is not None:
        async for piece in request.pieces:
            pieces.append(piece)
            size_bytes += len(piece)
            request.hold_bytes(size_bytes)
            if size_bytes > MAX_BODY_BYTES:
                text = f"A body with {KEY_HEADER} has at most {MAX_BODY_BYTES} bytes."
                raise RestError(413, text)
    return b"".join(pieces)


async def _all_records(stream: RecordStream, body: bytes) -> list[OutgoingRecord]:
    """Return all records of a body.

    Raises:
        RestError: a record is not valid, or there are too many or none. The text has the number of
            an invalid record.
    """
    objects = JsonObjects(MAX_RECORD_BYTES)
    found = await run_off_loop(partial(objects.add, body), len(body))
    if objects.fault is not None:
        raise objects.fault
    if not found or not objects.is_between:
        raise RestError(400, "The body has no whole record, or ends within one.")
    if len(found) > MAX_KEYED_RECORDS:
        text = f"A body with {KEY_HEADER} has at most {MAX_KEYED_RECORDS} records."
        raise RestError(413, text)
    records: list[OutgoingRecord] = []
    for number, each in enumerate(found, 1):
        try:
            _, record = await stream.prepared(each)
        except (RestError, HttpError) as error:
            refusal = as_refusal(error)
            raise RestError(refusal.code, f"Record {number}: {refusal.text}") from error
        records.append(record)
        await trio.lowlevel.checkpoint()
    return records
