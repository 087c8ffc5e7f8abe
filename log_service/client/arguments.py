"""Checks of the topics, partitions, groups and offsets that callers hand in, made before any request.

A text where several names are expected is refused, because its letters would be taken for names; so is a value that no request can carry.
Only the cluster knows whether a topic exists.
"""

from collections.abc import Iterable, Mapping
from math import inf
from operator import index
from typing import Any, TypeVar

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.topic_names import MAX_TOPIC_NAME_LENGTH
from log_service.common.types import TopicPartition

T = TypeVar("T")

MAX_OFFSET = 2**63 - 1
MAX_OFFSET_METADATA_BYTES = 2**15 - 1
ISOLATION = {"read_uncommitted": 0, "read_committed": 1}


def topic_name(name: Any) -> str:
    """Return a topic's name.

    Raises:
        TypeError: it is not text.
        KafkaError: INVALID_TOPIC_EXCEPTION, it is empty, or longer than any topic's name can be.
    """
    if not isinstance(name, str):
        raise TypeError(f"a topic's name is text, not {type(name).__name__}")
    if not 0 < len(name) <= MAX_TOPIC_NAME_LENGTH:
        text = f"a topic's name has 1 to {MAX_TOPIC_NAME_LENGTH} characters, not {len(name)}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return name


def names(named: Iterable[str], what: str) -> tuple[str, ...]:
    """Return several names of ``what`` (topics, groups).

    Raises:
        TypeError: they are one text, or one of them is none.
    """
    if isinstance(named, str | bytes):
        raise TypeError(f"{what} are named by several texts, such as [{named!r}], not by one")
    listed = tuple(named)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{what} are named by texts, not by {type(name).__name__}")
    return listed


def partitions(named: Iterable[Any]) -> list[TopicPartition]:
    """Return partitions that there can be.

    Raises:
        TypeError: one is not a ``TopicPartition`` of a text and a whole number.
        ValueError: a partition's number is negative.
    """
    listed = list(named)
    for each in listed:
        topic, number = each if isinstance(each, TopicPartition) else (None, None)
        if not isinstance(topic, str) or not isinstance(number, int):
            raise TypeError(f"a partition is TopicPartition(topic, number), not {each!r}")
        if number < 0:
            raise ValueError(f"a partition's number is not negative: {each}")
    return listed


def by_partition(given: Mapping[TopicPartition, T], what: str) -> Mapping[TopicPartition, T]:
    """Return ``what`` (offsets, times) of partitions that there can be.

    Raises:
        TypeError: it is no mapping, or as ``partitions``. ValueError: as ``partitions``.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} are given by partition, such as {{TopicPartition('t', 0): 5}}, not as {given!r}")
    partitions(given)
    return given


def values(given: Iterable[Any]) -> Iterable[Any]:
    """Return the values of several records.

    Raises:
        TypeError: they are one text, whose letters would be taken for values.
    """
    if isinstance(given, str | bytes | bytearray | memoryview):
        raise TypeError(f"values are several, such as [{given!r}], not one: send() takes one")
    return given


def all_of(kind: type[T], given: Iterable[Any], what: str) -> list[T]:
    """Return ``what`` (topics, resources) as a list of values of one class.

    Raises:
        TypeError: they are one such value, or one of them is none.
    """
    if isinstance(given, kind | str | bytes):
        raise TypeError(f"{what} are several of {kind.__name__}, such as [{kind.__name__}(...)], not {given!r}")
    listed = list(given)
    for each in listed:
        if not isinstance(each, kind):
            raise TypeError(f"{what} are of {kind.__name__}, not {each!r}")
    return listed


def offset(given: Any) -> int:
    """Return an offset that a log can have.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is negative, or larger than any offset.
    """
    number = whole_number(given, "an offset")
    if not 0 <= number <= MAX_OFFSET:
        raise ValueError(f"an offset is not negative, nor above {MAX_OFFSET}: {given}")
    return number


def whole_number(given: Any, what: str) -> int:
    """Return a whole number.

    Raises:
        TypeError: it is none; the text says that ``what`` is one.
    """
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what} is a whole number, not {given!r}")
    return index(given)


def record_limit(given: Any) -> int:
    """Return how many records a poll may return.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is not positive.
    """
    number = whole_number(given, "max_records")
    if number < 1:
        raise ValueError(f"max_records is at least 1, not {number}")
    return number


def offset_metadata(given: Any) -> str:
    """Return what is kept beside a committed offset.

    Raises:
        TypeError: it is no text.
        ValueError: it is longer than a request can carry; a broker takes 4,096 bytes unless ``offset.metadata.max.bytes`` says otherwise.
    """
    if not isinstance(given, str):
        raise TypeError(f"the metadata of an offset is text, not {type(given).__name__}")
    size = len(given.encode())
    if size > MAX_OFFSET_METADATA_BYTES:
        raise ValueError(f"the metadata of an offset has at most {MAX_OFFSET_METADATA_BYTES} bytes, not {size}")
    return given


def limit_s(timeout_ms: float | None) -> float:
    """Return the seconds that a call may wait, for ever where none is given.

    Raises:
        TypeError: it is no number.
        ValueError: it is negative.
    """
    if timeout_ms is None:
        return inf
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int | float):
        raise TypeError(f"timeout_ms is a number of milliseconds, not {timeout_ms!r}")
    if not timeout_ms >= 0:
        raise ValueError(f"timeout_ms is not negative: {timeout_ms}")
    return timeout_ms / 1_000


def isolation_of(level: str) -> int:
    """Return the wire's number of an isolation level.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in ISOLATION:
        raise ConfigError(f"isolation_level must be one of {', '.join(ISOLATION)}, not {level!r}")
    return ISOLATION[level]
