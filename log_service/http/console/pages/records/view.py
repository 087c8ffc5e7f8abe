"""Records as their pages show them, and the query of a page for a topic's records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from log_service.client.consumer.records import ConsumerRecord, ControlMarker, LogRecord
from log_service.client.producer.partitioning import partition_of_key
from log_service.common.types import TopicPartition
from log_service.http.console.forms import choice_of, number_of, time_of
from log_service.http.record_formats.decoding import FORMATS, Decoded, decode_plain
from log_service.http.record_formats.filters import (
    Comparison,
    parse_filter,
)
from log_service.http.record_formats.json_text import json_text, start_of
from log_service.http.record_formats.records import has_many_headers, header_text

STARTS = ("latest", "earliest", "offset", "time")
DEFAULT_LIMIT = 50
MAX_LIMIT = 500
MAX_DOWNLOADED = 10_000
MAX_SHOWN_CHARACTERS = 20_000
"""The most characters of one key or value that a page shows. The download has the rest."""
PREVIEW_CHARACTERS = 200
MAX_KEY_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The query of a page for records.

    A ``partition`` of None means all. ``start`` is one of ``STARTS``, with an ``offset`` or a
    ``time_ms`` if it needs one. ``limit`` bounds the records that are shown. A ``key`` selects only
    records with that key.
    """

    topic: str
    partition: int | None = None
    start: str = "latest"
    offset: int = 0
    time_ms: int = 0
    limit: int = DEFAULT_LIMIT
    wanted: str = "auto"
    is_committed_only: bool = False
    with_markers: bool = False
    key: str = ""
    filter_text: str = ""
    comparisons: tuple[Comparison, ...] = field(default=())

    def as_query(self) -> dict[str, object]:
        """Return the URL parameters of a page with the same query."""
        return {
            "partition": self.partition,
            "from_": self.start,
            "offset": self.offset if self.start == "offset" else None,
            "time": self.time_ms if self.start == "time" else None,
            "limit": self.limit if self.limit != DEFAULT_LIMIT else None,
            "format": self.wanted if self.wanted != "auto" else None,
            "committed": "1" if self.is_committed_only else None,
            "markers": "1" if self.with_markers else None,
            "key": self.key,
            "filter": self.filter_text,
        }


def question_of(topic: str, query: Mapping[str, str], *, most: int = MAX_LIMIT) -> Question:
    """Return the search that a query describes.

    Raises:
        HttpError: 400, a parameter is not valid.
    """
    partition = number_of(query, "partition", -1, least=0, most=2**31 - 1)
    start = choice_of(query, "from", STARTS)
    if query.get("offset", "").strip() and not query.get("from"):
        start = "offset"
    text = query.get("filter", "").strip()
    return Question(
        topic=topic,
        partition=None if partition < 0 else partition,
        start=start,
        offset=number_of(query, "offset", 0),
        time_ms=time_of(query.get("time", ""), "time") if start == "time" else 0,
        limit=number_of(query, "limit", min(DEFAULT_LIMIT, most), least=1, most=most),
        wanted=choice_of(query, "format", FORMATS),
        is_committed_only=query.get("committed") == "1",
        with_markers=query.get("markers") == "1",
        key=query.get("key", "")[:MAX_KEY_CHARACTERS],
        filter_text=text,
        comparisons=parse_filter(text),
    )


def at_key(question: Question, partition_count: int) -> Question:
    """Return a query that selects only records with its ``key``.

    If ``question`` names no partition, the result reads the one that clients choose for the key by
    default. The key is compared in the form in which the page shows it.
    """
    if not question.key:
        return question
    data = question.key.encode("utf-8", "replace")
    shown = decode_plain(data, question.wanted).value
    text = shown if isinstance(shown, str) else json_text(shown, is_long=False)
    partition = question.partition
    return replace(
        question,
        partition=partition_of_key(data, partition_count) if partition is None else partition,
        comparisons=(*question.comparisons, Comparison(path=("key",), operator="=", wanted=text)),
    )


