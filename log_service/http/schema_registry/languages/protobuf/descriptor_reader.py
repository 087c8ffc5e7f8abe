"""Turns a ``FileDescriptorProto`` into a syntax tree, as Confluent's registry does.

Types get their full names, and the entries of maps become messages with the option ``map_entry``.
Groups and editions are kept, though Confluent's registry loses them. Names are checked, because a
descriptor may have any text as a name, and the tree is printed later.
"""

import binascii
import re
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import DecodeError

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget
from log_service.http.schema_registry.languages.protobuf.definitions import SCALARS
from log_service.http.schema_registry.languages.protobuf.parser import EDITIONS, MAX_MESSAGE_DEPTH
from log_service.http.schema_registry.languages.protobuf.tree import (
    Enum,
    EnumValue,
    Extend,
    Extensions,
    Field,
    Import,
    Message,
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

BASE64 = re.compile(r"[A-Za-z0-9+/]++=*+")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DOTTED = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
NUMBER_TEXT = re.compile(r"-?(?:0|[1-9][0-9]{0,400})(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,4})?")
SPECIAL = re.compile(r"-?(?:inf|nan)")
VISIBILITIES = {0: "", 1: "local", 2: "export"}
LABELS = {1: "optional", 2: "required", 3: "repeated"}
GROUP, STRING, BYTES = 10, 9, 12
STATEMENTS = {
    *("message", "enum", "extensions", "reserved", "extend", "oneof", "option", "map", "group"),
    *("optional", "required", "repeated", "export", "local"),
}
"""Words that begin a statement, so that a text cannot have them as a type without a dot."""
FieldType = FieldDescriptorProto.Type

DecodeOptions = Callable[[str, bytes], tuple[Option, ...]]
"""Decodes options, given their message's name, such as ``FileOptions``, and its bytes."""


def is_serialized(text: str) -> bool:
    """Return whether a text can only be base64. A ``.proto`` text has a brace or a semicolon."""
    return BASE64.fullmatch(text) is not None


def parse_serialized(text: str) -> FileDescriptorProto:
    """Return the descriptor in a text of base64.

    Raises:
        InvalidSchemaError: the text is not base64, or not a descriptor.
    """
    try:
        return FileDescriptorProto.FromString(binascii.a2b_base64(text, strict_mode=True))
    except (binascii.Error, DecodeError, ValueError) as error:
        raise InvalidSchemaError(
            "the text is neither a .proto file nor base64 of a FileDescriptorProto"
        ) from error


def no_options(type_name: str, data: bytes) -> tuple[Option, ...]:
    """Return no options. It replaces a decoder while no definitions of options are known."""
    del type_name, data
    return ()


class DescriptorReader:
    """Reads one descriptor into a syntax tree, with the options that ``decode`` returns."""

    def __init__(self, proto: FileDescriptorProto, decode: DecodeOptions, budget: Budget) -> None:
        self._proto = proto
        self._decode = decode
        self._budget = budget
        self._is_edition = proto.syntax == "editions"

    def __repr__(self) -> str:
        return f"<DescriptorReader of {self._proto.name!r}>"

    def file(self) -> ProtoFile:
        """Return the tree of the file.

        Raises:
            InvalidSchemaError: the descriptor has an invalid part, messages are nested too deep, or
                there are too many nodes.
        """
        proto = self._proto
        body, grouped = self._types(proto.message_type, proto.enum_type, proto.extension, 0)
        return ProtoFile(
            syntax="" if self._is_edition else syntax_of(proto.syntax),
            edition=self._edition(),
            package=checked(PACKAGE, proto.package, "package") if proto.package else "",
            imports=tuple(self._imports()),
            options=self._options("FileOptions", proto),
            body=(
                *body,
                *self._extends(proto.extension, grouped, 0),
                *(self._service(each) for each in proto.service),
            ),
        )

    def _edition(self) -> str:
        if not self._is_edition:
            return ""
        name: str = Edition.Name(self._proto.edition).removeprefix("EDITION_")
        if name not in EDITIONS:
            raise InvalidSchemaError(f"the edition {name} is unknown")
        return name

    def _imports(self) -> Iterable[Import]:
        proto = self._proto
        kinds = dict.fromkeys(proto.weak_dependency, "weak")
        kinds.update(dict.fromkeys(proto.public_dependency, "public"))
        for index, path in enumerate(proto.dependency):
            self._budget.spend()
            yield Import(path=decoded(path), kind=kinds.get(index, ""))
        for path in proto.option_dependency:
            self._budget.spend()
            yield Import(path=decoded(path), kind="option")

    def _options(self, type_name: str, holder: Any) -> tuple[Option, ...]:
        if not holder.HasField("options"):
            return ()
        return self._decode(type_name, holder.options.SerializeToString())

    def _types(
        self,
        messages: Iterable[DescriptorProto],
        enums: Iterable[EnumDescriptorProto],
        extensions: Iterable[FieldDescriptorProto],
        depth: int,
        fields: Iterable[FieldDescriptorProto] = (),
    ) -> tuple[list[Message | Enum], dict[str, DescriptorProto]]:
        """Return the types of a scope, and separately the messages of groups by their names."""
        group_names = {
            decoded(each.type_name).rpartition(".")[2]
            for each in (*fields, *extensions)
            if each.type == GROUP
        }
        grouped = {each.name: each for each in messages if each.name in group_names}
        body: list[Message | Enum] = [
            self._message(each, depth) for each in messages if each.name not in grouped
        ]
        body += [self._enum(each) for each in enums]
        return body, grouped

    def _message(self, proto: DescriptorProto, depth: int) -> Message:
        self._budget.spend()
        if depth >= MAX_MESSAGE_DEPTH:
            raise InvalidSchemaError(f"the nesting is deeper than {MAX_MESSAGE_DEPTH}")
        types, grouped = self._types(
            proto.nested_type, proto.enum_type, proto.extension, depth + 1, proto.field
        )
        return Message(
            name=checked(NAME, proto.name, "message"),
            body=(
                *self._reserved(proto.reserved_range, proto.reserved_name, 1),
                *self._fields(proto, grouped, depth),
                *self._ranges(proto),
                *self._extends(proto.extension, grouped, depth + 1),
                *types,
            ),
            options=self._options("MessageOptions", proto),
            visibility=VISIBILITIES.get(proto.visibility, ""),
        )

    def _fields(
        self, proto: DescriptorProto, grouped: dict[str, DescriptorProto], depth: int
    ) -> list[Field | OneOf]:
        """Return the fields in their order. A oneof is at the position of its first field."""
        body: list[Field | int] = []
        members: dict[int, list[Field]] = {}
        for each in proto.field:
            field = self._field(each, grouped, depth)
            if not each.HasField("oneof_index") or each.proto3_optional:
                body.append(field)
                continue
            if each.oneof_index not in members:
                body.append(each.oneof_index)
            members.setdefault(each.oneof_index, []).append(field)
        return [
            self._oneof(proto, each, members[each]) if isinstance(each, int) else each
            for each in body
        ]

    def _oneof(self, proto: DescriptorProto, index: int, fields: list[Field]) -> OneOf:
        if not 0 <= index < len(proto.oneof_decl):
            raise InvalidSchemaError(f"field {fields[0].name} is in a oneof that is not there")
        oneof = proto.oneof_decl[index]
        return OneOf(
            name=checked(NAME, oneof.name, "oneof"),
            fields=tuple(fields),
            options=self._options("OneofOptions", oneof),
        )

    def _field(
        self, proto: FieldDescriptorProto, grouped: dict[str, DescriptorProto], depth: int
    ) -> Field:
        self._budget.spend()
        group_name = decoded(proto.type_name).rpartition(".")[2] if proto.type == GROUP else ""
        if group_name and group_name not in grouped:
            raise InvalidSchemaError(f"the message of group {proto.name} is not there")
        group = self._message(grouped[group_name], depth) if group_name else None
        name = checked(NAME, proto.name, "field")
        return Field(
            name=group.name if group else name,
            type=group.name if group else self._type(proto),
            number=counted(proto.number),
            label=self._label(proto),
            group=group,
            default=default_of(proto) if proto.HasField("default_value") else None,
            json_name=self._json_name(proto),
            options=self._options("FieldOptions", proto),
        )

    def _json_name(self, proto: FieldDescriptorProto) -> Quoted | None:
        is_there = proto.HasField("json_name") and not proto.extendee
        return Quoted(data=decoded(proto.json_name).encode()) if is_there else None

    def _type(self, proto: FieldDescriptorProto) -> str:
        if not proto.HasField("type_name"):
            name: str = FieldType.Name(proto.type)
            name = name.removeprefix("TYPE_").lower()
            if name not in SCALARS:
                raise InvalidSchemaError(f"the field {proto.name} does not name its type")
            return name
        type_name = checked(DOTTED, proto.type_name, "type")
        if type_name in SCALARS or type_name in STATEMENTS:
            raise InvalidSchemaError(f"the type {type_name} needs a leading dot")
        return type_name

    def _label(self, proto: FieldDescriptorProto) -> str:
        label = LABELS.get(proto.label, "")
        if proto.proto3_optional:
            return "optional"
        if proto.HasField("oneof_index"):
            if label == "repeated":
                raise InvalidSchemaError(f"the field {proto.name} of a oneof is repeated")
            return ""
        has_labels = self._proto.syntax in {"", "proto2"}
        return label if has_labels or label == "repeated" else ""

    def _ranges(self, proto: DescriptorProto) -> Iterable[Extensions]:
        for each in proto.extension_range:
            self._budget.spend()
            yield Extensions(
                ranges=(range_of(counted(each.start), counted(each.end - 1)),),
                options=self._options("ExtensionRangeOptions", each),
            )

    def _reserved(
        self, ranges: Iterable[Any], names: Iterable[str], past_end: int
    ) -> Iterable[Reserved]:
        """Yield reserved statements. ``past_end`` is 1 if ends are exclusive, as in messages."""
        for each in ranges:
            self._budget.spend()
            start, end = each.start, each.end - past_end
            if past_end:
                start, end = counted(start), counted(end)
            yield Reserved(values=(range_of(start, end),))
        for name in names:
            self._budget.spend()
            yield Reserved(values=(self._reserved_name(name),))

    def _reserved_name(self, name: str) -> ReservedName:
        if self._is_edition:
            return ReservedName(text=checked(NAME, name, "reserved name"), is_quoted=False)
        return ReservedName(text=decoded(name))

    def _extends(
        self,
        protos: Iterable[FieldDescriptorProto],
        grouped: dict[str, DescriptorProto],
        depth: int,
    ) -> list[Extend]:
        """Return ``extend`` statements, one for each extended message."""
        found: dict[str, list[Field]] = {}
        for each in protos:
            extendee = checked(DOTTED, each.extendee, "extended message")
            found.setdefault(extendee, []).append(self._field(each, grouped, depth))
        return [Extend(extendee=name, fields=tuple(fields)) for name, fields in found.items()]

    def _enum(self, proto: EnumDescriptorProto) -> Enum:
        self._budget.spend()
        return Enum(
            name=checked(NAME, proto.name, "enum"),
            values=tuple(self._enum_value(each) for each in proto.value),
            reserved=tuple(self._reserved(proto.reserved_range, proto.reserved_name, 0)),
            options=self._options("EnumOptions", proto),
            visibility=VISIBILITIES.get(proto.visibility, ""),
        )

    def _enum_value(self, proto: Any) -> EnumValue:
        self._budget.spend()
        return EnumValue(
            name=checked(NAME, proto.name, "enum value"),
            number=proto.number,
            options=self._options("EnumValueOptions", proto),
        )

    def _service(self, proto: ServiceDescriptorProto) -> Service:
        return Service(
            name=checked(NAME, proto.name, "service"),
            rpcs=tuple(self._rpc(each) for each in proto.method),
            options=self._options("ServiceOptions", proto),
        )

    def _rpc(self, proto: Any) -> Rpc:
        self._budget.spend()
        return Rpc(
            name=checked(NAME, proto.name, "method"),
            request=checked(DOTTED, proto.input_type, "type"),
            response=checked(DOTTED, proto.output_type, "type"),
            is_request_stream=proto.client_streaming,
            is_response_stream=proto.server_streaming,
            options=self._options("MethodOptions", proto),
        )


def syntax_of(syntax: str) -> str:
    """Return the syntax that a descriptor states. An empty one means proto2, and stays empty.

    Raises:
        InvalidSchemaError: the syntax is unknown.
    """
    if decoded(syntax) not in {"", "proto2", "proto3"}:
        raise InvalidSchemaError(f"the syntax {syntax[:20]!r} is unknown")
    return syntax


def checked(pattern: re.Pattern[str], name: str, kind: str) -> str:
    """Return the name if it matches the pattern, so that it can be printed.

    Raises:
        InvalidSchemaError: the text is not a name.
    """
    if pattern.fullmatch(decoded(name)) is None:
        raise InvalidSchemaError(f"the {kind} {name[:40]!r} is not a name")
    return name


def decoded(text: str | bytes) -> str:
    """Return a string of a descriptor. ``protobuf`` has bytes in its place if it is not UTF-8.

    Raises:
        InvalidSchemaError: the string is not UTF-8.
    """
    if isinstance(text, bytes):
        raise InvalidSchemaError(f"{text[:40]!r} is not UTF-8")
    return text


def counted(number: int) -> int:
    """Return the number of a field if it is not negative. A text cannot have a negative number.

    Raises:
        InvalidSchemaError: the number is below zero.
    """
    if number < 0:
        raise InvalidSchemaError("the numbers of fields begin at 1")
    return number


def range_of(start: int, end: int) -> Range:
    """Return an inclusive range. Its end is None if it is a single number."""
    return Range(start=start, end=None if start == end else end)


def default_of(proto: FieldDescriptorProto) -> Value:
    """Return the default of a field.

    A descriptor has it as text, in which bytes are written with C's escapes.
    """
    text = decoded(proto.default_value)
    if proto.type == BYTES:
        return Quoted(data=unescaped_bytes(text))
    if proto.type == STRING:
        return Quoted(data=text.encode())
    if NUMBER_TEXT.fullmatch(text):
        return Number(text=text)
    if SPECIAL.fullmatch(text) or NAME.fullmatch(text):
        return Word(text=text)
    raise InvalidSchemaError(f"the default {text[:40]!r} of field {proto.name} is not a value")


ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
SIMPLE = {"n": b"\n", "r": b"\r", "t": b"\t", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}


def unescaped_bytes(text: str) -> bytes:
    """Return bytes that are written with C's escapes."""
    pieces, done = [], 0
    for match in ESCAPE.finditer(text):
        octal, hexadecimal, simple = match.groups()
        number = int(octal, 8) & 0xFF if octal else int(hexadecimal or "0", 16)
        value = SIMPLE.get(simple, simple.encode()) if simple else bytes([number])
        pieces += [text[done : match.start()].encode(), value]
        done = match.end()
    return b"".join([*pieces, text[done:].encode()])
