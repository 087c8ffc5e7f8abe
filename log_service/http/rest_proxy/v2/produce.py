"""Writes the records of a request to a topic.

The whole request is read and encoded before the first record is sent. So if one record is not
valid, none is written. After that each record has its own outcome.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from log_service.client import KafkaError
from log_service.client.connections.cluster_view import TopicView
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import (
    as_object,
    json_response,
    list_of,
    number_of,
    read_object,
    refuse_unknown,
    run_off_loop,
    text_of,
)
from log_service.http.rest_proxy.cluster_reading import known_topic, partition_of
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.formats import (
    BAD_REQUEST,
    binary_to_bytes,
    json_to_bytes,
)
from log_service.http.rest_proxy.producing import (
    MAX_PARTITION,
    Outcome,
    OutgoingRecord,
    require_room,
    send_all,
)
from log_service.http.rest_proxy.v2.media_types import (
    content_type_of,
    format_of_body,
    is_format_named,
)
from log_service.http.server.values import HttpResponse
from log_service.records.record import RecordHeader

PERMANENT, RETRIABLE = 1, 2
"""The codes of a record that was not written, and of one that may be sent again."""
RECORD_FIELDS: Final = ("key", "value", "partition", "headers", "timestamp")
SCHEMA_FIELDS: Final = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
BODY_FIELDS: Final = ("records", *SCHEMA_FIELDS)

Encode = Callable[[Any], bytes | None]
UNNAMED_ADVICE: Final = (
    "The Content-Type names no format, so it is binary: use application/vnd.kafka.json.v2+json for"
    " JSON, application/vnd.kafka.binary.v2+json for base64."
)
PLAIN: Final[Mapping[str, Encode]] = MappingProxyType(
    {"binary": binary_to_bytes, "json": json_to_bytes}
)


async def produce(call: Call) -> HttpResponse:
    """Write the records of a body to a topic, or to the partition in the path."""
    content_type = content_type_of(call.request)
    record_format = format_of_body(call.request)
    body = await read_object(call.request)
    refuse_unknown(body, BODY_FIELDS, "The body")
    given = body.get("records") and list_of(body, "records", code=BAD_REQUEST)
    if not given:
        raise RestError(422, "records is empty: a request has at least one record.")
    require_room(await call.producer())
    topic = await known_topic(call, call.value("topic"))
    fixed = _fixed_partition(call, topic)
    encode_key, encode_value, ids = await _encoders(call, record_format, body, topic.name)
    read = partial(records_of, given, encode_key, encode_value, topic, fixed)
    has_schema = any(each is not None for each in ids.values())
    records = await run_off_loop(read, len(call.request.body), has_schema=has_schema)
    outcomes = await send_all(await call.producer(), topic.name, records)
    _raise_common(outcomes)
    shown = {
        "offsets": [shown_outcome(each) for each in outcomes],
        **ids,
    }
    return json_response(shown, content_type=content_type)


async def _encoders(
    call: Call, record_format: str, body: Mapping[str, Any], topic: str
) -> tuple[Encode, Encode, dict[str, int | None]]:
    """Return the encoders of keys and values, and the ids of their schemas.

    Raises:
        RestError: 42201 or 42202, the records have keys or values, but no schema is given for them.
    """
    ids: dict[str, int | None] = {"key_schema_id": None, "value_schema_id": None}
    plain = PLAIN.get(record_format)
    if plain is not None:
        plain = plain if is_format_named(call.request) else unnamed_to_bytes
        return plain, plain, ids
    missing = {"key": errors.KEY_SCHEMA_MISSING, "value": errors.VALUE_SCHEMA_MISSING}
    for part, code in missing.items():
        has_schema = any(body.get(name) is not None for name in _schema_fields(part))
        if not has_schema and any(_has(each, part) for each in body["records"]):
            reason = f"the format {record_format} needs {part}_schema or {part}_schema_id"
            raise RestError(code, f"The records have a {part}, and {reason}.")
    from log_service.http.rest_proxy.schemas import (  # noqa: PLC0415 - an extra
        SchemaChoice,
        codecs_of,
    )

    codecs = await codecs_of(call, record_format)
    found: list[Encode] = []
    for part in missing:
        text_name, id_name = _schema_fields(part)
        text, number = body.get(text_name), body.get(id_name)
        if text is None and number is None:
            found.append(binary_to_bytes)  # of null alone
            continue
        text = None if number is not None else text_of(body, text_name)
        wanted = None if number is None else number_of(body, id_name, at_most=2**31 - 1)
        choice = SchemaChoice(
            topic=topic, part=part, record_format=record_format, text=text, schema_id=wanted
        )
        encoder = await codecs.encoder(choice)
        ids[id_name] = encoder.schema_id
        found.append(encoder)
    return found[0], found[1], ids


def unnamed_to_bytes(value: Any) -> bytes | None:
    """Decode base64, None for null, for a request whose media type names no format.

    The error advises the client to name a format.

    Raises:
        RestError: 400, the value is not base64.
    """
    try:
        return binary_to_bytes(value)
    except RestError as error:
        raise RestError(error.code, f"{error.text.rstrip('.')}. {UNNAMED_ADVICE}") from error


def _schema_fields(part: str) -> tuple[str, str]:
    return f"{part}_schema", f"{part}_schema_id"


def _has(record: Any, part: str) -> bool:
    return isinstance(record, dict) and record.get(part) is not None


def records_of(
    given: Sequence[Any],
    encode_key: Encode,
    encode_value: Encode,
    topic: TopicView,
    fixed: int | None,
) -> list[OutgoingRecord]:
    """Return the records of a body. With ``fixed``, all have that partition.

    Raises:
        RestError: a record has an unknown field, or a field that is not valid.
    """
    return [_record_of(each, encode_key, encode_value, topic, fixed) for each in given]


def _record_of(
    given: Any,
    encode_key: Encode,
    encode_value: Encode,
    topic: TopicView,
    fixed: int | None,
) -> OutgoingRecord:
    fields = as_object(given, "A record", code=BAD_REQUEST)
    refuse_unknown(fields, RECORD_FIELDS, "A record")
    if "key" not in fields and "value" not in fields:
        raise RestError(422, "A record has a key or a value.")
    partition = fixed
    if fields.get("partition") is not None:
        partition = number_of(fields, "partition", at_most=MAX_PARTITION)
        if fixed is not None and partition != fixed:
            raise RestError(422, f"A record names partition {partition}, and the path {fixed}.")
        if partition >= topic.partition_count:
            raise errors.partition_not_found(partition)
    has_time = fields.get("timestamp") is not None
    return OutgoingRecord(
        key=encode_key(fields.get("key")),
        value=encode_value(fields.get("value")),
        headers=headers_of(fields),
        partition=partition,
        timestamp_ms=number_of(fields, "timestamp") if has_time else None,
    )


def headers_of(fields: Mapping[str, Any]) -> tuple[RecordHeader, ...]:
    """Return the headers of a record. Their values are base64.

    Raises:
        RestError: a header has no name, or its value is not base64.
    """
    if fields.get("headers") is None:
        return ()
    return tuple(map(_header_of, list_of(fields, "headers", max_count=1_000)))


def _header_of(given: Any) -> RecordHeader:
    fields = as_object(given, "A header")
    refuse_unknown(fields, ("key", "name", "value"), "A header")
    name = text_of(fields, "name" if "name" in fields else "key")
    return name, binary_to_bytes(fields.get("value"))


def shown_headers(headers: Sequence[RecordHeader]) -> list[dict[str, Any]]:
    """Return headers as the API shows them."""
    return [
        {"name": name, "value": None if value is None else base64.b64encode(value).decode()}
        for name, value in headers
    ]


def shown_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome of a record, as the API shows it."""
    if isinstance(outcome, KafkaError):
        refusal = errors.of_cluster(outcome)
        code = RETRIABLE if refusal.code == errors.RETRIABLE_ERROR else PERMANENT
        return {
            "partition": None,
            "offset": None,
            "error_code": code,
            "error": str(outcome),
        }
    return {
        "partition": outcome.partition,
        "offset": outcome.offset,
        "error_code": None,
        "error": None,
    }


def _raise_common(outcomes: Sequence[Outcome]) -> None:
    """Refuse the request if all its records failed for the same kind of reason.

    The reason is the login, a missing permission, or an unknown topic.
    """
    failures = [each for each in outcomes if isinstance(each, KafkaError)]
    if len(failures) < len(outcomes):
        return
    codes = {errors.of_cluster(each).code for each in failures}
    if codes <= {errors.UNAUTHENTICATED, errors.FORBIDDEN, errors.TOPIC_NOT_FOUND}:
        raise errors.of_cluster(failures[0])


def _fixed_partition(call: Call, topic: TopicView) -> int | None:
    text = call.request.path_values.get("partition")
    return None if text is None else partition_of(topic, text).partition
