"""Parses the types of an Avro schema from its JSON, with resolved names.

Decides which schemas a topic may declare: a record at the top, no type nested within itself more
often than declared, no array whose items take no bytes (a value of few bytes could claim any number
of them), and only types that columns of a table can hold. A field that is left out keeps its type,
because its bytes have to be skipped. An unknown logical type is read as its underlying type, as
Avro specifies. Invariant: a tree of types is finite, because recursive types end in ``TOO_DEEP`` or
``AGAIN``. Each item of its arrays, and each entry of its maps, takes at least one byte. So the size
of a read value, and the time to read it, are proportional to its bytes.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from log_service.client.schemas.avro_bounds import MAX_VALUES_PER_BYTE
from orchestration.formats.columns import Chosen, validate_names

ALL = Chosen()

PRIMITIVES: Mapping[str, int] = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
"""The least bytes of a value, by type."""
UNION = "union"
COMPLEX = ("record", "enum", "array", "map", "fixed")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LOGICAL: Mapping[str, Sequence[str]] = {
    "decimal": ("bytes", "fixed"),
    "date": ("int",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "uuid": ("string", "fixed"),
}
"""The underlying types of each logical type."""
MAX_DECIMAL_DIGITS, UUID_BYTES = 38, 16
MAX_TYPES = 10_000
"""Bound on the types of a record, counted at each place.

Without it nested references double the count at each level.
"""
TOO_DEEP, AGAIN = "too deep", "again"
"""The types of a record within itself: below the declared depth, and in a field that is left
out.
"""
NO_NULL = -1
NOTHING = object()
"""Marks a field without default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """One type.

    ``name`` is the name of a primitive or complex type, and decides which other fields apply.
    """

    name: str
    least_bytes: int
    logical: str = ""
    is_union: bool = False
    null_index: int = NO_NULL
    """The index of null in the union."""
    fields: tuple["AvroField", ...] = ()
    symbols: tuple[str, ...] = ()
    default_symbol: str = field(default="", compare=False)
    """The symbol of an enum that replaces unknown symbols, empty without one."""
    items: "AvroType | None" = None
    members: tuple[tuple[str, "AvroType"], ...] = ()
    """The names and types of a union of several types, with null at ``null_index``."""
    type_count: int = field(default=1, compare=False)
    """The number of types in it, counted at each place."""
    empty_count: int = field(default=0, compare=False)
    """The number of values without bytes in a value of the least size."""
    size: int = 0
    precision: int = 0
    scale: int = 0
    resolve: "Callable[[], AvroType] | None" = field(default=None, compare=False)
    """Returns the record that ``AGAIN`` stands for."""

    @property
    def is_too_deep(self) -> bool:
        """Return whether values are nested deeper than declared, except empty arrays and maps."""
        return self.name == TOO_DEEP or (self.items is not None and self.items.is_too_deep)

    @property
    def is_nullable(self) -> bool:
        """Return whether a value may be null."""
        return self.name == "null" or self.null_index != NO_NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    doc: str = field(default="", compare=False)
    default: Any = field(default=NOTHING, compare=False)
    aliases: tuple[str, ...] = field(default=(), compare=False)
    is_column: bool = True


def parse_avro(text: str | bytes, chosen: Chosen = ALL, *, is_older: bool = False) -> AvroType:
    """Return the record that a schema's JSON declares, with the ``chosen`` fields as columns.

    With ``is_older`` the schema may lack fields that are to be left out.

    :raises ValueError: the text is not JSON, or not an Avro schema, or has a type that no table can
        hold. The text names the field.
    """
    try:
        declared = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    names = _Names(chosen)
    found = names.type(declared, "the schema", "", "")
    if found.name != "record" or found.is_union:
        raise ValueError(
            f"the schema is {with_article(UNION if found.is_union else found.name)}: only the"
            " fields of a record can become columns"
        )
    if not is_older:
        chosen.validate_used(names.left_out)
    return found


