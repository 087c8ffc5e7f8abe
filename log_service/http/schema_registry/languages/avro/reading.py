"""Reads the text of a schema, by the rules of Avro 1.12's ``Schema.Parser``.

A name may be used before its definition. Every error names its path, such as ``/fields/2/type``. A
level of nested types takes three frames of Python's stack, so ``SchemaLimits.nesting`` bounds the
levels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from log_service.http.schema_registry.languages.avro.attributes import (
    ENUM_ATTRIBUTES,
    FIELD_ATTRIBUTES,
    Attributes,
    aliases_of,
    attribute,
    default_of,
    fits_long,
    order_of,
    properties_of,
    text_of,
)
from log_service.http.schema_registry.languages.avro.defaults import LONG_BITS, fits
from log_service.http.schema_registry.languages.avro.definitions import (
    SHOWN_CHARACTERS,
    Definitions,
    invalid,
    validate_name,
)
from log_service.http.schema_registry.languages.avro.json_text import json_text, parse_json
from log_service.http.schema_registry.languages.avro.types import (
    PRIMITIVES,
    Array,
    AvroType,
    Definition,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Name,
    Named,
    Primitive,
    Properties,
    Record,
    Reference,
    Union,
    Use,
    full_name,
    target,
)
from log_service.http.schema_registry.languages.language import InvalidSchemaError, NamedSchema
from log_service.http.schema_registry.languages.limits import Budget, SchemaLimits

MAX_FIXED_BYTES = 2**31 - 9
"""The longest array of Java."""

BRACKETS_OF_A_TYPE = 3
"""Brackets that a record within a record opens: its own, its list of fields, and that of the field.
"""

CHARACTERS_OF_A_STEP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of a type in a text: the namespace around it, its path and its depth."""

    namespace: str = ""
    path: str = ""
    depth: int = 0

    def inside(self, step: str, namespace: str | None = None) -> "Place":
        """Return the position of an inner type.

        Without ``namespace`` the inner type has the same namespace around it.
        """
        own = self.namespace if namespace is None else namespace
        return Place(namespace=own, path=f"{self.path}/{step}", depth=self.depth + 1)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SchemaTypes:
    """The types of a text and of the schemas that it refers to.

    ``root`` is the type of the text. ``referenced`` are the root types of the referenced schemas,
    and ``named`` are all named types in these.
    """

    root: AvroType
    referenced: tuple[AvroType, ...]
    named: tuple[Definition, ...]

    @property
    def referenced_names(self) -> frozenset[str]:
        """The full names of the root types of the referenced schemas, if they have names.

        The canonical text does not repeat the definitions of these types.
        """
        return frozenset(one.name.full for one in self.referenced if isinstance(one, Named))


def read_schema(
    text: str, dependencies: Sequence[NamedSchema], *, is_new: bool, limits: SchemaLimits
) -> SchemaTypes:
    """Read a text and the texts of its dependencies, and return their types.

    Raises:
        InvalidSchemaError: a text is not a schema, or is over a bound.
    """
    if len(dependencies) > limits.reference_count:
        raise InvalidSchemaError(f"the schema has more than {limits.reference_count} references")
    reader = SchemaReader(is_new=is_new, limits=limits)
    referenced: list[AvroType] = []
    for dependency in dependencies:
        try:
            referenced.append(reader.read(dependency.text))
        except InvalidSchemaError as error:
            name = dependency.name[:SHOWN_CHARACTERS]
            raise InvalidSchemaError(f"in the reference {name}: {error}") from error
    named = reader.definitions.types()
    return SchemaTypes(root=reader.read(text), referenced=tuple(referenced), named=named)


