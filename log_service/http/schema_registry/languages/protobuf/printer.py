"""Prints a syntax tree as a ``.proto`` text, as Confluent's registry does.

Lines are indented by two spaces, and a blank line separates kinds of statements. In a message
come its reserved numbers, options, fields, oneofs, groups, extension ranges, extensions, messages
and enums, in this order. Options are printed as they are written, but strings are escaped anew.

Confluent prints the elements of Wire's parser, which loses some parts. This file prints them:
options and nested types of groups, options of extension ranges, groups in extensions, quotes of
defaults of bytes, bytes that are not UTF-8, weak imports, and editions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget, SchemaLimits
from log_service.http.schema_registry.languages.protobuf.tree import (
    MAX_INT32,
    MAX_NUMBER,
    Aggregate,
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    Import,
    Items,
    Message,
    NamePart,
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
)

ESCAPES = {
    "\0": "\\000",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
}
ESCAPED = str.maketrans(
    ESCAPES | {chr(0xDC00 + byte): f"\\{byte:03o}" for byte in range(0x80, 0x100)}
)
"""Escapes by character. Bytes that are not UTF-8 are surrogates, as Python decodes them."""


Part = (
    Field
    | Option
    | EnumValue
    | Message
    | Enum
    | OneOf
    | Reserved
    | Extensions
    | Extend
    | Service
    | Rpc
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintStyle:
    """Tells which statements are printed.

    ``has_extensions`` keeps extensions, their ranges and custom options. Confluent's own options
    are kept without it, too. ``has_proto2_line`` keeps the line ``syntax = "proto2";``.
    """

    has_extensions: bool = True
    has_proto2_line: bool = True


CANONICAL = PrintStyle()
WITHOUT_EXTENSIONS = PrintStyle(has_extensions=False)
NORMAL = PrintStyle(has_proto2_line=False)


def printed(file: ProtoFile, limits: SchemaLimits, style: PrintStyle = CANONICAL) -> str:
    """Return the text of a file.

    Raises:
        InvalidSchemaError: the text is over the bound.
    """
    printer = Printer(limits, style)
    printer.file(file)
    return "".join(printer.pieces)


def quoted(data: bytes) -> str:
    """Return a string in quotes."""
    return f'"{data.decode(errors="surrogateescape").translate(ESCAPED)}"'


def dotted(name: Iterable[NamePart]) -> str:
    """Return the text of an option's name."""
    return ".".join(f"({part.text})" if part.is_extension else part.text for part in name)


