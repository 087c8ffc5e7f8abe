"""Turns definitions into a ``FileDescriptorProto``, as protoc writes it.

Options are written as fields of the options messages. JSON names are written only if the text has
them, as in the descriptors of generated code.
"""

import math
from collections.abc import Iterable
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
    SymbolVisibility,
    UninterpretedOption,
)

from log_service.http.schema_registry.languages.protobuf.definitions import (
    EnumDefinition,
    FieldDefinition,
    FileDefinition,
    MessageDefinition,
    ServiceDefinition,
)
from log_service.http.schema_registry.languages.protobuf.number_text import (
    SPECIAL_FLOATS,
    as_float32,
    float_text,
    float_value,
    integer_of,
    is_integer_text,
)
from log_service.http.schema_registry.languages.protobuf.option_encoder import OptionEncoder
from log_service.http.schema_registry.languages.protobuf.tree import (
    Number,
    Option,
    Quoted,
    Range,
    Reserved,
    ReservedName,
    Value,
    Word,
)

FieldType = FieldDescriptorProto.Type
FieldLabel = FieldDescriptorProto.Label
VISIBILITIES = {
    "export": SymbolVisibility.VISIBILITY_EXPORT,
    "local": SymbolVisibility.VISIBILITY_LOCAL,
}


class DescriptorWriter:
    """Writes the descriptor of one file."""

    def __init__(self, file: FileDefinition, encoder: OptionEncoder) -> None:
        self._file = file
        self._encoder = encoder

    def __repr__(self) -> str:
        return f"<DescriptorWriter of {self._file.path!r}>"

    def file(self, name: str) -> FileDescriptorProto:
        """Return the descriptor with this name."""
        file, node = self._file, self._file.node
        proto = FileDescriptorProto(name=name)
        if node.package:
            proto.package = node.package
        self._imports(proto)
        for message in file.messages:
            self._message(proto.message_type.add(), message)
        for enum in file.enums:
            self._enum(proto.enum_type.add(), enum)
        for service in file.services:
            self._service(proto.service.add(), service)
        for extension in file.extensions:
            self._field(proto.extension.add(), extension)
        # A file of a package is resolved from a name inside of it.
        self._options(proto, "FileOptions", node.options, node.package)
        if node.edition:
            proto.syntax = "editions"
            proto.edition = Edition.Value(f"EDITION_{node.edition}")
        elif node.syntax == "proto3":
            proto.syntax = node.syntax
        return proto

    def _imports(self, proto: FileDescriptorProto) -> None:
        for each in self._file.node.imports:
            if each.path not in self._file.imports:
                continue
            if each.kind == "option":
                proto.option_dependency.append(each.path)
                continue
            if each.kind == "public":
                proto.public_dependency.append(len(proto.dependency))
            if each.kind == "weak":
                proto.weak_dependency.append(len(proto.dependency))
            proto.dependency.append(each.path)

    def _options(self, holder: Any, type_name: str, options: Iterable[Option], scope: str) -> None:
        """Set the options of an element.

        An option that cannot be interpreted becomes an ``uninterpreted_option``.
        """
        options = tuple(options)
        if not options:
            return
        data, left = self._encoder.interpreted(type_name, options, scope)
        holder.options.ParseFromString(data)
        holder.options.SetInParent()
        for option, _ in left:
            uninterpreted(holder.options.uninterpreted_option.add(), option)

    def _message(self, proto: DescriptorProto, message: MessageDefinition) -> None:
        node = message.node
        proto.name = node.name
        for field in message.fields:
            self._field(proto.field.add(), field)
        for extension in message.extensions:
            self._field(proto.extension.add(), extension)
        for nested in message.messages:
            self._message(proto.nested_type.add(), nested)
        for enum in message.enums:
            self._enum(proto.enum_type.add(), enum)
        self._ranges(proto, message)
        self._oneofs(proto, message)
        self._reserved(proto, message.reserved, 1)
        if node.visibility:
            proto.visibility = VISIBILITIES[node.visibility]
        self._options(proto, "MessageOptions", node.options, message.scope)

    def _ranges(self, proto: DescriptorProto, message: MessageDefinition) -> None:
        for statement in message.extension_ranges:
            for each in statement.ranges:
                end = message.last_number(each) + 1
                added = proto.extension_range.add(start=each.start, end=end)
                self._options(added, "ExtensionRangeOptions", statement.options, message.scope)

    def _oneofs(self, proto: DescriptorProto, message: MessageDefinition) -> None:
        nodes = message.oneof_nodes
        for index, name in enumerate(message.oneofs):
            added = proto.oneof_decl.add(name=name)
            if index < len(nodes):
                self._options(added, "OneofOptions", nodes[index].options, message.full_name)

    def _reserved(self, proto: Any, statements: Iterable[Reserved], past_end: int) -> None:
        """Add reserved ranges and names. ``past_end`` is 1 if ends are exclusive."""
        for statement in statements:
            for each in statement.values:
                match each:
                    case Range():
                        proto.reserved_range.add(start=each.start, end=each.last + past_end)
                    case ReservedName():
                        proto.reserved_name.append(each.text)

    def _field(self, proto: FieldDescriptorProto, field: FieldDefinition) -> None:
        node = field.node
        proto.name = field.name
        proto.number = node.number
        proto.label = FieldLabel.Value(f"LABEL_{field.label.upper()}")
        if field.extendee:
            proto.extendee = f".{field.extendee}"
        if field.kind:
            proto.type = FieldType.Value(f"TYPE_{field.kind.upper()}")
        if field.type_name:
            proto.type_name = f".{field.type_name}" if field.kind else field.type_name
        if node.default is not None:
            proto.default_value = default_text(field.kind, node.default)
        if node.json_name is not None:
            proto.json_name = node.json_name.data.decode(errors="replace")
        if field.oneof is not None:
            proto.oneof_index = field.oneof
        if field.is_optional_of_proto3:
            proto.proto3_optional = True
        self._options(proto, "FieldOptions", node.options, field.scope)

    def _enum(self, proto: EnumDescriptorProto, enum: EnumDefinition) -> None:
        node = enum.node
        proto.name = node.name
        for value in node.values:
            added = proto.value.add(name=value.name, number=value.number)
            self._options(added, "EnumValueOptions", value.options, enum.scope)
        self._reserved(proto, node.reserved, 0)
        if node.visibility:
            proto.visibility = VISIBILITIES[node.visibility]
        self._options(proto, "EnumOptions", node.options, enum.scope)

    def _service(self, proto: ServiceDescriptorProto, service: ServiceDefinition) -> None:
        proto.name = service.node.name
        for method in service.methods:
            rpc = method.node
            added = proto.method.add(name=rpc.name)
            added.input_type = f".{method.request}" if method.request else rpc.request
            added.output_type = f".{method.response}" if method.response else rpc.response
            if rpc.is_request_stream:
                added.client_streaming = True
            if rpc.is_response_stream:
                added.server_streaming = True
            self._options(added, "MethodOptions", rpc.options, service.full_name)
        self._options(proto, "ServiceOptions", service.node.options, service.scope)


