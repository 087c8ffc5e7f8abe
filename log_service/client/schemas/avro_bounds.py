"""Bounds the memory and the stack that reading a payload of Avro may take.

The writer of a record chooses its schema. If the items of an array took no bytes, a payload of 15
bytes could claim 2^60 of them. Values of a recursive type can nest so deeply that the compiled
reader overflows its stack and ends the process. They are decoded by the reader in Python instead.

Invariant: a payload becomes at most ``MAX_VALUES_PER_BYTE`` values for each of its bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from log_service.client.schemas.errors import SerializationError

MAX_VALUES_PER_BYTE: Final = 100
MAX_COMPILED_DEPTH: Final = 200
"""The deepest nesting of types that the compiled reader may follow on any thread's stack."""
LEAST_BYTES: Final[Mapping[str, int]] = {"null": 0, "float": 4, "double": 8}
"""The least bytes of a value, by type. The least of every other type is one byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingCost:
    """The cost of reading a value of one type.

    ``least_bytes`` is the smallest encoded size of a value, and ``value_count`` the most values
    that so many bytes can become. ``depth`` counts the types within each other.
    """

    least_bytes: int = 1
    value_count: int = 1
    depth: int = 1
    is_recursive: bool = False

    @property
    def is_stack_bounded(self) -> bool:
        """Whether values never nest more deeply than the compiled reader can follow."""
        return not self.is_recursive and self.depth <= MAX_COMPILED_DEPTH


def reading_cost(parsed: Any) -> ReadingCost:
    """Return the cost of reading a value of a schema that fastavro has parsed.

    Raises:
        SerializationError: with this schema, few bytes could become any number of values.
    """
    return _Types().cost(parsed)


class _Types:
    """Computes the costs of a schema's types, and remembers those of named types."""

    def __init__(self) -> None:
        self._known: dict[str, ReadingCost] = {}

    def cost(self, node: Any) -> ReadingCost:
        if isinstance(node, list):
            return self._of_union(node)
        if isinstance(node, str):
            return self._of_name(node)
        kind = node["type"]
        match kind:
            case "array":
                found = self._of_array(node["items"])
            case "map":  # each key takes a byte
                found = _around([self.cost(node["values"])])
            case "record" | "error":
                found = self._of_record(node)
            case "fixed" | "enum":
                found = ReadingCost(least_bytes=node.get("size", 1))
                self._known[node["name"]] = found
            case _:
                found = self.cost(kind)
        return found

    def _of_name(self, name: str) -> ReadingCost:
        """Return the cost of a primitive or named type.

        While the fields of a named type are computed, it counts as recursive.
        """
        if name in self._known:
            return self._known[name]
        return ReadingCost(least_bytes=LEAST_BYTES.get(name, 1))

    def _of_union(self, branches: Sequence[Any]) -> ReadingCost:
        found = [self.cost(each) for each in branches]
        worst = max(found, key=lambda each: each.value_count / (each.least_bytes + 1))
        return _around(found, least_bytes=worst.least_bytes + 1, value_count=worst.value_count)

    def _of_array(self, items: Any) -> ReadingCost:
        found = self.cost(items)
        if found.least_bytes == 0:
            raise SerializationError(
                "an array has items that take no bytes, of which a few bytes could claim any"
                " number: give the items a type that takes at least one"
            )
        return _around([found])

    def _of_record(self, node: Mapping[str, Any]) -> ReadingCost:
        name = node["name"]
        self._known[name] = ReadingCost(is_recursive=True)
        fields = [self.cost(each["type"]) for each in node["fields"]]
        found = _around(
            fields,
            least_bytes=sum(each.least_bytes for each in fields),
            value_count=1 + sum(each.value_count for each in fields),
        )
        if found.value_count > MAX_VALUES_PER_BYTE * max(found.least_bytes, 1):
            raise SerializationError(
                f"the record {name} has too many fields that take no bytes, or records within"
                f" each other: a byte may become at most {MAX_VALUES_PER_BYTE} values"
            )
        self._known[name] = found
        return found


def _around(
    inner: Sequence[ReadingCost], *, least_bytes: int = 1, value_count: int = 1
) -> ReadingCost:
    """Return the cost of a type that contains the types ``inner``."""
    return ReadingCost(
        least_bytes=least_bytes,
        value_count=value_count,
        depth=1 + max((each.depth for each in inner), default=0),
        is_recursive=any(each.is_recursive for each in inner),
    )