class Printer:
    """Collects the lines of a text, and raises when they exceed the bound on a text."""

    def __init__(self, limits: SchemaLimits, style: PrintStyle) -> None:
        self.pieces: list[str] = []
        self._style = style
        self._left = self._limit = limits.text_bytes
        self._budget = Budget(limits)
        self._indent = ""

    def __repr__(self) -> str:
        return f"<Printer {len(self.pieces)} pieces>"

    def add(self, *texts: str) -> None:
        """Add text to the current line."""
        for text in texts:
            self._left -= len(text) if text.isascii() else len(text.encode())
            self.pieces.append(text)
        if self._left < 0:
            raise InvalidSchemaError(f"the printed schema is longer than {self._limit} bytes")

    def begin(self, *texts: str) -> None:
        """Begin a line."""
        self._budget.spend()
        self.add(self._indent, *texts)

    def line(self, *texts: str) -> None:
        """Add a whole line."""
        self.begin(*texts, "\n")

    def deeper(self) -> None:
        """Indent the following lines."""
        self._indent += "  "

    def higher(self) -> None:
        """Undo the last ``deeper``."""
        self._indent = self._indent.removesuffix("  ")

    def file(self, file: ProtoFile) -> None:
        """Print a file."""
        if file.edition:
            self.line(f'edition = "{file.edition}";')
        elif file.syntax and (self._style.has_proto2_line or file.syntax != "proto2"):
            self.line(f'syntax = "{file.syntax}";')
        if file.package:
            self.line("package ", file.package, ";")
        self.imports(file.imports)
        self.section(self.kept(file.options))
        self.section(types_of(file.body))
        if self._style.has_extensions:
            self.section([each for each in file.body if isinstance(each, Extend)])
        self.section([each for each in file.body if isinstance(each, Service)])

    def imports(self, imports: tuple[Import, ...]) -> None:
        """Print imports, the public ones last."""
        if imports:
            self.add("\n")
        for each in sorted(imports, key=lambda each: each.kind == "public"):
            kind = f"{each.kind} " if each.kind else ""
            self.line(f"import {kind}{quoted(each.path.encode())};")

    def kept(self, options: Iterable[Option]) -> list[Option]:
        """Return the options that the style keeps."""
        return [
            option
            for option in options
            if self._style.has_extensions
            or not option.name[0].is_extension
            or option.name[0].text.startswith("confluent.")
        ]

    def section(self, parts: Sequence[Part]) -> None:
        """Print top-level statements after an empty line."""
        if parts:
            self.add("\n")
        for part in parts:
            self.part(part)

    def block(self, *sections: Sequence[Part]) -> None:
        """Print sections in braces. The caller has printed the line with the opening brace."""
        is_first = True
        self.deeper()
        for section in sections:
            if section and not is_first:
                # Confluent indents a whole type at once, also its empty lines.
                self.add(self._indent.removesuffix("  "), "\n")
            elif section:
                self.add("\n")
                is_first = False
            for part in section:
                self.part(part)
        self.higher()
        if not is_first:
            self.begin()
        self.add("}\n")

    def part(self, part: Part) -> None:
        """Print one statement."""
        match part:
            case Field():
                self.field(part)
            case Option():
                self.begin("option ")
                self.option(part)
                self.add(";\n")
            case EnumValue():
                self.begin(part.name, f" = {part.number}")
                self.list_of_options(self.kept(part.options))
                self.add(";\n")
            case Message():
                self.message(part)
            case Enum():
                self.enum(part)
            case OneOf():
                self.oneof(part)
            case Reserved():
                self.reserved(part, MAX_NUMBER)
            case Extensions():
                self.ranges("extensions ", part.ranges, MAX_NUMBER)
                self.list_of_options(self.kept(part.options))
                self.add(";\n")
            case Extend():
                self.begin("extend ", part.extendee, " {")
                self.block(*fields_and_groups(part.fields))
            case Service():
                self.begin("service ", part.name, " {")
                self.block(self.kept(part.options), part.rpcs)
            case Rpc():
                self.rpc(part)

    def message(self, message: Message) -> None:
        """Print a message."""
        self.begin(spaced(message.visibility), "message ", message.name, " {")
        self.message_body(message)

    def message_body(self, message: Message) -> None:
        """Print the content of the braces of a message or group."""
        body = message.body
        fields, groups = fields_and_groups(each for each in body if isinstance(each, Field))
        ranges = [each for each in body if isinstance(each, Extensions)]
        extends = [each for each in body if isinstance(each, Extend)]
        self.block(
            [each for each in body if isinstance(each, Reserved)],
            self.kept(message.options),
            fields,
            [each for each in body if isinstance(each, OneOf)],
            groups,
            ranges if self._style.has_extensions else (),
            extends if self._style.has_extensions else (),
            types_of(body),
        )

    def oneof(self, oneof: OneOf) -> None:
        """Print a oneof."""
        self.begin("oneof ", oneof.name, " {")
        self.block(self.kept(oneof.options), *fields_and_groups(oneof.fields))

    def enum(self, enum: Enum) -> None:
        """Print an enum, which has no empty lines."""
        self.begin(spaced(enum.visibility), "enum ", enum.name, " {")
        self.deeper()
        if enum.reserved or enum.options or enum.values:
            self.add("\n")
        for reserved in enum.reserved:
            self.reserved(reserved, MAX_INT32)
        for option in self.kept(enum.options):
            self.part(option)
        for value in enum.values:
            self.part(value)
        self.higher()
        if enum.reserved or enum.options or enum.values:
            self.begin()
        self.add("}\n")

    def rpc(self, rpc: Rpc) -> None:
        """Print a method."""
        request = ("stream " if rpc.is_request_stream else "") + rpc.request
        response = ("stream " if rpc.is_response_stream else "") + rpc.response
        self.begin("rpc ", rpc.name, f" ({request}) returns ({response})")
        if options := self.kept(rpc.options):
            self.add(" {\n")
            self.deeper()
            for option in options:
                self.part(option)
            self.higher()
            self.begin("}")
        self.add(";\n")

    def field(self, field: Field) -> None:
        """Print a field, a map or a group."""
        type_ = f"map<{field.map_key}, {field.type}>" if field.map_key else field.type
        kind = "group" if field.group else type_
        self.begin(spaced(field.label), kind, " ", field.name, f" = {field.number}")
        self.list_of_options(self.kept(all_options(field)))
        if field.group:
            self.add(" {")
            self.message_body(field.group)
        else:
            self.add(";\n")

    def reserved(self, reserved: Reserved, most: int) -> None:
        """Print a ``reserved`` statement."""
        self.ranges("reserved ", reserved.values, most)
        self.add(";\n")

    def ranges(self, word: str, values: Iterable[Range | ReservedName], most: int) -> None:
        """Print ranges and names, with commas between them."""
        self.begin(word)
        for number, value in enumerate(values):
            self._budget.spend()
            self.add(", " if number else "", range_text(value, most))

    def list_of_options(self, options: Sequence[Option]) -> None:
        """Print options in brackets, if there are any. Several options get one line each."""
        if not options:
            return
        self.add(" ")
        if len(options) == 1:
            self.add("[")
            self.option(options[0])
            self.add("]")
            return
        self.add("[\n")
        self.deeper()
        for number, option in enumerate(options, 1):
            self.begin()
            self.option(option)
            self.add(",\n" if number < len(options) else "\n")
        self.higher()
        self.begin("]")

    def option(self, option: Option) -> None:
        """Print ``name = value``."""
        self.add(dotted(option.name), " = ")
        if isinstance(option.value, Items) and len(option.value.values) == 1:
            self.add("[")
            self.value(option.value.values[0])
            self.add("]")
        else:
            self.value(option.value)

    def value(self, value: Value) -> None:
        """Print a value. Values in braces or brackets get one line each."""
        self._budget.spend()
        match value:
            case Quoted():
                self.add(quoted(value.data))
            case Aggregate():
                self.lines("{", [(f"{key}: ", each) for key, each in merged(value)], "}")
            case Items():
                self.lines("[", [("", each) for each in value.values], "]")
            case _:
                self.add(value.text)

    def lines(self, opening: str, values: Sequence[tuple[str, Value]], closing: str) -> None:
        """Print values between two brackets, one on each line."""
        self.add(opening, "\n")
        self.deeper()
        for number, (key, value) in enumerate(values, 1):
            self.begin(key)
            self.value(value)
            self.add(",\n" if number < len(values) else "\n")
        self.higher()
        self.begin(closing)


