"""Converts Avro values to JSON and back, as ``tidelog consume`` prints and ``produce`` reads them.

Bytes are text with one character for each byte, as in Avro's own JSON. Decimals are text or
numbers. Dates and times are ISO 8601 or Avro's numbers. A value of a union may be tagged with its
branch as in Avro's own JSON, ``{"string": "a"}``. Otherwise the first branch that fits is taken. An
object whose only key names a branch is always a tagged value.

Checks that a value fits its schema, so that the error can name the part that does not.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from log_service.client.schemas.errors import SerializationError
from log_service.client.schemas.step_budget import StepBudget

RECORDS: Final = frozenset({"record", "error"})
NAMED: Final = RECORDS | {"enum", "fixed"}
INTEGER_BITS: Final[Mapping[str, int]] = MappingProxyType({"int": 32, "long": 64})
NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
MAX_REASON_CHARACTERS: Final = 2_000
READ_TEXT: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {
        "decimal": Decimal,
        "uuid": lambda text: str(UUID(text)),
        "date": date.fromisoformat,
        "time-millis": time.fromisoformat,
        "time-micros": time.fromisoformat,
        "timestamp-millis": datetime.fromisoformat,
        "timestamp-micros": datetime.fromisoformat,
        "local-timestamp-millis": datetime.fromisoformat,
        "local-timestamp-micros": datetime.fromisoformat,
    }
)
"""How the text of a logical type becomes an object that fastavro writes."""


AS_TEXT: Final[tuple[tuple[type[Any], Callable[[Any], str]], ...]] = (
    (bytes, lambda value: value.decode("latin-1")),
    (Decimal, lambda value: format(value, "f")),
    (date, lambda value: value.isoformat()),
    (time, lambda value: value.isoformat()),
    (UUID, str),
)
"""How objects that fastavro reads become text. A datetime is a date, too, and has its own text."""


def to_json(value: Any) -> Any:
    """Convert a value that fastavro has read to a JSON value."""
    if isinstance(value, dict):
        return {name: to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, float):
        return (
            value
            if math.isfinite(value)
            else "NaN"
            if math.isnan(value)
            else "Infinity"
            if value > 0
            else "-Infinity"
        )
    found = next((as_text for kind, as_text in AS_TEXT if isinstance(value, kind)), None)
    return value if found is None else found(value)


class AvroReading:
    """Converts JSON values to values of one schema, which fastavro has parsed."""

    def __init__(self, parsed: Any) -> None:
        self._parsed = parsed
        self._named: dict[str, Any] = {}
        _collect(parsed, self._named)
        self._budget = StepBudget()

    def __call__(self, value: Any) -> Any:
        """Convert a JSON value to one for fastavro.

        Raises:
            SerializationError: the value does not fit the schema.
        """
        self._budget.renew(value)
        return self._read(value, self._parsed, "$")

    def _read(self, value: Any, node: Any, path: str) -> Any:
        if isinstance(node, list):
            return self._union(value, node, path)
        if isinstance(node, str):
            return (
                self._read(value, self._named[node], path)
                if node in self._named
                else _primitive(value, node, path)
            )
        return self._described(value, node, path)

    def _described(self, value: Any, node: Mapping[str, Any], path: str) -> Any:
        """Convert a value of a schema that is written as a JSON object, such as a record."""
        kind = node["type"]
        if kind in RECORDS:
            return self._record(value, node, path)
        if kind == "array":
            items = _expect(value, list, "a list", path)
            return [
                self._read(each, node["items"], f"{path}[{index}]")
                for index, each in enumerate(items)
            ]
        if kind == "map":
            entries = _expect(value, dict, "an object", path).items()
            return {
                name: self._read(each, node["values"], f"{path}.{name}") for name, each in entries
            }
        if node.get("logicalType") in READ_TEXT:
            return _logical(value, node, path)
        named = {"enum": _enum, "fixed": _fixed}.get(kind) if isinstance(kind, str) else None
        return self._read(value, kind, path) if named is None else named(value, node, path)

    def _record(self, value: Any, node: Mapping[str, Any], path: str) -> dict[str, Any]:
        given = _expect(value, dict, f"an object of {node['name']}", path)
        fields = {field["name"]: field for field in node["fields"]}
        for name in given:
            if name not in fields:
                raise SerializationError(
                    f"{path}: {node['name']} has no field {name!r}; it has"
                    f" {', '.join(fields) or 'none'}"
                )
        for name, field in fields.items():
            if name not in given and "default" not in field:
                raise SerializationError(f"{path}: the field {name!r} of {node['name']} is missing")
            if name not in given:
                self._spend_default(field["default"], field["type"])
        return {
            name: self._read(each, fields[name]["type"], f"{path}.{name}")
            for name, each in given.items()
        }

    def _spend_default(self, value: Any, node: Any) -> None:
        """Count the steps that fastavro takes to write a default with the defaults within it."""
        self._budget.spend()
        if not isinstance(value, dict | list):
            return
        if isinstance(node, str):
            node = self._named.get(node, node)
        if isinstance(node, list):
            for branch in node:
                self._spend_default(value, branch)
        elif isinstance(node, dict) and node["type"] in RECORDS and isinstance(value, dict):
            for field in node["fields"]:
                if field["name"] in value or "default" in field:
                    found = value.get(field["name"], field.get("default"))
                    self._spend_default(found, field["type"])
        elif isinstance(node, dict):
            inner = node.get("items") or node.get("values")
            for each in value.values() if isinstance(value, dict) else value:
                self._spend_default(each, inner)

    def _union(self, value: Any, branches: list[Any], path: str) -> Any:
        """Convert a value of a union to a tuple of its branch's name and the value, or to None."""
        refusals: list[str] = []
        for branch, inner in self._options(value, branches):
            self._budget.spend()
            try:
                found = self._read(inner, branch, path)
            except SerializationError as error:
                refusals.append(str(error))
            else:
                return None if branch == "null" else (branch_name(branch), found)
        reasons = " or ".join(dict.fromkeys(refusals))[:MAX_REASON_CHARACTERS]
        raise SerializationError(reasons or f"{path}: the union has no branches")

    def _options(self, value: Any, branches: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield the branches to try, each with the value that it would read.

        If the value is tagged, only the branch of the tag is yielded. So a tagged value that does
        not fit is not read as a map whose only key equals the tag.
        """
        tag = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else None
        for branch in branches:
            if tag is not None and tag == branch_name(branch):
                yield branch, value[tag]
                return
        for branch in [
            each for each in branches if (each == "null") == (value is None)
        ] or branches:
            yield branch, value


def branch_name(branch: Any) -> str:
    """Return the name of a union's branch: the full name of a named type, or else the type."""
    if isinstance(branch, str):
        return branch
    return str(branch["name"] if branch["type"] in NAMED else branch["type"])


def _collect(node: Any, named: dict[str, Any]) -> None:
    """Add the definitions of a schema's named types to ``named``, by full name.

    fastavro has replaced their names with full names.
    """
    if isinstance(node, list):
        for each in node:
            _collect(each, named)
    if not isinstance(node, dict):
        return
    if node["type"] in NAMED:
        named[node["name"]] = node
    for inner in (
        node.get("items"),
        node.get("values"),
        *(field["type"] for field in node.get("fields", ())),
    ):
        _collect(inner, named)


def _expect(value: Any, kind: type[Any], words: str, path: str) -> Any:
    if isinstance(value, kind):
        return value
    raise SerializationError(f"{path}: {words} is expected, not {_shown(value)}")


def _shown(value: Any) -> str:
    """Return the description of a JSON value in an error: its type, or a number itself."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return repr(value) if isinstance(value, int | float) else "text"


def _primitive(value: Any, kind: str, path: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in INTEGER_BITS:
        limit = 1 << (INTEGER_BITS[kind] - 1)
        fits = is_number and isinstance(value, int) and -limit <= value < limit
    elif kind in {"float", "double"}:
        if isinstance(value, str) and value in NOT_FINITE:
            return float(value)
        fits = is_number
    elif kind == "bytes":
        return _bytes(value, path)
    else:
        fits = {
            "null": value is None,
            "boolean": isinstance(value, bool),
            "string": isinstance(value, str),
        }.get(kind, False)
    if not fits:
        raise SerializationError(f"{path}: {kind} is expected, not {_shown(value)}")
    return value


def _bytes(value: Any, path: str) -> bytes:
    try:
        encoded: bytes = _expect(value, str, "text with a character for each byte", path).encode(
            "latin-1"
        )
    except UnicodeEncodeError as error:
        raise SerializationError(
            f"{path}: {error.object[error.start]!r} is not a byte: bytes are text of characters up"
            " to U+00FF"
        ) from error
    return encoded


def _enum(value: Any, node: Mapping[str, Any], path: str) -> str:
    if value not in node["symbols"]:
        shown = repr(value) if isinstance(value, str) else _shown(value)
        raise SerializationError(
            f"{path}: one of {', '.join(node['symbols'])} is expected, not {shown}"
        )
    return str(value)


def _fixed(value: Any, node: Mapping[str, Any], path: str) -> bytes:
    found = _bytes(value, path)
    if len(found) != node["size"]:
        raise SerializationError(f"{path}: {node['size']} bytes are expected, not {len(found)}")
    return found


def _logical(value: Any, node: Mapping[str, Any], path: str) -> Any:
    """Convert the text of a value with a logical type, such as a date, to its Python object.

    A number is returned as Avro's own number, or as a ``Decimal`` for a decimal.
    """
    logical, kind = node["logicalType"], node["type"]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if logical == "decimal" and is_number:
        return Decimal(str(value))
    if kind in INTEGER_BITS and is_number:
        return _primitive(value, kind, path)
    text = _expect(value, str, f"{logical} as text", path)
    try:
        return READ_TEXT[logical](text)
    except (ValueError, ArithmeticError) as error:
        raise SerializationError(f"{path}: {text!r} is not a {logical}") from error
