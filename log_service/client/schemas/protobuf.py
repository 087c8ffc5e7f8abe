"""Converts Protobuf messages to bytes and back, with the position of their type in its file.

A schema is registered as the descriptor of its file in base64. Each file that it imports is
registered under a subject of its own, except for Google's well-known types. A message is read as
the type that the application gives, or as the type that the schema of the registry describes.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar, Final, Unpack

from log_service.client.schemas.deserializing import (
    AsyncDeserializing,
    BlockingDeserializing,
    Decode,
    Deserializing,
)
from log_service.client.schemas.errors import SerializationError, schemas_extra
from log_service.client.schemas.exchange import Steps
from log_service.client.schemas.registry_client import (
    BlockingSchemaRegistryClient,
    SchemaRegistryClient,
)
from log_service.client.schemas.serializing import (
    AsyncSerializing,
    BlockingSerializing,
    Encode,
    R_co,
    ResolvedSchema,
    SerializerOptions,
    Serializing,
    chained,
)
from log_service.client.schemas.values import PROTOBUF, Schema, SchemaReference
from log_service.client.schemas.wire_format import Indexes

with schemas_extra():
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import DecodeError, Message
    from google.protobuf.message_factory import GetMessageClass

KNOWN_TYPES: Final = ("google/protobuf/", "google/type/", "confluent/")
"""Prefixes of files that need not be registered. Confluent's serializers have the same list."""
FORMAT: Final = "serialized"
ROOT: Final = "schema_of_the_registry.proto"
NO_CODE: Final = re.compile(
    r"//[^\n]*|/\*(?:.*?\*/|.*)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.DOTALL
)
"""Matches comments and string literals, also those that do not end, so that the time is linear."""
PACKAGE: Final = re.compile(r"\bpackage\s+([\w.]+)\s*;")
MESSAGE: Final = re.compile(r"\bmessage\s+(\w+)\s*\{")


def is_known(name: str) -> bool:
    """Whether a file has Google's well-known types, which every program has."""
    return name.startswith(KNOWN_TYPES)


def file_text(file: FileDescriptor) -> str:
    """Return the text of a file for a registry: its descriptor in base64."""
    return b64encode(file.serialized_pb).decode()


def indexes_of(message: Descriptor) -> Indexes:
    """Return the position of a message type in its file.

    These are the indexes of the messages that contain it, the outermost first, and its own index.
    """
    outer = message.containing_type
    siblings = message.file.message_types_by_name.values() if outer is None else outer.nested_types
    index = [each.full_name for each in siblings].index(message.full_name)
    return (index,) if outer is None else (*indexes_of(outer), index)


def first_message_name(schema: Schema) -> str | None:
    """Return the full name of the first message in a file, or None if there is no message.

    ``schema`` has the file as text or as a descriptor in base64.

    Raises:
        SerializationError: the file is neither text nor a descriptor.
    """
    if "{" in schema.text:  # base64 has none
        text = NO_CODE.sub(" ", schema.text)
        package, message = PACKAGE.search(text), MESSAGE.search(text)
        names = [each[1] for each in (package, message) if each is not None]
        return ".".join(names) if message is not None else None
    file = _file(ROOT, schema.text)
    names = [file.package, file.message_type[0].name] if file.message_type else []
    return ".".join(filter(None, names)) or None


def message_at(found: ResolvedSchema, indexes: Indexes) -> type[Message]:
    """Return a class for the message type at a position in a schema's file.

    Raises:
        Exception: a descriptor cannot be read, or an import is missing.
        SerializationError: there is no message type at this position.
    """
    pool = descriptor_pool.DescriptorPool()
    files = {name: _file(name, text) for name, text in found.texts.items()}
    root = _file(ROOT, found.schema.text)
    _add(pool, root, files, set())
    level, name = root.message_type, root.package
    for index in indexes:
        if index >= len(level):
            raise SerializationError(
                f"the file of the schema has no message at {'.'.join(map(str, indexes))}"
            )
        message: DescriptorProto = level[index]
        level, name = message.nested_type, f"{name}.{message.name}" if name else message.name
    return GetMessageClass(pool.FindMessageTypeByName(name))  # type: ignore[no-any-return]


def _file(name: str, text: str) -> FileDescriptorProto:
    try:
        file = FileDescriptorProto.FromString(b64decode(text, validate=True))
    except (ValueError, DecodeError) as error:
        raise SerializationError(
            f"the registry returns {name} as text; it has to know format={FORMAT}"
        ) from error
    file.name = name
    return file


def _add(
    pool: Any, file: FileDescriptorProto, files: Mapping[str, FileDescriptorProto], added: set[str]
) -> None:
    """Add a file to a pool, after the files that it imports."""
    if file.name in added:
        return
    added.add(file.name)
    for name in file.dependency:
        _add(pool, files[name] if name in files else known_file(name), files, added)
    pool.Add(file)


def known_file(name: str) -> FileDescriptorProto:
    """Return the descriptor of a well-known file from the installed Python packages.

    Raises:
        SerializationError: no package has the file.
    """
    file = FileDescriptorProto()
    try:
        if is_known(name):
            import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    except (ImportError, KeyError) as error:
        raise SerializationError(
            f"the schema imports {name}, which is none of its references"
        ) from error
    return file


