"""Checks the arguments of client methods, such as topics and offsets, before a request is sent.

A single text in place of several names is refused, because its letters would be taken for names. A
value that no request can carry is refused, too. Whether a topic exists is not checked here, because
only the cluster knows it.
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
    """Check the name of a topic, and return it.

    Raises:
        TypeError: the name is not text.
        KafkaError: INVALID_TOPIC_EXCEPTION, it is empty, or longer than any topic's name can be.
    """
    if not isinstance(name, str):
        raise TypeError(f"a topic's name is text, not {type(name).__name__}")
    if not 0 < len(name) <= MAX_TOPIC_NAME_LENGTH:
        text = f"a topic's name has 1 to {MAX_TOPIC_NAME_LENGTH} characters, not {len(name)}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return name


def names(named: Iterable[str], what: str) -> tuple[str, ...]:
    """Check names, and return them as a tuple. ``what``, such as "topics", is for the error text.

    Raises:
        TypeError: the argument is a single text, or an item is not text.
    """
    if isinstance(named, str | bytes):
        raise TypeError(f"{what} are named by several texts, such as [{named!r}], not by one")
    listed = tuple(named)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{what} are named by texts, not by {type(name).__name__}")
    return listed


def partitions(named: Iterable[Any]) -> list[TopicPartition]:
    """Check partitions, and return them as a list.

    Raises:
        TypeError: an element is not a ``TopicPartition`` of a text and a whole number.
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
    """Check the partitions of a mapping, and return the mapping unchanged.

    ``what``, such as "offsets", is for the error text.

    Raises:
        TypeError: ``given`` is not a mapping, or as ``partitions``.
        ValueError: as ``partitions``.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{what} are given by partition, such as {{TopicPartition('t', 0): 5}}, not as"
            f" {given!r}"
        )
    partitions(given)
    return given


def values(given: Iterable[Any]) -> Iterable[Any]:
    """Check that the argument is several values, and return it unchanged.

    Raises:
        TypeError: the argument is a single text or bytes, whose parts would be taken for values.
    """
    if isinstance(given, str | bytes | bytearray | memoryview):
        raise TypeError(f"values are several, such as [{given!r}], not one: send() takes one")
    return given


def all_of(kind: type[T], given: Iterable[Any], what: str) -> list[T]:
    """Check that all items are of the class ``kind``, and return them as a list.

    ``what``, such as "resources", is for the error text.

    Raises:
        TypeError: the argument is a single value, or an item is of another class.
    """
    if isinstance(given, kind | str | bytes):
        raise TypeError(
            f"{what} are several of {kind.__name__}, such as [{kind.__name__}(...)], not {given!r}"
        )
    listed = list(given)
    for each in listed:
        if not isinstance(each, kind):
            raise TypeError(f"{what} are of {kind.__name__}, not {each!r}")
    return listed


def offset(given: Any) -> int:
    """Check an offset, and return it.

    Raises:
        TypeError: ``given`` is not a whole number.
        ValueError: ``given`` is negative, or larger than any offset.
    """
    number = whole_number(given, "an offset")
    if not 0 <= number <= MAX_OFFSET:
        raise ValueError(f"an offset is not negative, nor above {MAX_OFFSET}: {given}")
    return number


def whole_number(given: Any, what: str) -> int:
    """Check a whole number, and return it. ``what`` names it in the error text.

    Raises:
        TypeError: the value is not a whole number.
    """
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise TypeError(f"{what} is a whole number, not {given!r}")
    return index(given)


def record_limit(given: Any) -> int:
    """Check the maximum number of records of a poll, and return it.

    Raises:
        TypeError: ``given`` is not a whole number.
        ValueError: ``given`` is not positive.
    """
    number = whole_number(given, "max_records")
    if number < 1:
        raise ValueError(f"max_records is at least 1, not {number}")
    return number


def offset_metadata(given: Any) -> str:
    """Check the metadata of an offset to commit, and return it.

    Raises:
        TypeError: the metadata is not text.
        ValueError: the metadata is longer than a request can carry. A broker takes 4,096 bytes
            unless ``offset.metadata.max.bytes`` says otherwise.
    """
    if not isinstance(given, str):
        raise TypeError(f"the metadata of an offset is text, not {type(given).__name__}")
    size = len(given.encode())
    if size > MAX_OFFSET_METADATA_BYTES:
        raise ValueError(
            f"the metadata of an offset has at most {MAX_OFFSET_METADATA_BYTES} bytes, not {size}"
        )
    return given


def limit_s(timeout_ms: float | None) -> float:
    """Return the time limit of a call in seconds, infinity for None.

    Raises:
        TypeError: ``timeout_ms`` is not a number.
        ValueError: ``timeout_ms`` is negative.
    """
    if timeout_ms is None:
        return inf
    if isinstance(timeout_ms, bool) or not isinstance(timeout_ms, int | float):
        raise TypeError(f"timeout_ms is a number of milliseconds, not {timeout_ms!r}")
    if not timeout_ms >= 0:
        raise ValueError(f"timeout_ms is not negative: {timeout_ms}")
    return timeout_ms / 1_000


def isolation_of(level: str) -> int:
    """Return the number of an isolation level in the protocol.

    Raises:
        ConfigError: there is no such level.
    """
    if level not in ISOLATION:
        raise ConfigError(f"isolation_level must be one of {', '.join(ISOLATION)}, not {level!r}")
    return ISOLATION[level]
