"""Random messages carry a value of each field's wire type.

A field that a version lacks keeps its default.
"""

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from log_service.protocol.api_versions import KNOWN, request_class, response_class
from log_service.protocol.schema import Field, Message, has_version, version_span

STORED_MODULES = ("metadata_records", "group_records", "control_records", "producer_snapshot")
OTHER_MODULES = (
    "messages.headers",
    "messages.consumer_protocol",
    *(f"stored.{name}" for name in STORED_MODULES),
)

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
OTHERS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "bytes": st.binary(max_size=5) | st.just(b"y" * 200),
    "records": st.binary(max_size=5) | st.just(b"y" * 200),
    "uuid": st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number)),
    "float64": st.floats(allow_nan=False),
}


def messages() -> Iterator[type[Message]]:
    """Yield the class of everything that is generated."""
    classes = [cls for key in KNOWN for cls in (request_class(key), response_class(key))]
    for name in OTHER_MODULES:
        module = importlib.import_module(f"log_service.protocol.{name}")
        nested = {field.struct for cls in _classes(module) for field in cls.SCHEMA.fields}
        classes += [cls for cls in _classes(module) if cls not in nested]
    yield from classes


def versions(cls: type[Message]) -> range:
    """Return all versions of a message."""
    first, last = version_span(cls.SCHEMA.valid)
    return range(first, last + 1)


def in_each_version(
    drawn: Any, cls: type[Message], *, is_tame: bool = False
) -> Iterator[tuple[int, Any]]:
    """Draw a message for each version in turn.

    A test of each version apart would cost more in pytest and hypothesis than in the codec.
    """
    for version in versions(cls):
        yield (
            version,
            drawn.draw(instances(cls, version, is_tame=is_tame), label=f"in version {version}"),
        )


def _classes(module: Any) -> list[type[Message]]:
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__
    ]


def named(cls: type[Message]) -> str:
    """Name a parameter of a test."""
    return cls.__name__


@cache
def instances(cls: type[Message], version: int, *, is_tame: bool = False) -> st.SearchStrategy[Any]:
    """Return a strategy of messages that ``version`` can carry.

    Tame ones have small numbers and plain text only.
    """
    present = {
        field.name: field for field in cls.SCHEMA.fields if has_version(field.versions, version)
    }
    return st.builds(
        cls, **{name: _values(field, version, is_tame=is_tame) for name, field in present.items()}
    )


def _values(field: Field, version: int, *, is_tame: bool) -> st.SearchStrategy[Any]:
    element = _elements(field, version, is_tame=is_tame)
    values: st.SearchStrategy[Any] = st.lists(element, max_size=3) if field.is_array else element
    if field.is_array and field.struct is None and not is_tame:
        values |= st.lists(element, min_size=1, max_size=1).map(lambda one: one * 200)
    if field.struct is not None and field.tag is not None and not field.is_array:
        default = field.struct()
        return st.none() | values.filter(lambda value: value != default)
    return st.none() | values if has_version(field.nullable, version) else values


def _elements(field: Field, version: int, *, is_tame: bool) -> st.SearchStrategy[Any]:
    kind = field.element_type
    if field.struct is not None:
        return instances(field.struct, version, is_tame=is_tame)
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        return (
            st.integers(0, 50)
            if is_tame
            else st.sampled_from((low, high, 0)) | st.integers(low, high)
        )
    if kind == "string":
        return (
            st.text("abc", max_size=4)
            if is_tame
            else st.text(max_size=6) | st.integers(126, 300).map(lambda size: "x" * size)
        )
    return OTHERS[kind]
