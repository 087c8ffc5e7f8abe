"""Decodes the options of a descriptor, which are bytes, into options of the syntax tree."""

import math
from collections.abc import Iterator

from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    FieldDefinition,
    MessageDefinition,
)
from log_service.http.schema_registry.languages.protobuf.number_text import float_text
from log_service.http.schema_registry.languages.protobuf.pool import Pool
from log_service.http.schema_registry.languages.protobuf.tree import (
    Aggregate,
    Entry,
    NamePart,
    Number,
    Option,
    Quoted,
    Scalar,
    Value,
    Word,
)
from log_service.http.schema_registry.languages.protobuf.values import MAX_NESTING
from log_service.http.schema_registry.languages.protobuf.wire_format import (
    BYTES,
    GROUP,
    WIRE_TYPES,
    RawField,
    WireFormatError,
    decoded_number,
    packed_payloads,
    raw_fields,
)

OPTIONS = "google.protobuf."
CONFLUENT_ORDER = {
    "google.protobuf.FileOptions": (1, 8, 10, 20, 27, 9, 11, 16, 18, 17, 42, 23, 31, 36, 37),
    "google.protobuf.FieldOptions": (1, 2, 6, 3),
}
"""The numbers of options in the order in which Confluent prints them. Others follow by number."""


class OptionDecoder:
    """Decodes options by the definitions in a pool. An option without a definition is dropped."""

    def __init__(self, pool: Pool, budget: Budget) -> None:
        self._pool = pool
        self._budget = budget
        self._fields: dict[str, dict[int, FieldDefinition]] = {}

    def __repr__(self) -> str:
        return f"<OptionDecoder of {self._pool!r}>"

    def options(self, type_name: str, data: bytes) -> tuple[Option, ...]:
        """Decode the options in a message such as ``FileOptions``.

        Raises:
            WireFormatError: the bytes are not a message of this type.
        """
        message = self._pool.message(OPTIONS + type_name)
        if message is None or not data:
            return ()
        order = {n: at for at, n in enumerate(CONFLUENT_ORDER.get(message.full_name, ()))}
        found = sorted(
            self._values(message, data), key=lambda each: (order.get(each[0].number, 99),)
        )
        return tuple(option for field, value in found for option in self._options(field, value))

    def _options(self, field: FieldDefinition, value: Value) -> Iterator[Option]:
        is_extension = bool(field.extendee)
        part = NamePart(
            text=field.full_name if is_extension else field.name, is_extension=is_extension
        )
        if field.name == "features" and isinstance(value, Aggregate) and not is_extension:
            for entry in value.entries:
                yield from feature_options(part, entry)
        else:
            yield Option(name=(part,), value=value)

    def _values(
        self, message: MessageDefinition, data: bytes, depth: int = 0
    ) -> list[tuple[FieldDefinition, Value]]:
        """Decode the fields of a message with their values, in the order of field numbers."""
        if depth > MAX_NESTING:
            raise WireFormatError("the values of options are nested too deep")
        fields = self._fields_by_number(message)
        payloads: dict[int, list[bytes]] = {}
        for raw in raw_fields(data):
            self._budget.spend()
            field = fields.get(raw.number) or self._extension(message, raw.number)
            if field is not None and (found := self._payloads(field, raw)):
                payloads.setdefault(raw.number, []).extend(found)
        found_fields = {
            number: fields.get(number) or self._extension(message, number) for number in payloads
        }
        return [
            (field, value)
            for number in sorted(payloads)
            if (field := found_fields[number]) is not None
            for value in self._field_values(field, payloads[number], depth)
        ]

    def _fields_by_number(self, message: MessageDefinition) -> dict[int, FieldDefinition]:
        if message.full_name not in self._fields:
            self._budget.spend(1 + len(message.fields))
            self._fields[message.full_name] = {each.number: each for each in message.fields}
        return self._fields[message.full_name]

    def _extension(self, message: MessageDefinition, number: int) -> FieldDefinition | None:
        return self._pool.numbered_extensions.get((message.full_name, number))

    def _payloads(self, field: FieldDefinition, raw: RawField) -> list[bytes]:
        """Return the encoded values of a field, or none if the wire type does not fit the field."""
        wire_type = GROUP if field.is_delimited else WIRE_TYPES.get(field.kind, 0)
        if raw.wire_type == wire_type:
            return [raw.payload]
        if raw.wire_type == BYTES and field.is_repeated and wire_type != BYTES:
            return packed_payloads(field.kind, raw.payload)
        return []

    def _field_values(
        self, field: FieldDefinition, payloads: list[bytes], depth: int
    ) -> Iterator[Value]:
        is_message = field.kind in {"message", "group"}
        if not field.is_repeated:
            # Parts of one message are merged. Of scalars the last one counts.
            payloads = [b"".join(payloads)] if is_message else payloads[-1:]
        for payload in payloads:
            self._budget.spend()
            if is_message:
                yield self._aggregate(field, payload, depth)
            else:
                yield self._scalar(field, payload)

    def _aggregate(self, field: FieldDefinition, payload: bytes, depth: int) -> Aggregate:
        message = self._pool.message(field.type_name)
        found = self._values(message, payload, depth + 1) if message else []
        return Aggregate(
            entries=tuple(Entry(key=aggregate_key(each), value=value) for each, value in found)
        )

    def _scalar(self, field: FieldDefinition, payload: bytes) -> Scalar:
        if field.kind in {"string", "bytes"}:
            return Quoted(data=payload)
        number = decoded_number(field.kind, payload)
        if field.kind == "bool":
            return Word(text="true" if number else "false")
        if field.kind == "enum":
            return self._enum_value(field, int(number))
        return number_value(number, is_float=field.kind == "float")

    def _enum_value(self, field: FieldDefinition, number: int) -> Scalar:
        enum = self._pool.enum(field.type_name)
        values = enum.node.values if enum else ()
        self._budget.spend(1 + len(values) // 8)
        names = [each.name for each in values if each.number == number]
        return Word(text=names[0]) if names else Number(text=str(number))


def feature_options(part: NamePart, entry: Entry) -> Iterator[Option]:
    """Yield the options that one entry of ``features`` stands for.

    It is ``features.name = value``. If the value is a message, as that of an extension, each of its
    entries becomes an option ``features.(name).key = value``.
    """
    is_extension = entry.key.startswith("[")
    name = NamePart(text=entry.key.strip("[]"), is_extension=is_extension)
    if isinstance(entry.value, Aggregate):
        for inner in entry.value.entries:
            yield Option(name=(part, name, NamePart(text=inner.key)), value=inner.value)
    else:
        yield Option(name=(part, name), value=entry.value)


def aggregate_key(field: FieldDefinition) -> str:
    """Return the key of a field in an aggregate.

    It is the name, or a full name in brackets for an extension. A group has its message's name.
    """
    if field.extendee:
        return f"[{field.full_name}]"
    return field.node.name


def number_value(number: float, *, is_float: bool = False) -> Scalar:
    """Return a number as a value of the syntax tree."""
    if isinstance(number, int):
        return Number(text=str(number))
    if math.isinf(number) or math.isnan(number):
        return Word(text=float_text(number, is_float=is_float))
    return Number(text=float_text(number, is_float=is_float))
