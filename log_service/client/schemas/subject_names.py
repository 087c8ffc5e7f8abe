"""Decides the subject under which the schema of a key or a value is registered."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from log_service.common.errors import ConfigError

SubjectNameStrategy = Callable[[str, str, str | None], str]
"""Returns the subject for a topic, ``key`` or ``value``, and the full name of the record.

The name is None for a schema without one, such as a union.
"""


def topic_name(topic: str, part: str, _record_name: str | None) -> str:
    """Return ``topic-value`` or ``topic-key``: one schema for a topic."""
    return f"{topic}-{part}"


def record_name(_topic: str, _part: str, record_name: str | None) -> str:
    """Return the name of the record: one schema for a type, wherever it is used."""
    return _named(record_name)


def topic_record_name(topic: str, _part: str, record_name: str | None) -> str:
    """Return ``topic-record``: several types in one topic."""
    return f"{topic}-{_named(record_name)}"


STRATEGIES: Final[Mapping[str, SubjectNameStrategy]] = MappingProxyType(
    {"topic": topic_name, "record": record_name, "topic-record": topic_record_name}
)


def strategy_of(given: str | SubjectNameStrategy) -> SubjectNameStrategy:
    """Return the strategy of this name, or the given function.

    Raises:
        ConfigError: there is no strategy of this name.
    """
    if callable(given):
        return given
    if given not in STRATEGIES:
        raise ConfigError(
            f"subject_name_strategy is {given!r}; it may be {', '.join(STRATEGIES)}, or a function"
        )
    return STRATEGIES[given]


def _named(name: str | None) -> str:
    if name is None:
        raise ConfigError("the schema has no record name: use subject_name_strategy='topic' for it")
    return name