def spaced(word: str) -> str:
    """Return a word and a space, or nothing for an empty word."""
    return f"{word} " if word else ""


def types_of(body: Iterable[object]) -> list[Message | Enum]:
    """Return the messages of a body, then its enums."""
    types = [each for each in body if isinstance(each, Message | Enum)]
    return sorted(types, key=lambda each: isinstance(each, Enum))


def fields_and_groups(fields: Iterable[Field]) -> tuple[list[Field], list[Field]]:
    """Return the fields that are not groups, and the groups."""
    found = list(fields)
    groups = [each for each in found if each.group]
    return [each for each in found if not each.group], groups


def all_options(field: Field) -> list[Option]:
    """Return the options of a field, then its default and its JSON name."""
    options = list(field.options)
    if field.default is not None:
        options.append(Option(name=(NamePart(text="default"),), value=field.default))
    if field.json_name is not None:
        options.append(Option(name=(NamePart(text="json_name"),), value=field.json_name))
    return options


def merged(aggregate: Aggregate) -> list[tuple[str, Value]]:
    """Return the entries of a message. Values of one key become a list."""
    found: dict[str, Value] = {}
    lists: dict[str, list[Value]] = {}
    for entry in aggregate.entries:
        if entry.key in found:
            if entry.key not in lists:
                lists[entry.key] = values_of(found[entry.key])
            lists[entry.key] += values_of(entry.value)
        else:
            found[entry.key] = entry.value
    return [
        (key, Items(values=tuple(lists[key])) if key in lists else value)
        for key, value in found.items()
    ]


def values_of(value: Value) -> list[Value]:
    """Return the values of a list, or a list of any other value."""
    return list(value.values) if isinstance(value, Items) else [value]


def range_text(value: Range | ReservedName, most: int) -> str:
    """Return the text of a reserved name or a range. An end from ``most`` on becomes ``max``."""
    if isinstance(value, ReservedName):
        return quoted(value.text.encode()) if value.is_quoted else value.text
    if value.end is None:
        return str(value.start)
    return f"{value.start} to {'max' if value.end >= most else value.end}"
