"""Protobuf schemas (proto2, proto3, editions): parsing, printing, and differences of two schemas.

A schema comes as text, or as a ``FileDescriptorProto`` in base64. Both mean the same schema.

- ``source``, ``lexer``, ``tree``, ``values`` and ``parser``: from a text to a tree.
- ``printer``: from a tree to the canonical text, as Confluent's registry prints it.
- ``features``, ``definitions``, ``pool`` and ``linker``: full names and resolved types of files.
- ``number_text`` and ``wire_format``: numbers and messages as text and as bytes.
- ``option_decoder``, ``option_encoder``, ``option_uses`` and ``option_values``: options as bytes.
- ``descriptor_reader`` and ``descriptor_writer``: from and to ``FileDescriptorProto``.
- ``well_known``: files that need no reference.
- ``validation``: the rules that protoc has beyond the grammar.
- ``normal_form``: the same text for all schemas with the same meaning.
- ``comparison``: why a reader's schema cannot read a writer's data.
- ``schema``: one schema with its dependencies. ``message_indexes``: finds messages by index.

Sources: the Protobuf language specification, the errors of protoc, the printing of Wire's schema
library 4.9.7, and the observable behaviour of Confluent's registry 8.
"""

from log_service.http.schema_registry.languages.protobuf.message_indexes import (
    message_indexes,
    message_name,
)
from log_service.http.schema_registry.languages.protobuf.schema import (
    PROTOBUF,
    Protobuf,
    ProtobufSchema,
    file_descriptors,
)

__all__ = [
    "PROTOBUF",
    "Protobuf",
    "ProtobufSchema",
    "file_descriptors",
    "message_indexes",
    "message_name",
]
