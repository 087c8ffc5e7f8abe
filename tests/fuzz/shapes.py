"""Well-formed messages are drawn from their schemas.

Every field of a version gets a value that a node may know, or one at an edge. Decides only values.
``Vocabulary`` holds the names, ids and numbers that make a request reach code behind the first
check; whoever reads answers adds to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from log_service.protocol.schema import Field, Message, has_version

RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
SMALL = (0, 1, 2, 3, 5, 10, 100, 1_000, 60_000)
MAX_LEARNED = 60

NAMES = (
    *(
        "plain",
        "compact",
        "short",
        "synced",
        "absent",
        "__consumer_offsets",
        "__cluster_metadata",
        "group",
        "group-2",
    ),
    *(
        "consumer",
        "range",
        "roundrobin",
        "cooperative-sticky",
        "connect",
        "sr",
        "classic",
        "Stable",
        "Empty",
        "rack",
    ),
    *("", ".", "..", "a/b", "x" * 249, "x" * 250, "naïve", "\0", "🙂", "*", "key", "1", "-1", "0"),
    *(
        "cleanup.policy",
        "compact",
        "delete",
        "compact,delete",
        "retention.ms",
        "max.message.bytes",
        "compression.type",
        "zstd",
        "gzip",
    ),
    *(
        "segment.bytes",
        "segment.ms",
        "flush.messages",
        "min.insync.replicas",
        "message.timestamp.type",
        "LogAppendTime",
        "retention.bytes",
    ),
    *(
        "delete.retention.ms",
        "min.cleanable.dirty.ratio",
        "index.interval.bytes",
        "no.such.key",
        "9223372036854775808",
        "1e5",
        "NaN",
    ),
    *(
        "metadata.version",
        "transaction.version",
        "group.version",
        "kraft.version",
        "eligible.leader.replicas.version",
    ),
    *("share.version", "streams.version", "streams", "share", "Streams", "process", "subtopology"),
)


@dataclass(slots=True)
class Vocabulary:
    """The names that messages may use. ``learned`` holds strings, ids and numbers out of answers,
    by type; the oldest go first.
    """

    names: tuple[str, ...] = NAMES
    learned: dict[type, list[Any]] = field(default_factory=lambda: {str: [], UUID: [], int: []})
    forbidden: frozenset[Any] = frozenset()

    def learn(self, value: object) -> None:
        """Take a value, or everything in a message, that an answer held."""
        if isinstance(value, bool | float | None):
            return
        if isinstance(value, str | UUID | int):
            known = self.learned[
                str if isinstance(value, str) else UUID if isinstance(value, UUID) else int
            ]
            if value not in self.forbidden and value not in known and value not in self.names:
                known.append(value)
                del known[:-MAX_LEARNED]
        elif isinstance(value, list):
            for each in value[:20]:
                self.learn(each)
        elif hasattr(value, "SCHEMA"):
            for member in value.SCHEMA.fields:
                self.learn(getattr(value, member.name))

    def name(self, rng: Random) -> str:
        """A name."""
        known = self.learned[str]
        return str(rng.choice(known) if known and rng.random() < 0.4 else rng.choice(self.names))

    def id(self, rng: Random) -> UUID:
        """An id."""
        known = self.learned[UUID]
        return (
            rng.choice(known)
            if known and rng.random() < 0.8
            else UUID(int=rng.choice([0, 1, rng.getrandbits(128)]))
        )

    def number(self, rng: Random, wire_type: str) -> int:
        """A number that the type can carry."""
        low, high = RANGES[wire_type]
        draw = rng.random()
        if draw < 0.65:
            value = rng.choice(SMALL) if draw < 0.5 else -1
        elif draw < 0.8 and self.learned[int]:
            value = rng.choice(self.learned[int])
        elif draw < 0.95:
            value = rng.choice((low, high, low + 1, high - 1))
        else:
            value = rng.randint(low, high)
        return value if low <= value <= high else low if value < low else high


def draw_message(
    rng: Random,
    cls: type[Message],
    version: int,
    vocabulary: Vocabulary,
    payload: Callable[[Random], bytes],
) -> Any:
    """Return a message that ``version`` can carry. ``payload`` makes what ``bytes`` and ``records``
    fields hold.
    """
    return _Drawing(rng, version, vocabulary, payload, rng.choice((1, 1, 2, 4))).message(cls, 0)


@dataclass(slots=True)
class _Drawing:
    rng: Random
    version: int
    vocabulary: Vocabulary
    payload: Callable[[Random], bytes]
    most: int

    def message(self, cls: type[Message], depth: int) -> Any:
        present = [each for each in cls.SCHEMA.fields if has_version(each.versions, self.version)]
        return cls(**{each.name: self._value(each, depth) for each in present})

    def _value(self, member: Field, depth: int) -> Any:
        rng = self.rng
        if member.struct is not None and member.tag is not None and not member.is_array:
            value = self.message(member.struct, depth + 1)
            return None if rng.random() < 0.5 or value == member.struct() else value
        if has_version(member.nullable, self.version) and rng.random() < 0.15:
            return None
        if not member.is_array:
            return self._element(member, depth)
        count = rng.randint(0, self.most) if rng.random() < 0.3 else 1
        return [self._element(member, depth) for _ in range(count)]

    def _element(self, member: Field, depth: int) -> Any:  # noqa: PLR0911 - a list of types
        rng, kind = self.rng, member.element_type
        if member.struct is not None:
            return self.message(member.struct, depth + 1)
        if kind in RANGES:
            return self.vocabulary.number(rng, kind)
        if kind == "string":
            return self.vocabulary.name(rng)
        if kind == "uuid":
            return self.vocabulary.id(rng)
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.choice([0.0, -1.0, 1e308, float("inf"), rng.random()])
        return self.payload(rng)