def parse_written(text: str) -> AvroType:
    """Return the record type of a schema with which values were written.

    A record within itself becomes ``AGAIN``, because values may be nested to any depth.

    :raises ValueError: as ``parse_avro``.
    """
    try:
        declared = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from error
    found = _Names(ALL, is_endless=True).type(declared, "the schema", "", "")
    if found.name != "record" or found.is_union:
        raise ValueError(
            f"the schema is {with_article(UNION if found.is_union else found.name)}, and no record"
        )
    return found


class _Names:
    """The named types that were declared so far. A type that is being read is None.

    If fields are left out, a record may have different fields wherever it is used. So it is read
    again at each use.
    """

    def __init__(self, chosen: Chosen, *, is_endless: bool = False) -> None:
        self._is_endless = is_endless
        self._known: dict[str, AvroType | None] = {}
        self._chosen = chosen
        self._origins: dict[str, Mapping[str, Any]] = {}
        self._declared: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._above: list[str] = []
        self._passed_above: list[str] | None = None
        self._passed: dict[str, AvroType] = {}
        self.left_out: set[str] = set()

    def type(self, declared: Any, where: str, path: str, space: str) -> AvroType:
        """Return the type that ``declared`` describes. Names are in the namespace ``space``.

        ``path`` is the path of the field, and ``where`` is its name in errors.
        """
        if isinstance(declared, list):
            return self._union(declared, where, path, space)
        if isinstance(declared, str):
            return (
                AvroType(name=declared, least_bytes=PRIMITIVES[declared])
                if declared in PRIMITIVES
                else self._named(declared, where, path, space)
            )
        if not isinstance(declared, dict) or "type" not in declared:
            raise ValueError(f"{where} has no type: {json.dumps(declared)[:80]}")
        kind = declared["type"]
        if not isinstance(kind, str):
            return self.type(kind, where, path, space)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declare(kind, declared, where, path, space)
        if kind in ("array", "map"):
            return self._collection(kind, declared, where, path, space)
        found = self.type(kind, where, path, space)
        return _logical(found, declared, where) if kind in PRIMITIVES else found

    def _named(self, name: str, where: str, path: str, space: str) -> AvroType:
        for full in (_full(name, space), name):
            if full in self._known:
                known = self._known[full]
                if self._chosen != ALL and full in self._declared:
                    return self._again(full, where, path)
                if known is None and self._is_endless:
                    return AvroType(
                        name=AGAIN, least_bytes=1, resolve=partial(self._record_of, full)
                    )
                if known is None:
                    raise ValueError(self._chosen.within_itself(where.removeprefix("field "), name))
                return known
        near = get_close_matches(name, [*PRIMITIVES, *COMPLEX, *self._known], 1)
        advice = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{where}: there is no type {name}{advice}")

    def _record_of(self, full: str) -> AvroType:
        found = self._known[full]
        assert found is not None, "a record is read when its values are"
        return found

    def _again(self, full: str, where: str, path: str) -> AvroType:
        """Return a record that was declared before, for another use at ``path``."""
        declared, space = self._declared[full]
        if self._passed_above is not None:
            if full in self._passed_above:
                return AvroType(name=AGAIN, least_bytes=1, resolve=lambda: self._passed[full])
        elif full in self._above:
            if not self._chosen.depth:
                raise ValueError(self._chosen.within_itself(where.removeprefix("field "), full))
            if self._above.count(full) > self._chosen.depth:
                return AvroType(name=TOO_DEEP, least_bytes=1)
        return self._declare("record", declared, where, path, space)

    def _union(self, declared: Sequence[Any], where: str, path: str, space: str) -> AvroType:
        chosen = [one for one in declared if one != "null"]
        if len(declared) - len(chosen) > 1:
            raise ValueError(f"{where} is a union that has null more than once")
        if len(chosen) > 1:
            return self._members(declared, where, path, space)
        if not declared:
            raise ValueError(f"{where} is a union of nothing")
        if not chosen:
            return AvroType(name="null", least_bytes=1, is_union=True, null_index=0)
        found = self.type(chosen[0], where, path, space)
        if found.is_union:
            raise ValueError(f"{where} is a union within a union")
        if "null" not in declared:
            return replace(found, is_union=True, least_bytes=1 + found.least_bytes)
        return replace(found, is_union=True, least_bytes=1, null_index=declared.index("null"))

    def _members(self, declared: Sequence[Any], where: str, path: str, space: str) -> AvroType:
        """Return a union of several types, each with a name.

        The name of a record, enum or fixed is its own, without a namespace. Any other type has the
        name of its kind.
        """
        names = [_member_name(one) for one in declared]
        validate_names([name for name in names if name != "null"], f"{where}, a union,")
        found = []
        for name, one in zip(names, declared, strict=True):
            inner = f"{path}.{name}" if path else name
            kind = self.type(one, f"field {inner}", inner, space)
            if kind.is_union:
                raise ValueError(f"{where} is a union within a union")
            found.append((name, kind))
        null = names.index("null") if "null" in names else NO_NULL
        kinds = [kind for _, kind in found]
        return AvroType(
            name=UNION,
            least_bytes=1,
            is_union=True,
            null_index=null,
            members=tuple(found),
            type_count=1 + sum(kind.type_count for kind in kinds),
            empty_count=max(map(_empty_count, kinds)),
        )

    def _declare(
        self, kind: str, declared: Mapping[str, Any], where: str, path: str, space: str
    ) -> AvroType:
        name = declared.get("name")
        if not isinstance(name, str) or not all(NAME.fullmatch(part) for part in name.split(".")):
            raise ValueError(
                f"{where}: {with_article(kind)} needs a name of letters, digits and"
                f" underscores, not {name!r}"
            )
        full = _full(name, str(declared.get("namespace", space)))
        if self._origins.setdefault(full, declared) is not declared or full in PRIMITIVES:
            raise ValueError(f"{where}: the name {full} is taken")
        self._known[full] = None
        if kind == "enum":
            found = _enum(declared, where)
        elif kind == "fixed":
            found = _logical(_fixed(declared, where), declared, where)
        else:
            found = self._placed_record(declared, full, path, space)
        self._known[full] = found
        return found

    def _placed_record(
        self, declared: Mapping[str, Any], full: str, path: str, space: str
    ) -> AvroType:
        """Return a record. While its fields are read, it is on the stack of enclosing records."""
        self._declared[full] = declared, space
        passed = self._passed_above
        above = self._above if passed is None else passed
        above.append(full)
        found = self._record(declared, f"the record {full}", path, full.rpartition(".")[0])
        above.pop()
        if passed is not None:
            self._passed[full] = found
        return found

    def _record(self, declared: Mapping[str, Any], where: str, path: str, space: str) -> AvroType:
        listed = declared.get("fields")
        if not isinstance(listed, list) or not all(
            isinstance(one, dict) and isinstance(one.get("name"), str) for one in listed
        ):
            raise ValueError(f"{where} needs fields, a list of objects with a name and a type")
        validate_names([one["name"] for one in listed], where)
        fields = tuple(
            self._field(one, f"{path}.{one['name']}" if path else one["name"], space)
            for one in listed
        )
        if fields and not any(one.is_column for one in fields):
            raise ValueError(
                f"{where} has no field left that can become a column: leave the field out"
                " that holds it"
            )
        found = AvroType(
            name="record",
            least_bytes=sum(one.type.least_bytes for one in fields),
            fields=fields,
            type_count=1 + sum(one.type.type_count for one in fields),
            empty_count=sum(_empty_count(one.type) for one in fields),
        )
        if found.type_count > MAX_TYPES:
            raise ValueError(
                f"{where} has {found.type_count:,} types, with those within them, of at most"
                f" {MAX_TYPES:,}"
            )
        if found.empty_count > MAX_VALUES_PER_BYTE * max(found.least_bytes, 1):
            raise ValueError(
                f"{where} has {found.empty_count:,} fields that take no bytes: a byte may become at"
                f" most {MAX_VALUES_PER_BYTE} values"
            )
        return found

    def _field(self, declared: Mapping[str, Any], path: str, space: str) -> AvroField:
        name = declared["name"]
        if not NAME.fullmatch(name):
            raise ValueError(
                f"field {path}: {name!r} is not a name of letters, digits and underscores"
            )
        is_left_out = path in self._chosen.leave_out and self._passed_above is None
        if is_left_out:
            self.left_out.add(path)
            self._passed_above = []
        found = self.type(declared.get("type"), f"field {path}", path, space)
        if is_left_out:
            self._passed_above = None
        is_column = not is_left_out and not found.is_too_deep
        doc = str(declared.get("doc") or "")
        aliases = tuple(str(one) for one in declared.get("aliases") or ())
        default = declared.get("default", NOTHING)
        return AvroField(
            name=name, type=found, doc=doc, default=default, aliases=aliases, is_column=is_column
        )

    def _collection(
        self, kind: str, declared: Mapping[str, Any], where: str, path: str, space: str
    ) -> AvroType:
        wanted = "items" if kind == "array" else "values"
        if wanted not in declared:
            raise ValueError(f"{where}: {with_article(kind)} needs {wanted}")
        items = self.type(declared[wanted], f"{where}[]", f"{path}[]", space)
        if kind == "array" and not items.least_bytes:
            raise ValueError(
                f"{where} is an array of what takes no bytes: a damaged value could claim any"
                " number of them"
            )
        return AvroType(name=kind, least_bytes=1, items=items, type_count=1 + items.type_count)


