"""The requests to consumer instances: create, subscribe, assign, seek, commit, read and delete."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from log_service.client import ConsumerRecord, OffsetAndMetadata, TopicPartition
from log_service.http.record_formats.json_text import json_text
from log_service.http.record_formats.records import has_many_headers
from log_service.http.rest_proxy import errors
from log_service.http.rest_proxy.bodies import (
    as_object,
    compact,
    json_response,
    list_of,
    number_of,
    read_object,
    refuse_unknown,
    run_off_loop,
    text_of,
    whole_number,
)
from log_service.http.rest_proxy.context import Call
from log_service.http.rest_proxy.errors import RestError
from log_service.http.rest_proxy.formats import FORMATS, bytes_to_binary, bytes_to_json
from log_service.http.rest_proxy.v2.instance import ConsumerInstance, InstanceSettings, size_of
from log_service.http.rest_proxy.v2.instances import InstanceKey
from log_service.http.rest_proxy.v2.media_types import (
    content_type_of,
    require_json,
    type_of_records,
)
from log_service.http.rest_proxy.v2.produce import shown_headers
from log_service.http.server.values import HttpResponse
from log_service.http.service_settings import BOOLEANS

MAX_TIMEOUT_MS: Final = 60_000
MAX_NAME_CHARACTERS: Final = 249
MAX_PATTERN_CHARACTERS: Final = 1_000
RESETS: Final = ("earliest", "latest", "none")
NO_CONTENT: Final = HttpResponse(status=204)
KNOWN_FIELDS: Final = (
    "name",
    "format",
    "auto.offset.reset",
    "auto.commit.enable",
    "enable.auto.commit",
    "fetch.min.bytes",
    "consumer.request.timeout.ms",
    "isolation.level",
)
ReadPart = Callable[[ConsumerRecord, bytes | None, bool], Any]
"""Returns the JSON value of a key (True) or a value. Raises ValueError: it has none."""


async def create(call: Call) -> HttpResponse:
    """Create a consumer of a group in this proxy."""
    content_type = content_type_of(call.request)
    require_json(call.request)
    body = await read_object(call.request)
    refuse_unknown(body, KNOWN_FIELDS, "The body")
    name = text_of(body, "name", default="") or f"rest-{call.context.env.rng.getrandbits(64):016x}"
    if len(name) > MAX_NAME_CHARACTERS or not name.isprintable() or "/" in name:
        raise RestError(errors.INVALID_CONSUMER, "name has to be a short name without slashes.")
    settings, consumer = consumer_settings_of(body, call.context.settings.request_timeout_ms)
    if settings.record_format not in PLAIN and not call.context.settings.registry_url:
        raise errors.no_registry(settings.record_format)
    group = call.value("group")
    key = InstanceKey(call.request.principal, group, name)
    await call.context.instances.create(key, call.clients, settings, consumer)
    shown = {
        "instance_id": name,
        "base_uri": call.link("consumers", group, "instances", name),
    }
    return json_response(shown, content_type=content_type)


def consumer_settings_of(
    body: Mapping[str, Any], request_timeout_ms: int
) -> tuple[InstanceSettings, dict[str, Any]]:
    """Return the settings of a consumer instance, and the client settings of its consumer.

    Raises:
        RestError: 42204, a value is not valid for its field.
    """
    record_format = str(body.get("format") or "binary").lower()
    if record_format not in FORMATS:
        raise RestError(errors.INVALID_CONSUMER, f"format may be {', '.join(FORMATS)}.")
    reset = str(body.get("auto.offset.reset") or "latest").lower()
    if reset not in RESETS:
        raise RestError(errors.INVALID_CONSUMER, f"auto.offset.reset may be {', '.join(RESETS)}.")
    given = body.get("auto.commit.enable", body.get("enable.auto.commit"))
    is_committing = BOOLEANS.get(str("true" if given is None else given).lower())
    if is_committing is None:
        raise RestError(errors.INVALID_CONSUMER, "auto.commit.enable may be true or false.")
    isolation = str(body.get("isolation.level") or "read_uncommitted")
    min_bytes = _consumer_number(body, "fetch.min.bytes", -1, -1, 10_000_000)
    settings = InstanceSettings(
        record_format=record_format,
        is_committing=is_committing,
        request_timeout_ms=_consumer_number(
            body, "consumer.request.timeout.ms", request_timeout_ms, 1, MAX_TIMEOUT_MS
        ),
        min_bytes=max(min_bytes, 1),
    )
    return settings, {"auto_offset_reset": reset, "isolation_level": isolation}


def _consumer_number(
    body: Mapping[str, Any], name: str, default: int, at_least: int, at_most: int
) -> int:
    given = body.get(name)
    found = default if given is None else whole_number(given)
    if found is None or not at_least <= found <= at_most:
        text = f"{name} has to be a whole number from {at_least} to {at_most}."
        raise RestError(errors.INVALID_CONSUMER, text)
    return found


async def delete(call: Call) -> HttpResponse:
    """Delete a consumer. With automatic commits it commits first. It then leaves its group."""
    await call.context.instances.delete(_instance(call))
    return NO_CONTENT


# Subscription and assignment


async def subscribe(call: Call) -> HttpResponse:
    """Subscribe to topics by their names, or by a pattern."""
    require_json(call.request)
    instance = _instance(call)
    body = await read_object(call.request)
    refuse_unknown(body, ("topics", "topic_pattern"), "The body")
    if "topics" in body and "topic_pattern" in body:
        raise errors.illegal_state()
    if "topic_pattern" in body:
        pattern = text_of(body, "topic_pattern")
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            text = f"topic_pattern has at most {MAX_PATTERN_CHARACTERS} characters."
            raise RestError(422, text)
        await instance.subscribe_pattern(pattern, await _topics(call))
        return NO_CONTENT
    topics = list_of(body, "topics", max_count=1_000)
    if not all(isinstance(each, str) for each in topics):
        raise RestError(422, "topics has to be a list of names.")
    await instance.subscribe(topics)
    return NO_CONTENT


async def get_subscription(call: Call) -> HttpResponse:
    """Return the topics that a consumer is subscribed to."""
    content_type = content_type_of(call.request)
    async with _instance(call) as consumer:
        topics = sorted(consumer.subscription)
    return json_response({"topics": topics}, content_type=content_type)


async def unsubscribe(call: Call) -> HttpResponse:
    """End the subscription or the assignment of a consumer."""
    await _instance(call).unsubscribe()
    return NO_CONTENT


async def assign(call: Call) -> HttpResponse:
    """Assign the partitions in the body to a consumer, which then gets none from its group."""
    require_json(call.request)
    instance = _instance(call)
    body = await read_object(call.request)
    refuse_unknown(body, ("partitions",), "The body")
    await instance.assign(_partitions(body))
    return NO_CONTENT


async def get_assignments(call: Call) -> HttpResponse:
    """Return the partitions that a consumer reads now."""
    content_type = content_type_of(call.request)
    async with _instance(call) as consumer:
        assigned = consumer.assignment
    shown = [{"topic": each.topic, "partition": each.partition} for each in assigned]
    return json_response({"partitions": shown}, content_type=content_type)


# Positions and commits


async def seek(call: Call) -> HttpResponse:
    """Seek to the offsets in the body."""
    require_json(call.request)
    instance = _instance(call)
    body = await read_object(call.request)
    refuse_unknown(body, ("offsets",), "The body")
    offsets = {_partition(each): number_of(each, "offset") for each in _objects(body, "offsets")}
    await instance.seek(offsets)
    return NO_CONTENT


async def _seek_to(call: Call, *, is_end: bool) -> HttpResponse:
    require_json(call.request)
    instance = _instance(call)
    body = await read_object(call.request)
    refuse_unknown(body, ("partitions",), "The body")
    await instance.seek_to(_partitions(body), is_end=is_end)
    return NO_CONTENT


async def seek_to_beginning(call: Call) -> HttpResponse:
    """Seek to the beginning of partitions."""
    return await _seek_to(call, is_end=False)


async def seek_to_end(call: Call) -> HttpResponse:
    """Seek to the end of partitions."""
    return await _seek_to(call, is_end=True)


async def commit(call: Call) -> HttpResponse:
    """Commit the records whose offsets are in the body, or all delivered ones if it has no list."""
    content_type = content_type_of(call.request)
    require_json(call.request)
    instance = _instance(call)
    body = await read_object(call.request)
    refuse_unknown(body, ("offsets",), "The body")
    wanted = None
    if body.get("offsets") is not None:
        wanted = {
            _partition(each): OffsetAndMetadata(
                offset=number_of(each, "offset", at_most=2**63 - 2) + 1,
                metadata=text_of(each, "metadata", default=""),
            )
            for each in _objects(body, "offsets")
        }
    try:
        await instance.commit(wanted)
    except ValueError as error:
        raise RestError(422, str(error)) from error
    return HttpResponse(content_type=content_type)


async def get_committed(call: Call) -> HttpResponse:
    """Return the committed offsets of the partitions in the body."""
    content_type = content_type_of(call.request)
    instance = _instance(call)
    body = await read_object(call.request)
    refuse_unknown(body, ("partitions",), "The body")
    wanted = _partitions(body)
    async with instance as consumer:
        found = await consumer.committed(wanted) if wanted else {}
    shown = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": committed.offset,
            "metadata": committed.metadata,
        }
        for each, committed in found.items()
    ]
    return json_response({"offsets": shown}, content_type=content_type)


# Records


async def read(call: Call) -> HttpResponse:
    """Return the next records of a consumer."""
    instance = _instance(call)
    content_type = type_of_records(call.request, instance.settings.record_format)
    context = call.context
    timeout_ms = _query_number(
        call, "timeout", instance.settings.request_timeout_ms, MAX_TIMEOUT_MS
    )
    limit = context.settings.request_max_bytes
    max_bytes = min(_query_number(call, "max_bytes", limit, 2**31 - 1), limit)
    if instance.is_match_due():
        await instance.match_again(await _topics(call))
    records = await instance.take(max_bytes, timeout_ms)
    try:
        size_bytes = sum(map(size_of, records))
        read_part = await _part_reader(call, instance.settings.record_format, records)
        show = partial(_shown_records, instance.settings.record_format, records, read_part)
        shown, failure = await run_off_loop(show, size_bytes)
    except BaseException:
        instance.give_back(records)
        raise
    instance.give_back(records[len(shown) :])
    if failure is not None and not shown:
        raise failure
    body = b"[" + b",".join(shown) + b"]"
    return HttpResponse(body=body, content_type=content_type)


async def _part_reader(
    call: Call, record_format: str, records: Sequence[ConsumerRecord]
) -> ReadPart:
    """Return the function that decodes keys and values of a format to JSON."""
    plain = PLAIN.get(record_format)
    if plain is not None:
        return lambda _record, data, _is_key: plain(data)
    from log_service.http.rest_proxy.schemas import codecs_of  # noqa: PLC0415 - an extra

    reader = await (await codecs_of(call, record_format)).find_decoders(records)
    return lambda record, data, is_key: reader.read(record, data, is_key=is_key)


def _shown_records(
    record_format: str, records: Sequence[ConsumerRecord], read_part: ReadPart
) -> tuple[list[bytes], RestError | None]:
    """Return the JSON of records, and the refusal of the first record that cannot be decoded.

    The list ends before that record. The refusal is None if all records can be decoded.
    """
    shown: list[bytes] = []
    for record in records:
        fields = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
        }
        try:
            fields |= {
                "key": _shown_key(record, read_part),
                "value": read_part(record, record.value, False),
            }
        except ValueError as error:
            failed = f"value deserialization error for format {record_format}"
            where = f"{record.topic_partition} offset {record.offset}"
            advice = "Read with format binary, or continue behind it by positions."
            return shown, RestError(422, f"{failed} at {where}: {error}. {advice}")
        if record.headers:
            fields["headers"] = shown_headers(record.headers)
        is_long = has_many_headers(record)
        shown.append(
            json_text(fields, is_long=True).encode("utf-8", "replace")
            if is_long
            else compact(fields)
        )
    return shown, None


def _shown_key(record: ConsumerRecord, read_part: ReadPart) -> Any:
    """Return the JSON of a key. A key that is not in the format is shown as base64.

    Many producers write keys as text or numbers, although the values have the format.
    """
    try:
        return read_part(record, record.key, True)
    except ValueError:
        return bytes_to_binary(record.key)


PLAIN: Final = MappingProxyType({"binary": bytes_to_binary, "json": bytes_to_json})


async def _topics(call: Call) -> list[str]:
    return [each.name for each in await (await call.admin()).list_topics()]


def _instance(call: Call) -> ConsumerInstance:
    key = InstanceKey(call.request.principal, call.value("group"), call.value("instance"))
    return call.context.instances.find(key)


def _query_number(call: Call, name: str, default: int, at_most: int) -> int:
    text = call.request.query_value(name)
    if text is None:
        return default
    found = whole_number(text)
    if found is None or found < 0:
        raise RestError(400, f"{name} has to be a whole number.")
    return min(found, at_most)


def _objects(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return [as_object(each, f"An item of {name}") for each in list_of(body, name)]


def _partitions(body: Mapping[str, Any]) -> list[TopicPartition]:
    return [_partition(each) for each in _objects(body, "partitions")]


def _partition(fields: Mapping[str, Any]) -> TopicPartition:
    number = number_of(fields, "partition", at_most=2**31 - 1)
    return TopicPartition(text_of(fields, "topic"), number)
