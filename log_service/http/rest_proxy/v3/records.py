"""One record of version 3: its JSON becomes a record of a topic, and its outcome becomes JSON.

Keys and values name their type: ``BINARY`` (base64), ``JSON``, or ``STRING``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from log_service.client import KafkaError, RecordMetadata
from log_service.client.connections.cluster_view import TopicView
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import (
    as_object,
    list_of,
    number_of,
    refuse_unknown,
    text_of,
)
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.producing import MAX_PARTITION, Outcome, OutgoingRecord
from log_service.http.rest_proxy.v2.formats import binary_to_bytes, json_to_bytes
from log_service.records.record import RecordHeader

RECORD_FIELDS: Final = ("partition_id", "headers", "key", "value", "timestamp")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIMESTAMP_MS: Final = 253_402_300_799_999
"""The end of the year 9999, after which ISO 8601 has no times of four digits."""


def string_to_bytes(value: Any) -> bytes | None:
    """Return a text in UTF-8, None for null.

    Raises:
        RestError: 400, the value is no text.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise RestError(400, "A key or value of the type STRING has to be text.")
    return value.encode()


ENCODERS: Final = MappingProxyType(
    {"BINARY": binary_to_bytes, "JSON": json_to_bytes, "STRING": string_to_bytes}
)


def record_of(fields: Mapping[str, Any], topic: TopicView) -> OutgoingRecord:
    """Return the record in a JSON object.

    Raises:
        RestError: a field is unknown or not valid.
    """
    refuse_unknown(fields, RECORD_FIELDS, "A record")
    partition = None
    if fields.get("partition_id") is not None:
        partition = number_of(fields, "partition_id", at_most=MAX_PARTITION)
        if partition >= topic.partition_count:
            raise errors.partition_not_found(partition)
    return OutgoingRecord(
        key=_part(fields, "key"),
        value=_part(fields, "value"),
        headers=_headers(fields),
        partition=partition,
        timestamp_ms=timestamp_ms_of(fields),
    )


def _part(fields: Mapping[str, Any], name: str) -> bytes | None:
    if fields.get(name) is None:
        return None
    part = as_object(fields[name], name)
    refuse_unknown(part, ("type", "data"), name)
    kind = text_of(part, "type").upper()
    encode = ENCODERS.get(kind)
    if encode is None:
        raise RestError(422, f"type of {name} is {kind[:30]}; it may be {', '.join(ENCODERS)}.")
    return encode(part.get("data"))


def _headers(fields: Mapping[str, Any]) -> tuple[RecordHeader, ...]:
    if fields.get("headers") is None:
        return ()
    found = []
    for each in list_of(fields, "headers", max_count=1_000):
        header = as_object(each, "A header")
        refuse_unknown(header, ("name", "value"), "A header")
        found.append((text_of(header, "name"), binary_to_bytes(header.get("value"))))
    return tuple(found)


def timestamp_ms_of(fields: Mapping[str, Any]) -> int | None:
    """Return the time of a record, which is ISO 8601 or milliseconds since 1970.

    Raises:
        RestError: 422, it is neither.
    """
    value = fields.get("timestamp")
    if not isinstance(value, str):
        if value is None:
            return None
        return number_of(fields, "timestamp", at_most=MAX_TIMESTAMP_MS)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise RestError(422, "timestamp has to be a time in ISO 8601.") from error
    if moment.tzinfo is None:
        raise RestError(422, "timestamp needs a time zone, such as Z.")
    found = (moment - EPOCH) // timedelta(milliseconds=1)
    if found < 0:
        raise RestError(422, "timestamp has to be after 1970.")
    return found


def shown_outcome(
    outcome: Outcome, fields: Mapping[str, Any], record: OutgoingRecord, cluster_id: str
) -> dict[str, Any]:
    """Return what became of a record, as the API shows it."""
    if isinstance(outcome, KafkaError):
        return shown_refusal(errors.of_cluster(outcome))
    shown = _shown_place(outcome, cluster_id)
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None:
            shown[name] = {"type": fields[name]["type"].upper(), "size": len(data)}
    return shown


def _shown_place(outcome: RecordMetadata, cluster_id: str) -> dict[str, Any]:
    shown_ms = min(max(outcome.timestamp_ms, 0), MAX_TIMESTAMP_MS)
    moment = EPOCH + timedelta(milliseconds=shown_ms)
    return {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": outcome.topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def shown_refusal(error: RestError) -> dict[str, Any]:
    """Return why a record was not written, as the API shows it."""
    return {"error_code": error.code, "message": error.text}