def _empty_count(kind: AvroType) -> int:
    """Return how many values take no bytes in the smallest value of a type, itself included."""
    return kind.empty_count if kind.least_bytes else max(kind.empty_count, 1)


def _member_name(declared: Any) -> str:
    if isinstance(declared, Mapping):
        declared = declared.get("name") or declared.get("type")
    return declared.rpartition(".")[2] if isinstance(declared, str) else "union"


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an" before it."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def _full(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _enum(declared: Mapping[str, Any], where: str) -> AvroType:
    symbols = declared.get("symbols")
    if (
        not isinstance(symbols, list)
        or not symbols
        or not all(isinstance(one, str) for one in symbols)
        or len({*symbols}) < len(symbols)
    ):
        raise ValueError(f"{where}: an enum needs symbols, a list of texts that differ")
    return AvroType(
        name="enum",
        least_bytes=1,
        symbols=tuple(symbols),
        default_symbol=str(declared.get("default") or ""),
    )


def _fixed(declared: Mapping[str, Any], where: str) -> AvroType:
    size = declared.get("size")
    if type(size) is not int or size < 0:
        raise ValueError(f"{where}: a fixed needs a size, a number of bytes")
    return AvroType(name="fixed", least_bytes=size, size=size)


def _logical(found: AvroType, declared: Mapping[str, Any], where: str) -> AvroType:
    """Return ``found`` with the declared logical type, if that is known and fits ``found``."""
    logical = declared.get("logicalType")
    if not isinstance(logical, str) or found.name not in LOGICAL.get(logical, ()):
        return found
    if logical == "uuid" and found.name == "fixed" and found.size != UUID_BYTES:
        return found
    if logical != "decimal":
        return replace(found, logical=logical)
    precision, scale = declared.get("precision"), declared.get("scale", 0)
    if (
        type(precision) is not int
        or type(scale) is not int
        or not 0 <= scale <= precision
        or not 1 <= precision <= MAX_DECIMAL_DIGITS
    ):
        raise ValueError(
            f"{where}: a decimal has a precision of 1 to {MAX_DECIMAL_DIGITS} digits and a"
            " scale of no more, "
            f"not precision {precision} and scale {scale}"
        )
    return replace(found, logical=logical, precision=precision, scale=scale)