class SchemaReader:
    """Reads texts one after the other. Each may use the names that earlier texts define.

    With ``is_new`` the checks for new schemas run too, such as those of names and defaults.
    """

    __slots__ = ("_budget", "_fields", "_is_new", "_limits", "_unions", "definitions")

    def __init__(self, *, is_new: bool, limits: SchemaLimits) -> None:
        self._is_new = is_new
        self._limits = limits
        self._budget = Budget(limits)
        self._fields: list[tuple[Field, str]] = []
        self._unions: list[tuple[list[Use], str]] = []
        self.definitions = Definitions(self._budget)

    def __repr__(self) -> str:
        return f"<SchemaReader {self.definitions!r}>"

    def read(self, text: str) -> AvroType:
        """Return the type of a text.

        Raises:
            InvalidSchemaError: the text is not a schema, or is over a bound.
        """
        validate_size(text, self._limits)
        self._budget.spend(len(text) // CHARACTERS_OF_A_STEP)
        self._fields.clear()
        self._unions.clear()
        nesting = BRACKETS_OF_A_TYPE * self._limits.nesting
        use = self._use(parse_json(text, nesting=nesting), Place())
        if self.definitions.has_waiting:
            self.definitions.bind()
            self._validate_again()
        return self.definitions.first(target(use))

    def _validate_again(self) -> None:
        """Repeat the checks of defaults and unions that used names before their definitions."""
        for field, path in self._fields:
            self._validate_default(field, path)
        for uses, path in self._unions:
            validate_union(uses, path)

    def _use(self, value: Json, place: Place) -> Use:
        """Return the type that a JSON value declares: a name, an object, or a list for a union."""
        self._budget.spend()
        if place.depth > self._limits.nesting:
            raise invalid(place.path, f"types are nested deeper than {self._limits.nesting}")
        if isinstance(value, str):
            return self.definitions.find(value, place.namespace, place.path)
        if isinstance(value, list):
            return self._union(value, place)
        if not isinstance(value, dict):
            reason = f"{json_text(value)} is not a type: a type is a name, an object or a list"
            raise invalid(place.path, reason)
        return self._reader_of(value, place.path)(value, place)

    def _reader_of(self, value: Attributes, path: str) -> Callable[[Attributes, Place], Use]:
        """Return the method that reads an object whose attribute ``type`` has this value."""
        word = value.get("type")
        if not isinstance(word, str):
            raise invalid(path, "the attribute type of a type is missing, or is not text")
        readers = {
            "record": self._record,
            "error": self._record,
            "enum": self._enum,
            "fixed": self._fixed,
            "array": self._array,
            "map": self._map,
        }
        return self._primitive if word in PRIMITIVES else readers.get(word, self._name_in_object)

    def _primitive(self, value: Attributes, _: Place) -> Use:
        return Primitive(kind=PRIMITIVES[str(value["type"])], properties=properties_of(value))

    def _name_in_object(self, value: Attributes, place: Place) -> Use:
        """Return the type that an object's ``type`` names. Other attributes are ignored."""
        return self.definitions.find(str(value["type"]), place.namespace, f"{place.path}/type")

    def _array(self, value: Attributes, place: Place) -> Use:
        items = self._use(attribute(value, "items", place.path), place.inside("items"))
        return Array(items=items, properties=self._bounded_properties(value, place.path))

    def _map(self, value: Attributes, place: Place) -> Use:
        values = self._use(attribute(value, "values", place.path), place.inside("values"))
        return Map(values=values, properties=self._bounded_properties(value, place.path))

    def _union(self, branches: list[Json], place: Place) -> Use:
        places = (place.inside(str(number)) for number in count())
        uses = list(map(self._use, branches, places))
        validate_union(uses, place.path)
        self._unions.append((uses, place.path))
        return Union(branches=tuple(uses))

    def _record(self, value: Attributes, place: Place) -> Use:
        name = self._name(value, place)
        described = value.get("fields")
        if not isinstance(described, list):
            raise invalid(place.path, "a record has a list of fields")
        fields: dict[str, Field] = {}
        for number, one in enumerate(described):
            path = f"{place.path}/fields/{number}"
            of_type = place.inside(f"fields/{number}/type", name.namespace)
            field = self._field(one, path, of_type)
            if field.name in fields:
                raise invalid(path, f"the record has two fields with the name {field.name}")
            fields[field.name] = field
        record = Record(
            name=name,
            doc=text_of(value, "doc"),
            aliases=self._aliases(value, name, place.path),
            properties=self._bounded_properties(value, place.path),
            is_error=value["type"] == "error",
            fields=fields,
        )
        self.definitions.add(record, place.path)
        return record

    def _field(self, value: Json, path: str, of_type: Place) -> Field:
        """Return the field that a JSON object declares.

        ``of_type`` is the position of the field's type.
        """
        if not isinstance(value, dict):
            raise invalid(path, "a field is an object")
        name = text_of(value, "name")
        if name is None:
            raise invalid(path, "a field has a name")
        if self._is_new:
            validate_name(name, f"{path}/name")
        use = self._use(attribute(value, "type", path), of_type)
        field = Field(
            name=name,
            type=use,
            doc=text_of(value, "doc"),
            has_default="default" in value,
            default=default_of(value, use, path),
            order=order_of(value, path),
            aliases=tuple(aliases_of(value, path)),
            properties=properties_of(value, FIELD_ATTRIBUTES),
        )
        self._validate_default(field, path)
        self._fields.append((field, path))
        return field

    def _validate_default(self, field: Field, path: str) -> None:
        if not field.has_default or not self._is_new:
            return
        try:
            is_value = fits(field.type, field.default, self._budget, nesting=self._limits.nesting)
        except InvalidSchemaError as error:
            raise invalid(f"{path}/default", str(error)) from error
        if not is_value:
            reason = f"the default is not a value of the type of the field {field.name}"
            raise invalid(f"{path}/default", reason)

    def _enum(self, value: Attributes, place: Place) -> Use:
        name = self._name(value, place)
        enum = Enum(
            name=name,
            doc=text_of(value, "doc"),
            aliases=self._aliases(value, name, place.path),
            properties=properties_of(value, ENUM_ATTRIBUTES),
            symbols=self._symbols(value, place.path),
            default=text_of(value, "default"),
        )
        if enum.default is not None and enum.default not in enum.symbols:
            reason = f"the default {enum.default!r} is not a symbol of the enum"
            raise invalid(f"{place.path}/default", reason)
        self.definitions.add(enum, place.path)
        return enum

    def _symbols(self, value: Attributes, path: str) -> tuple[str, ...]:
        listed = value.get("symbols")
        if not isinstance(listed, list):
            raise invalid(path, "an enum has a list of symbols")
        symbols: dict[str, None] = {}
        for number, symbol in enumerate(listed):
            if not isinstance(symbol, str):
                raise invalid(f"{path}/symbols/{number}", "a symbol is a text")
            if self._is_new:
                validate_name(symbol, f"{path}/symbols/{number}")
            if symbol in symbols:
                raise invalid(f"{path}/symbols/{number}", f"{symbol!r} is a symbol already")
            symbols[symbol] = None
        return tuple(symbols)

    def _fixed(self, value: Attributes, place: Place) -> Use:
        name = self._name(value, place)
        size = value.get("size")
        is_number = isinstance(size, int) and not isinstance(size, bool)
        if not is_number or not isinstance(size, int) or not 0 <= size <= MAX_FIXED_BYTES:
            raise invalid(place.path, f"a fixed has a size of 0 to {MAX_FIXED_BYTES} bytes")
        fixed = Fixed(
            name=name,
            doc=text_of(value, "doc"),
            aliases=self._aliases(value, name, place.path),
            properties=properties_of(value),
            size=size,
        )
        self.definitions.add(fixed, place.path)
        return fixed

    def _name(self, value: Attributes, place: Place) -> Name:
        text = text_of(value, "name")
        if text is None:
            raise invalid(place.path, f"a type of kind {value['type']} has a name")
        own = text_of(value, "namespace")
        name = Name.of(text, place.namespace if own is None else own)
        if name.full in PRIMITIVES:
            raise invalid(place.path, f"the name {name.full} is that of a type of Avro")
        if self._is_new:
            for part in name.full.split("."):
                validate_name(part, place.path)
        return name

    def _aliases(self, value: Attributes, name: Name, path: str) -> tuple[Name, ...]:
        """Return the full names of the aliases of the type with this name.

        A new schema is refused if the last part of an alias is not a valid name. Java checks no
        other part.
        """
        texts = aliases_of(value, path)
        aliases = tuple(dict.fromkeys(Name.of(text, name.namespace) for text in texts))
        for alias in aliases if self._is_new else ():
            validate_name(alias.simple, f"{path}/aliases")
        return aliases

    def _bounded_properties(self, value: Attributes, path: str) -> Properties:
        """Return the properties of a type. A new schema is refused if a number needs over 64 bits.

        Java copies the properties of records, arrays and maps, and the copy loses larger numbers.
        """
        properties = properties_of(value)
        if self._is_new and not all(map(fits_long, properties.values())):
            raise invalid(path, f"a whole number in its properties does not fit {LONG_BITS} bits")
        return properties


def validate_size(text: str, limits: SchemaLimits) -> None:
    """Check that a text is Unicode and not too long.

    Raises:
        InvalidSchemaError: the text is not Unicode, or is too long.
    """
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        reason = "the text is not Unicode: it has one half of a surrogate pair"
        raise InvalidSchemaError(reason) from None
    if size > limits.text_bytes:
        raise InvalidSchemaError(f"the schema has {size} bytes, of at most {limits.text_bytes}")


def validate_union(uses: Sequence[Use], path: str) -> None:
    """Check that a union holds no union, and each type once. Undefined names are not checked yet.

    Raises:
        InvalidSchemaError: the union breaks this rule.
    """
    names: set[str] = set()
    for number, use in enumerate(uses):
        if isinstance(use, Reference) and use.target is None:
            continue
        avro_type = target(use)
        if isinstance(avro_type, Union):
            raise invalid(f"{path}/{number}", "a union stands directly inside another")
        name = full_name(avro_type)
        if name in names:
            raise invalid(f"{path}/{number}", f"the union has the type {name} twice")
        names.add(name)