def default_text(kind: str, value: Value) -> str:
    """Return a field's default as the text that a descriptor has for it."""
    text = ""
    match value:
        case Quoted():
            is_bytes = kind == "bytes"
            text = c_escaped(value.data) if is_bytes else value.data.decode(errors="replace")
        case Number() if kind in {"float", "double"}:
            number = float_value(value.text)
            is_float = kind == "float"
            text = float_text(as_float32(number) if is_float else number, is_float=is_float)
        case Number() if is_integer_text(value.text):
            text = str(integer_of(value.text))
        case Word() if kind in {"float", "double"}:
            text = special_float_text(value.text)
        case Word() | Number():
            text = value.text
    return text


def special_float_text(text: str) -> str:
    """Return the default text of ``inf`` or ``nan``. A descriptor has no negative ``nan``."""
    number = SPECIAL_FLOATS.get(text.removeprefix("-"), math.nan)
    if math.isnan(number):
        return "nan"
    return "-inf" if text.startswith("-") else "inf"


def c_escaped(data: bytes) -> str:
    """Return bytes as text with C's escapes."""
    simple = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(
        simple.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data
    )


def uninterpreted(proto: UninterpretedOption, option: Option) -> None:
    """Write an option that could not be interpreted into ``proto``, as name and value."""
    for part in option.name:
        proto.name.add(name_part=part.text, is_extension=part.is_extension)
    match option.value:
        case Quoted():
            proto.string_value = option.value.data
        case Word():
            proto.identifier_value = option.value.text
        case Number() if is_integer_text(option.value.text):
            number = integer_of(option.value.text)
            if 0 <= number < 2**64:
                proto.positive_int_value = number
            elif -(2**63) <= number < 0:
                proto.negative_int_value = number
        case Number():
            proto.double_value = float_value(option.value.text)
        case _:
            # The text of a message is not kept: no reader of descriptors interprets it.
            proto.aggregate_value = ""