class ProtobufSerializing(Serializing[R_co]):
    """The part of a Protobuf serializer that does no I/O."""

    schema_type: ClassVar[str] = PROTOBUF
    fmt: ClassVar[str | None] = FORMAT
    are_references_read: ClassVar[bool] = False

    def __init__(
        self,
        registry: R_co,
        message_type: type[Message],
        *,
        reference_subject_name_strategy: Callable[[str], str] | None = None,
        skip_known_types: bool = True,
        **options: Unpack[SerializerOptions],
    ) -> None:
        self._message_type = message_type
        self._descriptor: Descriptor = message_type.DESCRIPTOR
        self._reference_subject = reference_subject_name_strategy or str
        self._is_known_skipped = skip_known_types
        super().__init__(
            registry, Schema(text=file_text(self._descriptor.file), schema_type=PROTOBUF), **options
        )
        self.indexes = indexes_of(self._descriptor)

    def record_name(self) -> str | None:
        """Return the full name of the message."""
        return str(self._descriptor.full_name)

    def own_schema(self, schema: Schema) -> Steps[Schema]:
        """Return the schema with its references, after these were registered or looked up."""
        references = yield from self._references(self._descriptor.file)
        return Schema(text=schema.text, schema_type=PROTOBUF, references=references)

    def encoder(self, _found: ResolvedSchema) -> Encode:
        """Return the function that encodes messages of this serializer's type."""
        expected = self._message_type

        def encode(message: Any) -> bytes:
            if not isinstance(message, expected):
                raise SerializationError(
                    f"a message of {expected.__name__} is expected, not {type(message).__name__}"
                )
            return message.SerializeToString()  # type: ignore[no-any-return]

        return encode

    def _references(self, file: FileDescriptor) -> Steps[tuple[SchemaReference, ...]]:
        """Register or look up the files that a file imports, and return them as references."""
        core, references = self.registry.core, []
        for imported in file.dependencies:
            if self._is_known_skipped and is_known(imported.name):
                continue
            inner = yield from self._references(imported)
            schema = Schema(text=file_text(imported), schema_type=PROTOBUF, references=inner)
            subject, found = self._reference_subject(imported.name), None
            if self._is_registering:
                found = yield from core.register_schema(
                    subject, schema, normalize=self._is_normalized
                )
            if found is None or found.version is None:
                found = yield from core.lookup_schema(
                    subject, schema, normalize=self._is_normalized
                )
            references.append(
                SchemaReference(name=imported.name, subject=subject, version=found.version or 0)
            )
        return tuple(references)


class ProtobufDeserializing(Deserializing[R_co]):
    """The part of a Protobuf deserializer that does no I/O."""

    schema_type: ClassVar[str] = PROTOBUF
    fmt: ClassVar[str | None] = FORMAT
    has_indexes: ClassVar[bool] = True

    def __init__(
        self,
        registry: R_co,
        message_type: type[Message] | None = None,
        *,
        from_message: Callable[[Any], Any] | None = None,
        is_key: bool = False,
    ) -> None:
        super().__init__(registry, None, is_key=is_key)
        self._message_type = message_type
        self._from_message = from_message
        self.is_writer_needed = message_type is None

    def record_name(self, schema: Schema) -> str | None:  # noqa: ARG002 - a file has many messages
        """Return None, because a schema describes a whole file."""
        return None

    def decoder(
        self, written: ResolvedSchema | None, _wanted: ResolvedSchema | None, indexes: Indexes
    ) -> Decode:
        """Return the function that decodes payloads.

        ``indexes`` is the position of the message type in the file ``written``.
        """
        message_type = self._message_type if written is None else message_at(written, indexes)
        assert message_type is not None, (
            "the writer's schema is asked for where the application gives no type"
        )
        return chained(message_type.FromString, self._from_message)


class ProtobufSerializer(ProtobufSerializing[SchemaRegistryClient], AsyncSerializing):
    """Turns messages of a type into Protobuf, in tasks on trio or on asyncio.

    Files that the type's file imports get subjects of their own. A subject has the name of the
    file, or the name that ``reference_subject_name_strategy`` returns for it. Well-known types are
    registered only with ``skip_known_types=False``. Other keywords are those of
    ``AvroSerializer``, except for ``to_dict``.
    """


class BlockingProtobufSerializer(
    ProtobufSerializing[BlockingSchemaRegistryClient], BlockingSerializing
):
    """Turns messages into Protobuf, in any thread. Keywords are those of ``ProtobufSerializer``."""


class ProtobufDeserializer(ProtobufDeserializing[SchemaRegistryClient], AsyncDeserializing):
    """Turns Protobuf into messages, in tasks on trio or on asyncio.

    With ``message_type`` messages are of this type, and the registry is not asked. Without it they
    are of a class that is made from the schema with which they were written. So one topic may have
    several types. ``from_message`` turns a message into an object of the application. ``is_key`` is
    for keys.
    """


class BlockingProtobufDeserializer(
    ProtobufDeserializing[BlockingSchemaRegistryClient], BlockingDeserializing
):
    """Turns Protobuf into messages, in any thread. Keywords are ``ProtobufDeserializer``'s."""
