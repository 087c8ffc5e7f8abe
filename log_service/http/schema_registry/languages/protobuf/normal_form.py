"""Computes the normal form of a file, so that schemas with the same meaning have the same text.

As in Confluent's registry: fields are sorted by number, options by name, and imports by path, the
public ones last. Types and extensions have full names. Reserved numbers are written one by one,
parts of one option are merged into one message, and maps replace their entry messages.

Unlike in Confluent's registry: the first value of an enum stays the first, several messages for a
field that is not repeated are merged, numbers keep all digits, and groups in oneofs are kept. A
JSON name is left out if it is the default, and a zero in an option if its field has implicit
presence.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    EnumDefinition,
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
    ServiceDefinition,
)
from log_service.http.schema_registry.languages.protobuf.number_text import (
    as_float32,
    float_text,
    float_value,
    integer_of,
    is_integer_text,
)
from log_service.http.schema_registry.languages.protobuf.option_values import TEXT_BOOLEANS
from log_service.http.schema_registry.languages.protobuf.pool import Found, Pool, visible_files
from log_service.http.schema_registry.languages.protobuf.printer import values_of
from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_INT32,
    Aggregate,
    Entry,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    Import,
    Items,
    Message,
    NamePart,
    Number,
    OneOf,
    Option,
    ProtoFile,
    Quoted,
    Range,
    Reserved,
    ReservedName,
    Rpc,
    Service,
    Value,
    Word,
)
from log_service.http.schema_registry.languages.protobuf.validation.messages import own_json_name


def normal_form(file: FileDefinition, pool: Pool, budget: Budget) -> ProtoFile:
    """Return the tree of a file in its normal form."""
    return Normalizer(file, pool, budget).file()


class Normalizer:
    """Normalizes one file."""

    def __init__(self, file: FileDefinition, pool: Pool, budget: Budget) -> None:
        self._file = file
        self._pool = pool
        self._visible = visible_files(file)
        self._budget = budget

    def __repr__(self) -> str:
        return f"<Normalizer of {self._file.path!r}>"

    def file(self) -> ProtoFile:
        """Return the tree of the file in its normal form."""
        file, node = self._file, self._file.node
        groups = group_names(file.extensions)
        return replace(
            node,
            imports=sorted_imports(node.imports),
            options=self._options(node.options, "FileOptions", node.package),
            body=(
                *self._messages(file.messages, groups),
                *(self._enum(each) for each in file.enums),
                *self._extends(file.extensions),
                *(self._service(each) for each in file.services),
            ),
        )

    def _messages(
        self, messages: Iterable[MessageDefinition], groups: frozenset[str]
    ) -> list[Message]:
        """Return the messages that are neither entries of maps nor bodies of groups."""
        return [
            self._message(each)
            for each in messages
            if not each.is_map_entry and each.full_name not in groups
        ]

    def _message(self, message: MessageDefinition) -> Message:
        self._budget.spend()
        node = message.node
        groups = group_names((*message.fields, *message.extensions))
        return replace(
            node,
            options=self._options(node.options, "MessageOptions", message.scope),
            body=(
                *split_reserved(message.reserved),
                *self._fields(each for each in message.fields if not is_in_oneof(each)),
                *self._oneofs(message),
                *self._ranges(message),
                *self._extends(message.extensions),
                *self._messages(message.messages, groups),
                *(self._enum(each) for each in message.enums),
            ),
        )

    def _fields(self, fields: Iterable[FieldDefinition]) -> list[Field]:
        return [self._field(each) for each in sorted(fields, key=lambda each: each.number)]

    def _field(self, field: FieldDefinition) -> Field:
        self._budget.spend()
        node = field.node
        options = list(node.options)
        if node.default is not None:
            value = self._value(field, node.default)
            options.append(Option(name=(NamePart(text="default"),), value=value))
        if node.json_name is not None and own_json_name(field):
            options.append(Option(name=(NamePart(text="json_name"),), value=node.json_name))
        group = self._pool.message(field.type_name) if node.group else None
        normal = replace(
            node,
            options=self._options(options, "FieldOptions", field.scope),
            default=None,
            json_name=None,
            group=self._message(group) if group else None,
            type=type_text(field),
        )
        entry = self._pool.message(field.type_name) if field.kind == "message" else None
        if entry is None or not entry.is_map_entry or len(entry.fields) != 2:
            return normal
        key, value_field = entry.fields
        return replace(normal, label="", map_key=key.kind, type=type_text(value_field))

    def _oneofs(self, message: MessageDefinition) -> list[OneOf]:
        """Return the oneofs, sorted by their lowest field numbers."""
        members: dict[int, list[FieldDefinition]] = {}
        for field in message.fields:
            if field.oneof is not None and is_in_oneof(field):
                members.setdefault(field.oneof, []).append(field)
        found = [
            OneOf(
                name=node.name,
                fields=tuple(self._fields(members[index])),
                options=self._options(node.options, "OneofOptions", message.full_name),
            )
            for index, node in enumerate(message.oneof_nodes)
            if index in members
        ]
        return sorted(found, key=lambda each: each.fields[0].number)

    def _ranges(self, message: MessageDefinition) -> list[Extensions]:
        found = [
            replace(
                statement,
                ranges=(single(each),),
                options=self._options(statement.options, "ExtensionRangeOptions", message.scope),
            )
            for statement in message.extension_ranges
            for each in statement.ranges
        ]
        return sorted(found, key=lambda each: each.ranges[0].start)

    def _extends(self, extensions: Sequence[FieldDefinition]) -> list[Extend]:
        """Return ``extend`` statements, one for each extended message."""
        found: dict[str, list[FieldDefinition]] = {}
        for each in extensions:
            found.setdefault(each.extendee, []).append(each)
        return [
            Extend(extendee=f".{name}", fields=tuple(self._fields(fields)))
            for name, fields in found.items()
        ]

    def _enum(self, enum: EnumDefinition) -> Enum:
        self._budget.spend(1 + len(enum.node.values))
        node = enum.node
        values = [
            replace(each, options=self._options(each.options, "EnumValueOptions", enum.scope))
            for each in sorted_values(node.values)
        ]
        return replace(
            node,
            values=tuple(values),
            reserved=tuple(split_reserved(node.reserved)),
            options=self._options(node.options, "EnumOptions", enum.scope),
        )

    def _service(self, service: ServiceDefinition) -> Service:
        rpcs: list[Rpc] = []
        for method in service.methods:
            self._budget.spend()
            rpc = method.node
            rpcs.append(
                replace(
                    rpc,
                    request=f".{method.request}" if method.request else rpc.request,
                    response=f".{method.response}" if method.response else rpc.response,
                    options=self._options(rpc.options, "MethodOptions", service.full_name),
                )
            )
        options = self._options(service.node.options, "ServiceOptions", service.scope)
        return replace(service.node, rpcs=tuple(rpcs), options=options)

    def _options(self, options: Iterable[Option], type_name: str, scope: str) -> tuple[Option, ...]:
        """Return options sorted by name. Options that set parts of one extension are merged.

        Options of a repeated extension are not merged.
        """
        root = self._pool.message("google.protobuf." + type_name)
        plain: list[Option] = []
        values: dict[str, tuple[FieldDefinition, list[Value]]] = {}
        for option in options:
            self._budget.spend()
            definition = self._definition(root, option.name[0], scope)
            if definition is not None and option.name[0].is_extension:
                value = self._nested(option, scope)
                values.setdefault(definition.full_name, (definition, []))[1].append(value)
            elif option.name[0] == FEATURES:
                plain += self._features(option, scope)
            elif len(option.name) == 1 and definition is not None:
                plain.append(replace(option, value=self._value(definition, option.value)))
            else:
                plain.append(option)
        for full_name, (definition, found) in values.items():
            name = (NamePart(text=full_name, is_extension=True),)
            for each in self._merged(definition, found):
                plain.append(Option(name=name, value=each))
        return tuple(sorted(plain, key=option_key))

    def _definition(
        self, message: MessageDefinition | None, part: NamePart, scope: str
    ) -> FieldDefinition | None:
        if part.is_extension:
            found = self._pool.resolve(part.text, scope, self._visible, self._budget)
            return self._pool.extensions.get(found.full_name) if isinstance(found, Found) else None
        return message.text_names().get(part.text) if message else None

    def _nested(self, option: Option, scope: str) -> Value:
        """Return the value of an option, wrapped in a message for each further part of its name."""
        value = option.value
        for part in reversed(option.name[1:]):
            key = part.text
            if part.is_extension:
                definition = self._definition(None, part, scope)
                key = f"[{definition.full_name if definition else part.text}]"
            value = Aggregate(entries=(Entry(key=key, value=value),))
        return value

    def _features(self, option: Option, scope: str) -> list[Option]:
        """Return one option for each feature that an option sets."""
        whole = self._nested(option, scope)
        entries = whole.entries if isinstance(whole, Aggregate) else ()
        found: list[Option] = []
        for entry in entries:
            part = NamePart(text=entry.key.strip("[]"), is_extension=entry.key.startswith("["))
            if isinstance(entry.value, Aggregate):
                found += [
                    Option(name=(FEATURES, part, NamePart(text=each.key)), value=each.value)
                    for each in entry.value.entries
                ]
            else:
                found.append(Option(name=(FEATURES, part), value=entry.value))
        return found

    def _merged(self, definition: FieldDefinition | None, values: list[Value]) -> list[Value]:
        """Return the normal values of a field: only one if the field is known and not repeated.

        Several messages are merged into one. Of several other values the last one counts.
        """
        if definition is not None and not definition.is_repeated and len(values) > 1:
            messages = [each for each in values if isinstance(each, Aggregate)]
            entries = tuple(entry for each in messages for entry in each.entries)
            values = [Aggregate(entries=entries)] if len(messages) == len(values) else values[-1:]
        return [self._value(definition, each) for each in values]

    def _value(self, definition: FieldDefinition | None, value: Value) -> Value:
        """Return the normal form of a value.

        Without a definition of the field only numbers and keys are normalized.
        """
        self._budget.spend()
        kind = definition.kind if definition else ""
        normal: Value = value
        match value:
            case Aggregate():
                message = self._pool.message(definition.type_name) if definition else None
                normal = self._aggregate(message, value)
            case Items():
                values = tuple(self._value(definition, each) for each in value.values)
                normal = Items(values=values)
            case Word() if kind == "bool" and value.text in TEXT_BOOLEANS:
                normal = Word(text="true" if TEXT_BOOLEANS[value.text] else "false")
            case Number() if kind == "bool":
                normal = Word(text="false" if value.text == "0" else "true")
            case Number() if definition is not None and kind == "enum":
                normal = self._enum_value(definition, value)
            case Number():
                normal = normal_number(value, kind)
        return normal

    def _enum_value(self, definition: FieldDefinition, value: Number) -> Value:
        enum = self._pool.enum(definition.type_name)
        self._budget.spend(1 + len(enum.node.values) // 8 if enum else 1)
        if enum is not None and is_integer_text(value.text):
            number = integer_of(value.text)
            for each in enum.node.values:
                if each.number == number:
                    return Word(text=each.name)
        return normal_number(value, "enum")

    def _aggregate(self, message: MessageDefinition | None, aggregate: Aggregate) -> Aggregate:
        """Return a message with sorted keys, without zeros of fields with implicit presence.

        Zeros of map entries are kept. A list of one value is replaced by the value.
        """
        found: dict[str, tuple[FieldDefinition | None, list[Value]]] = {}
        names = message.text_names() if message else {}
        for entry in aggregate.entries:
            definition = names.get(entry.key)
            key = entry.key
            if key.startswith("["):
                scope = message.full_name if message else ""
                part = NamePart(text=key[1:-1], is_extension=True)
                definition = self._definition(message, part, scope) if "/" not in key else None
                key = f"[{definition.full_name}]" if definition else key
            found.setdefault(key, (definition, []))[1].extend(values_of(entry.value))
        entries = []
        for key in sorted(found):
            definition, values = found[key]
            normal = self._merged(definition, values)
            is_entry = message is not None and message.is_map_entry
            if definition is not None and definition.is_implicit and not is_entry:
                # A zero is on the wire of no descriptor, so a text may not differ by it.
                normal = [each for each in normal if not is_zero_value(each)]
            if normal:
                value = normal[0] if len(normal) == 1 else Items(values=tuple(normal))
                entries.append(Entry(key=key, value=value))
        return Aggregate(entries=tuple(entries))


FEATURES = NamePart(text="features")


def option_key(option: Option) -> str:
    """Return the name by which options are sorted."""
    return ".".join(part.text for part in option.name)


def is_in_oneof(field: FieldDefinition) -> bool:
    """Return whether the field is in a oneof of the schema's text."""
    return field.oneof is not None and not field.is_optional_of_proto3


