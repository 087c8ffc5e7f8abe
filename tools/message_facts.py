"""Reads facts about messages from schema files, cut down to the versions that tidelog speaks.

There are two sources: the JSON schemas that kafka-python carries as package data (client-facing
APIs), and the files under ``tools/schemas`` (stored records, messages between nodes, tidelog's own
API). Both have the same form. Only names, types, versions, tags, defaults and flags are read. Prose
is left out.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from log_service.protocol.schema import NO_LIMIT, version_span

OWN_SCHEMAS = Path(__file__).parent / "schemas"
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*')
PRIMITIVES = frozenset(
    {
        "bool",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float64",
        "string",
        "bytes",
        "records",
        "uuid",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFacts:
    """One field of a schema. ``struct`` is set where the (element) type is a struct."""

    name: str
    type: str
    versions: str
    nullable: str
    tag: int | None
    ignorable: bool
    default: Any
    flexible: str | None
    struct: "StructFacts | None"

    @property
    def element_type(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StructFacts:
    """A struct and its fields, in wire order."""

    name: str
    fields: tuple[FieldFacts, ...]

    def nested(self) -> Iterator[tuple["StructFacts", FieldFacts]]:
        """Yield (owner, field) of every struct-typed field, innermost first."""
        for field in self.fields:
            if field.struct is not None:
                yield from field.struct.nested()
                yield self, field


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFacts:
    """A whole message: its top struct, the spoken versions, and the first flexible version."""

    struct: StructFacts
    key: int | None
    valid: str
    flexible: str


def load_message(name: str, valid: str | None = None) -> MessageFacts:
    """Read a message by its schema's name. ``valid`` narrows the schema's own versions.

    Raises:
        FileNotFoundError: neither source has the schema.
    """
    raw = json.loads(COMMENT.sub(lambda match: match[1] or "", _read(name)))
    versions = valid or raw["validVersions"]
    shared = {entry["name"]: entry["fields"] for entry in raw.get("commonStructs", ())}
    return MessageFacts(
        struct=StructFacts(name=raw["name"], fields=_fields(raw["fields"], shared, versions)),
        key=raw.get("apiKey"),
        valid=versions,
        flexible=_within(raw["flexibleVersions"], versions),
    )


def _read(name: str) -> str:
    own = OWN_SCHEMAS / f"{name}.json"
    if own.exists():
        return own.read_text()
    package = find_spec("kafka")  # found, not imported: its files are wanted, not its client
    assert package is not None and package.origin is not None, "kafka-python is not installed"  # noqa: PT018
    return (
        Path(package.origin).parent / "protocol" / "schemas" / "resources" / f"{name}.json"
    ).read_text()


def _fields(
    raw_fields: list[dict[str, Any]], shared: dict[str, Any], valid: str
) -> tuple[FieldFacts, ...]:
    return tuple(
        _field(raw, shared, valid) for raw in raw_fields if _within(raw["versions"], valid)
    )


def _field(raw: dict[str, Any], shared: dict[str, Any], valid: str) -> FieldFacts:
    element = raw["type"].removeprefix("[]")
    struct = None
    if element not in PRIMITIVES:
        struct = StructFacts(
            name=element, fields=_fields(raw.get("fields") or shared[element], shared, valid)
        )
    versions = raw["versions"]
    if "tag" in raw and not _covers(raw["taggedVersions"], versions, valid):
        message = (
            f"{raw['name']}: tagged in {raw['taggedVersions']} but present in {versions}; a field"
            " must be tagged always or never"
        )
        raise ValueError(message)
    return FieldFacts(
        name=snake_case(raw["name"]),
        type=raw["type"] if struct is None else raw["type"].replace(element, "struct"),
        versions=versions,
        nullable=_within(raw.get("nullableVersions", ""), valid),
        tag=raw.get("tag"),
        ignorable=raw.get("ignorable", False),
        default=_default(raw, element, struct),
        flexible=raw.get("flexibleVersions"),
        struct=struct,
    )


def _default(raw: dict[str, Any], element: str, struct: StructFacts | None) -> Any:
    """Return the default as a Python value.

    ``...`` means an empty list, a struct of defaults, or a zero uuid. None is also the default of
    an absent tagged struct that cannot be null.
    """
    text = raw.get("default", "")
    is_array = raw["type"].startswith("[]")
    is_absent_none = (
        struct is not None and "tag" in raw and "nullableVersions" not in raw and not is_array
    )
    if text == "null" or (element == "records" and not is_array) or is_absent_none:
        return None
    if is_array or struct is not None or element == "uuid":
        return ...
    if element in {"string", "bytes"}:
        return text if element == "string" else b""
    if element == "bool":
        return str(text).lower() == "true"
    if element == "float64":
        return float(text or 0)
    return int(str(text) or "0", 0)


def _within(versions: str, valid: str) -> str:
    """Return ``versions``, or nothing where none of them is spoken."""
    first, last = version_span(versions)
    valid_first, valid_last = version_span(valid)
    return versions if max(first, valid_first) <= min(last, valid_last) else ""


def _covers(outer: str, inner: str, valid: str) -> bool:
    """Return whether every spoken version of ``inner`` is one of ``outer``."""
    valid_first, valid_last = version_span(valid)
    first, last = version_span(inner)
    outer_first, outer_last = version_span(outer)
    return outer_first <= max(first, valid_first) and min(last, valid_last) <= min(
        outer_last, NO_LIMIT
    )


def snake_case(name: str) -> str:
    """Return Kafka's CamelCase name as a Python name.

    ``KRaftVersion`` becomes ``kraft_version``, and ``ISRs`` becomes ``isrs``.
    """
    text = name.replace("KRaft", "Kraft")
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", text)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower()
