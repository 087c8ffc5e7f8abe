"""One record of version 3: its JSON becomes a record of a topic, and its outcome becomes JSON.

Keys and values name their type: ``BINARY`` (base64), ``JSON``, ``STRING``, or a schema type, for
which there is an encoder. ``parts`` has validated them.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

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
from log_service.http.rest_proxy.formats import BAD_REQUEST, binary_to_bytes
from log_service.http.rest_proxy.producing import MAX_PARTITION, Outcome, OutgoingRecord
from log_service.http.rest_proxy.record_stream import Prepared
from log_service.http.rest_proxy.v3.parts import PARTS, PLAIN, TYPE_OF, RecordEncoders
from log_service.records.record import RecordHeader

if TYPE_CHECKING:
    from log_service.http.rest_proxy.schemas import PartEncoder

RECORD_FIELDS: Final = ("partition_id", "headers", "key", "value", "timestamp")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TIMESTAMP_MS: Final = 253_402_300_799_999
"""The end of the year 9999, after which ISO 8601 has no times of four digits."""


def prepared_record(
    fields: Mapping[str, Any], topic: TopicView, encoders: RecordEncoders
) -> Prepared:
    """Return the record in a JSON object, and the fields of its response line for key and value.

    Raises:
        RestError: a field is unknown or not valid.
    """
    refuse_unknown(fields, RECORD_FIELDS, "A record")
    partition = None
    if fields.get("partition_id") is not None:
        partition = number_of(fields, "partition_id", at_most=MAX_PARTITION)
        if partition >= topic.partition_count:
            raise errors.partition_not_found(partition)
    parts = {name: _part(fields, name, encoders.get(name)) for name in PARTS}
    record = OutgoingRecord(
        **{name: data for name, (data, _) in parts.items()},
        headers=_headers(fields),
        partition=partition,
        timestamp_ms=timestamp_ms_of(fields),
    )
    return {name: shown for name, (data, shown) in parts.items() if data is not None}, record


def _part(
    fields: Mapping[str, Any], name: str, encoder: "PartEncoder | None"
) -> tuple[bytes | None, dict[str, Any]]:
    """Return the bytes of a key or a value, and its fields in the response line."""
    part = fields.get(name)
    if part is None:
        return None, {}
    if encoder is not None:
        try:
            data = encoder(part["data"])
        except RestError as error:
            raise RestError(BAD_REQUEST, error.text) from error
        shown: dict[str, Any] = {
            "type": TYPE_OF[encoder.schema_type],
            "subject": encoder.subject,
            "schema_id": encoder.schema_id,
            "schema_version": encoder.version,
        }
    else:
        kind = str(part.get("type")).upper()
        data = None if part.get("data") is None else PLAIN[kind](part["data"])
        shown = {"type": kind}
    return data, shown if data is None else {**shown, "size": len(data)}


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
    """Return the timestamp of a record, given as ISO 8601 or as milliseconds since 1970.

    Return None if it is missing.

    Raises:
        RestError: 422, the timestamp has another form.
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
    outcome: Outcome, parts: Mapping[str, Any], _record: OutgoingRecord, cluster_id: str
) -> dict[str, Any]:
    """Return the outcome of a record, as the API shows it."""
    if isinstance(outcome, KafkaError):
        return shown_refusal(errors.of_cluster(outcome))
    return {**_shown_place(outcome, cluster_id), **parts}


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
