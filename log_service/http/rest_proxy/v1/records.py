"""One record of version 1: its JSON becomes a record of a topic, and its outcome becomes a line.

By default text is written as it is, and any other value as its JSON. So a record can be sent in the
form in which a stream shows it. With an ``encoding``, all values are JSON, text or base64.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from log_service.client import KafkaError
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import as_object, number_of, refuse_unknown
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.formats import binary_to_bytes, json_to_bytes, string_to_bytes
from log_service.http.rest_proxy.producing import MAX_PARTITION, Outcome, OutgoingRecord
from log_service.http.rest_proxy.v3.records import timestamp_ms_of
from log_service.records.record import RecordHeader

RECORD_FIELDS: Final = ("partition", "key", "value", "headers", "timestamp")
MAX_HEADERS: Final = 1_000


def auto_to_bytes(value: Any) -> bytes | None:
    """Return text in UTF-8, any other value as JSON, and None for null.

    Raises:
        RestError: 400, JSON has no such number, for example NaN.
    """
    return value.encode() if isinstance(value, str) else json_to_bytes(value)


ENCODERS: Final = MappingProxyType(
    {
        "auto": auto_to_bytes,
        "json": json_to_bytes,
        "string": string_to_bytes,
        "binary": binary_to_bytes,
    }
)


def record_of(fields: Mapping[str, Any], partition_count: int, encoding: str) -> OutgoingRecord:
    """Return the record in a JSON object. ``encoding`` is one of ``ENCODERS``.

    Raises:
        RestError: a field is unknown or not valid.
    """
    refuse_unknown(fields, RECORD_FIELDS, "A record")
    if "value" not in fields:
        raise RestError(422, "A record has a value. It may be null, which deletes a key.")
    partition = None
    if fields.get("partition") is not None:
        partition = number_of(fields, "partition", at_most=MAX_PARTITION)
        if partition >= partition_count:
            raise errors.partition_not_found(partition)
    encode = ENCODERS[encoding]
    return OutgoingRecord(
        key=encode(fields.get("key")),
        value=encode(fields["value"]),
        headers=_headers(fields.get("headers")),
        partition=partition,
        timestamp_ms=timestamp_ms_of(fields),
    )


def _headers(found: Any) -> tuple[RecordHeader, ...]:
    """Return the headers in a record's JSON: an object of names and values, or a list of pairs.

    A stream shows headers as pairs.

    Raises:
        RestError: 422, the headers are not valid.
    """
    if found is None:
        return ()
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list) or len(pairs) > MAX_HEADERS:
        text = f"headers is an object, or a list of at most {MAX_HEADERS} pairs of name and value."
        raise RestError(422, text)
    return tuple(_header(each) for each in pairs)


def _header(pair: Any) -> RecordHeader:
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
        raise RestError(422, "A header is a pair of a name and a value.")
    name, value = pair
    if value is None or isinstance(value, str):
        return name, string_to_bytes(value)
    content = as_object(value, "A header that is no text")
    refuse_unknown(content, ("base64",), "A header")
    return name, binary_to_bytes(content.get("base64"))


def shown_place(partition: int, offset: int) -> dict[str, Any]:
    """Return the response line of a record that was written. An unknown offset is null."""
    return {"partition": partition, "offset": offset if offset >= 0 else None}


def shown_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the response line of a record: its position, or why it was not written."""
    if isinstance(outcome, KafkaError):
        return shown_refusal(errors.of_cluster(outcome))
    return shown_place(outcome.partition, outcome.offset)


def shown_refusal(error: RestError) -> dict[str, Any]:
    """Return the response line of a record that was not written."""
    return {"error_code": error.code, "message": error.text}