def group_names(fields: Iterable[FieldDefinition]) -> frozenset[str]:
    """Return the full names of the messages that are written as groups."""
    return frozenset(each.type_name for each in fields if each.node.group)


def type_text(field: FieldDefinition) -> str:
    """Return the type of a field with its full name."""
    if field.node.group or not field.type_name:
        return field.node.type
    return f".{field.type_name}" if field.kind else field.type_name


def sorted_imports(imports: Iterable[Import]) -> tuple[Import, ...]:
    """Return the imports sorted by path, the public ones last, without repetitions."""
    found = {(each.kind == "public", each.path): each for each in imports}
    return tuple(found[key] for key in sorted(found))


def sorted_values(values: Sequence[EnumValue]) -> list[EnumValue]:
    """Return values sorted by number and name, except that the first value's number comes first.

    The first value is the default of an enum, and must be zero if the enum is open.
    """
    first = values[0].number if values else 0
    return sorted(values, key=lambda each: (each.number != first, each.number, each.name))


def single(each: Range) -> Range:
    """Return a range with None as its end if it is a single number."""
    return Range(start=each.start, end=None if each.end == each.start else each.end)


def split_reserved(statements: Iterable[Reserved]) -> list[Reserved]:
    """Return a statement for each number, range and name: numbers first, then names."""
    values = [value for each in statements for value in each.values]
    return [
        Reserved(values=(single(each) if isinstance(each, Range) else each,))
        for each in sorted(values, key=reserved_key)
    ]


def reserved_key(value: Range | ReservedName) -> tuple[int, str]:
    """Return the key by which reserved values are sorted."""
    if isinstance(value, ReservedName):
        return MAX_INT32, value.text
    shown = str(value.start) if value.end is None else f"{value.start}..{value.end}"
    return value.start, shown


def is_zero_value(value: Value) -> bool:
    """Return whether a value is zero, empty or false, as that of a field that is not set."""
    match value:
        case Quoted():
            return not value.data
        case Number():
            return value.text == "0"
        case Word():
            return value.text == "false"
    return False


def normal_number(value: Number, kind: str) -> Value:
    """Return a number in decimal. A whole number has no decimal point."""
    if is_integer_text(value.text) and kind not in {"float", "double"}:
        return Number(text=str(integer_of(value.text)))
    number = float_value(value.text)
    is_float = kind == "float"
    number = as_float32(number) if is_float else number
    text = float_text(number, is_float=is_float)
    return Word(text=text) if math.isinf(number) else Number(text=text)
