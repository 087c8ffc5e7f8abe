"""Encodes the options of a Protobuf text into the bytes of a descriptor, as protoc does.

A name is resolved to a field or an extension of a message such as ``FileOptions``. A value is
checked against the type of the field.
"""

from collections.abc import Iterable, Mapping

from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import (
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
    NameKind,
)
from log_service.http.schema_registry.languages.protobuf.option_uses import (
    FEATURE_SET,
    TARGETS,
    OptionError,
    OptionUses,
)
from log_service.http.schema_registry.languages.protobuf.option_values import (
    INTEGER_RANGES,
    MessageValue,
    boolean,
    float_of,
    integer_between,
    is_required,
    whole_number,
)
from log_service.http.schema_registry.languages.protobuf.pool import Found, Pool, visible_files
from log_service.http.schema_registry.languages.protobuf.tree import (
    Aggregate,
    Entry,
    Items,
    NamePart,
    Number,
    Option,
    Quoted,
    Value,
    Word,
)
from log_service.http.schema_registry.languages.protobuf.wire_format import encoded_number

FORBIDDEN = {"uninterpreted_option"}
ANY = "google.protobuf.Any"
ANY_HOSTS = {"type.googleapis.com", "type.googleprod.com"}


class OptionEncoder:
    """Interprets and encodes the options of one file."""

    def __init__(self, file: FileDefinition, pool: Pool, budget: Budget) -> None:
        self._pool = pool
        self._visible = visible_files(file)
        self._source = file.source
        self._budget = budget
        self._uses = OptionUses(file.node)
        self._names: dict[str, dict[str, FieldDefinition]] = {}

    def __repr__(self) -> str:
        return f"<OptionEncoder of {self._source.path!r}>"

    def checked(self, type_name: str, options: Iterable[Option], scope: str) -> bytes:
        """Encode options, and require that all can be interpreted.

        Raises:
            InvalidSchemaError: an option is unknown, has a wrong value or may not be used here.
        """
        data, left = self.interpreted(type_name, options, scope)
        if left:
            _, error = left[0]
            raise self._source.error(error.at, error.sentence)
        return data

    def interpreted(
        self, type_name: str, options: Iterable[Option], scope: str
    ) -> tuple[bytes, list[tuple[Option, OptionError]]]:
        """Encode options, and also return those that cannot be interpreted, with their errors."""
        root = self._pool.message("google.protobuf." + type_name)
        assert root is not None
        self._uses.target = TARGETS[type_name]
        whole = MessageValue()
        left = []
        for option in options:
            self._budget.spend()
            try:
                self._add(root, whole, option, scope)
            except OptionError as error:
                left.append((option, error))
        return whole.encoded(), left

    def _add(
        self, root: MessageDefinition, whole: MessageValue, option: Option, scope: str
    ) -> None:
        """Set one option in ``whole``. Messages along its dotted name are created if missing."""
        message, holder = root, whole
        for part in option.name[:-1]:
            self._budget.spend()
            definition = self._part(message, part, scope, option)
            message = self._message(definition, option)
            values = holder.values.get(definition.number)
            inner = values[0] if values else MessageValue()
            if not isinstance(inner, MessageValue):
                raise OptionError(option.at, f"{definition.name} is set twice")
            if not values:
                holder.add(definition, inner)
            holder = inner
        definition = self._part(message, option.name[-1], scope, option)
        if definition.number in holder.values and not definition.is_repeated:
            raise OptionError(option.at, f"the option {definition.name} is set already")
        if isinstance(option.value, Items):
            raise OptionError(option.value.at, "an option takes one value: repeat the option")
        holder.add(definition, self._value(definition, option.value, is_text=False))

    def _part(
        self, message: MessageDefinition, part: NamePart, scope: str, option: Option
    ) -> FieldDefinition:
        if part.is_extension:
            return self._extension(message, part.text, scope, option.at)
        definition = self._fields_by_name(message).get(part.text)
        if definition is None or definition.name != part.text or part.text in FORBIDDEN:
            raise OptionError(option.at, f"{short_name(message)} has no option {part.text}")
        return self._uses.checked(definition, option.at)

    def _fields_by_name(self, message: MessageDefinition) -> dict[str, FieldDefinition]:
        """Return the fields of a message by their names in the text format."""
        if message.full_name not in self._names:
            self._budget.spend(1 + len(message.fields))
            self._names[message.full_name] = message.text_names()
        return self._names[message.full_name]

    def _extension(
        self, message: MessageDefinition, name: str, scope: str, at: int
    ) -> FieldDefinition:
        found = self._pool.resolve(name, scope, self._visible, self._budget)
        if not isinstance(found, Found) or found.kind is not NameKind.EXTENSION:
            raise OptionError(at, f"the option ({name}) is not defined in this file or an import")
        definition = self._pool.extensions.get(found.full_name)
        if definition is None or definition.extendee != message.full_name:
            raise OptionError(at, f"({name}) is not an extension of {message.full_name}")
        return self._uses.checked(definition, at)

    def _message(self, definition: FieldDefinition, option: Option) -> MessageDefinition:
        message = self._pool.message(definition.type_name)
        if message is None or definition.kind not in {"message", "group"}:
            raise OptionError(option.at, f"the option {definition.name} has no parts")
        if definition.is_repeated:
            raise OptionError(
                option.at, f"the option {definition.name} is repeated: set it as a whole"
            )
        return message

    def _value(
        self, definition: FieldDefinition, value: Value, *, is_text: bool
    ) -> bytes | MessageValue:
        """Encode a value of a field. ``is_text`` applies the looser rules of the text format."""
        self._budget.spend()
        if not definition.kind:
            raise OptionError(value.at, f"the type of {definition.name} is unknown")
        match definition.kind:
            case "message" | "group":
                if not isinstance(value, Aggregate):
                    raise OptionError(value.at, f"{definition.name} takes a message in braces")
                message = self._pool.message(definition.type_name)
                if message is None:
                    raise OptionError(value.at, f"the type of {definition.name} is unknown")
                return self._aggregate(message, value)
            case "string" | "bytes":
                if not isinstance(value, Quoted):
                    raise OptionError(value.at, f"{definition.name} takes a string")
                return value.data
            case "bool":
                return encoded_number("bool", boolean(definition, value, is_text=is_text))
            case "enum":
                return encoded_number("enum", self._enum(definition, value, is_text=is_text))
            case "float" | "double":
                return encoded_number(definition.kind, float_of(definition, value, is_text=is_text))
            case _:
                return encoded_number(definition.kind, whole_number(definition, value))

    def _enum(self, definition: FieldDefinition, value: Value, *, is_text: bool) -> int:
        enum = self._pool.enum(definition.type_name)
        if enum is None:
            raise OptionError(value.at, f"the type of {definition.name} is unknown")
        self._budget.spend(1 + len(enum.node.values) // 8)
        if is_text and isinstance(value, Number):
            number = integer_between(definition, value, INTEGER_RANGES["int32"])
            is_known = any(each.number == number for each in enum.node.values)
            if is_known or enum.features.enum_type == "OPEN":
                return number
        name = value.text if isinstance(value, Word) else ""
        for each in enum.node.values:
            # The first value of a feature means that it is not set.
            if each.name == name and (each.number or not enum.full_name.startswith(FEATURE_SET)):
                return each.number
        shown = name or "that"
        raise OptionError(value.at, f"{enum.full_name} has no value {shown}")

    def _aggregate(self, message: MessageDefinition, aggregate: Aggregate) -> MessageValue:
        """Convert a message in braces by the rules of the text format."""
        found = MessageValue()
        oneofs: dict[int, str] = {}
        names = self._fields_by_name(message)
        for entry in aggregate.entries:
            self._budget.spend()
            if "/" in entry.key:
                self._any(message, entry, found)
                continue
            definition = self._entry_field(message, names, entry)
            self._check_oneof(definition, oneofs, entry)
            self._add_entry(found, definition, entry)
        self._budget.spend(1 + len(message.fields) // 8)
        for definition in message.fields:
            if is_required(definition) and definition.number not in found.values:
                raise OptionError(aggregate.at, f"the field {definition.full_name} is required")
        if message.is_map_entry:
            self._fill_entry(message, found)
        return found

    def _entry_field(
        self, message: MessageDefinition, names: Mapping[str, FieldDefinition], entry: Entry
    ) -> FieldDefinition:
        if entry.key.startswith("["):
            return self._extension(message, entry.key[1:-1], message.full_name, entry.at)
        if entry.key not in names:
            raise OptionError(entry.at, f"{message.full_name} has no field {entry.key}")
        return self._uses.checked(names[entry.key], entry.at)

    def _check_oneof(
        self, definition: FieldDefinition, oneofs: dict[int, str], entry: Entry
    ) -> None:
        if definition.oneof is None:
            return
        other = oneofs.setdefault(definition.oneof, definition.name)
        if other != definition.name:
            raise OptionError(
                entry.at, f"{definition.name} and {other} are of one oneof: give one of them"
            )

    def _add_entry(self, found: MessageValue, definition: FieldDefinition, entry: Entry) -> None:
        values: tuple[Value, ...] = (entry.value,)
        if isinstance(entry.value, Items):
            values = entry.value.values
        is_list = isinstance(entry.value, Items)
        if not entry.has_colon and definition.kind not in {"message", "group"}:
            raise OptionError(entry.at, f"a colon is missing after {entry.key}")
        if not definition.is_repeated and (is_list or definition.number in found.values):
            raise OptionError(entry.at, f"the field {definition.name} takes one value")
        for value in values:
            found.add(definition, self._value(definition, value, is_text=True))

    def _fill_entry(self, message: MessageDefinition, found: MessageValue) -> None:
        """Add a key or a value that a map entry lacks: zero, or empty if it is no number."""
        for definition in message.fields:
            if definition.number not in found.values:
                found.add(definition, self._zero(definition))

    def _zero(self, definition: FieldDefinition) -> bytes | MessageValue:
        if definition.kind == "message":
            return MessageValue()
        if definition.kind in {"string", "bytes"}:
            return b""
        return encoded_number(definition.kind, 0)

    def _any(self, message: MessageDefinition, entry: Entry, found: MessageValue) -> None:
        """Set the fields of an ``Any`` from its short form ``[host/name] { ... }``."""
        host, _, name = entry.key[1:-1].rpartition("/")
        inner = self._pool.message(name)
        is_there = inner is not None and self._pool.find(name, self._visible) is not None
        is_usable = is_there and host in ANY_HOSTS and not found.values
        if message.full_name != ANY or not is_usable or inner is None:
            raise OptionError(entry.at, f"{entry.key} cannot stand in {message.full_name}")
        if not isinstance(entry.value, Aggregate):
            raise OptionError(entry.at, f"{entry.key} takes a message in braces")
        type_url, value = message.fields
        found.add(type_url, f"{host}/{name}".encode())
        found.add(value, self._aggregate(inner, entry.value).encoded())


def short_name(message: MessageDefinition) -> str:
    """Return the name of a message without its package."""
    return message.full_name.rpartition(".")[2]