def asked(query: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of the search form, filled in from a query that may not be valid."""
    fields = {
        "partition": "",
        "offset": "",
        "time": "",
        "format": "",
        "key": "",
        "filter": "",
        "committed": "",
        "markers": "",
    }
    start = "offset" if query.get("offset", "").strip() else STARTS[0]
    return {**fields, "from": start, "limit": str(DEFAULT_LIMIT), **query}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """A key or a value as a page shows it.

    ``preview`` is one short line. ``text`` is the whole text, cut if it is too long. ``kind`` says
    how it was decoded.
    """

    kind: str
    preview: str
    text: str
    is_cut: bool
    is_null: bool
    schema_id: int | None
    error: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordView:
    """One record as a page shows it.

    A control record has a ``marker``. ``fate`` is the outcome of the record's transaction as far as
    it was read: committed, aborted or open. It is empty for a record without a transaction.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: PartView
    value: PartView
    headers: tuple[tuple[str, str], ...]
    marker: ControlMarker | None = None
    producer: tuple[int, int] | None = None
    fate: str = ""

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes its key in a compacted topic."""
        return self.value.is_null and not self.key.is_null and self.marker is None


def part_view(decoded: Decoded, size_bytes: int) -> PartView:
    """Return a decoded key or value as a page shows it."""
    is_null = decoded.kind == "null"
    value = decoded.value
    start = whole = "" if is_null else value
    if not isinstance(value, str) and not is_null:
        start = start_of(value, PREVIEW_CHARACTERS * 2)
        whole = start_of(value, MAX_SHOWN_CHARACTERS, is_pretty=True)
    line = " ".join(start[: PREVIEW_CHARACTERS * 2].split())
    return PartView(
        kind=decoded.kind,
        preview=line if len(line) <= PREVIEW_CHARACTERS else f"{line[:PREVIEW_CHARACTERS]}…",
        text=whole[:MAX_SHOWN_CHARACTERS],
        is_cut=len(whole) > MAX_SHOWN_CHARACTERS,
        is_null=is_null,
        schema_id=decoded.schema_id,
        error=decoded.error,
        size_bytes=size_bytes,
    )


def record_view(record: ConsumerRecord, key: Decoded, value: Decoded, fate: str = "") -> RecordView:
    """Return a record as a page shows it."""
    log_record = record if isinstance(record, LogRecord) else None
    producer = (
        None
        if log_record is None or log_record.producer_id < 0
        else (log_record.producer_id, log_record.producer_epoch)
    )
    return RecordView(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        timestamp_type=record.timestamp_type,
        key=part_view(key, len(record.key or b"")),
        value=part_view(value, len(record.value or b"")),
        headers=tuple((name, header_text(content)) for name, content in record.headers),
        marker=None if log_record is None else log_record.marker,
        producer=producer,
        fate=fate,
    )


def exported(record: ConsumerRecord, key: Decoded, value: Decoded) -> bytes:
    """Return a record as one line of JSON for a download."""
    content = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
    }
    marker = record.marker if isinstance(record, LogRecord) else None
    if marker is not None:
        content["control"] = marker._asdict()
    else:
        content["key"], content["value"] = key.value, value.value
        content["headers"] = [[name, header_text(content)] for name, content in record.headers]
    if isinstance(record, LogRecord) and record.is_transactional and marker is None:
        content |= {"producer_id": record.producer_id, "producer_epoch": record.producer_epoch}
    is_long = key.is_long or value.is_long or has_many_headers(record)
    text = json_text(content, is_long=is_long)
    return text.encode("utf-8", "replace") + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The offsets at which reading begins and ends, by partition."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]


def bounds_of(
    question: Question,
    logs: Mapping[TopicPartition, tuple[int, int]],
    at_time: Mapping[TopicPartition, int],
) -> Bounds:
    """Return the offsets at which reading begins and ends in each partition.

    ``logs`` has the first offset and the end offset of each partition. ``at_time`` has the offset
    of the query's time. With the start ``latest``, reading begins ``limit`` records before the end,
    and earlier if there is a filter.
    """
    starts, ends = {}, {}
    back = question.limit if not question.comparisons else SCANNED_BACK
    for where, (start, end) in logs.items():
        first = {
            "earliest": start,
            "latest": end - back,
            "offset": question.offset,
            "time": at_time.get(where, end),
        }[question.start]
        starts[where] = min(max(first, start), end)
        ends[where] = end
    return Bounds(starts=starts, ends=ends)


SCANNED_BACK = 5_000
"""The number of offsets before the end of each partition that a filter searches for the latest
records.
"""
