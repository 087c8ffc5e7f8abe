"""One Protobuf schema with its dependencies: parsing, and everything that a registry asks of it."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from log_service.http.schema_registry.languages.language import (
    InvalidSchemaError,
    NamedSchema,
    SchemaType,
)
from log_service.http.schema_registry.languages.limits import Budget, SchemaLimits
from log_service.http.schema_registry.languages.protobuf.definitions import FileDefinition
from log_service.http.schema_registry.languages.protobuf.descriptor_reader import (
    DescriptorReader,
    is_serialized,
    no_options,
    parse_serialized,
)
from log_service.http.schema_registry.languages.protobuf.descriptor_writer import DescriptorWriter
from log_service.http.schema_registry.languages.protobuf.linker import link
from log_service.http.schema_registry.languages.protobuf.option_decoder import OptionDecoder
from log_service.http.schema_registry.languages.protobuf.option_encoder import OptionEncoder
from log_service.http.schema_registry.languages.protobuf.parser import parse_text
from log_service.http.schema_registry.languages.protobuf.pool import Pool, visible_files
from log_service.http.schema_registry.languages.protobuf.printer import (
    WITHOUT_EXTENSIONS,
    printed,
)
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import ProtoFile
from log_service.http.schema_registry.languages.protobuf.validation.context import Context
from log_service.http.schema_registry.languages.protobuf.validation.files import check_file
from log_service.http.schema_registry.languages.protobuf.well_known import (
    new_pool,
    well_known_file,
)
from log_service.http.schema_registry.languages.protobuf.wire_format import WireFormatError

MAIN = ""
"""The path of the schema itself among its dependencies."""
DEFAULT_NAME = "default"
"""The name of a schema's descriptor, as Confluent calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufSchema:
    """A valid schema. ``canonical`` is the text that is stored."""

    file: FileDefinition = field(repr=False)
    pool: Pool = field(repr=False)
    limits: SchemaLimits = field(repr=False)
    canonical: str

    @property
    def schema_type(self) -> SchemaType:
        """The language."""
        return SchemaType.PROTOBUF

    def formatted(self, form: str) -> str:
        """Return the text as ``serialized`` or ``ignore_extensions``, or else the canonical one."""
        if form == "serialized":
            return b64encode(self.descriptor().SerializeToString(deterministic=True)).decode()
        if form == "ignore_extensions":
            return printed(self.file.node, self.limits, WITHOUT_EXTENSIONS)
        return self.canonical

    def descriptor(self, name: str = DEFAULT_NAME) -> FileDescriptorProto:
        """Return the descriptor of the schema alone."""
        return descriptor_of(self.file, self.pool, self.limits, name)


def parse_schema(text: str, dependencies: Sequence[NamedSchema], limits: SchemaLimits, *, is_new: bool) -> ProtobufSchema:
    """Return a schema.

    Raises:
        InvalidSchemaError: the text is invalid or over a bound.
    """
    check_size(text, dependencies, limits)
    budget = Budget(limits)
    pool = new_pool(budget)
    for each in dependencies:
        add_dependency(each, pool, limits, budget)
    file = add_file(Source(path=MAIN, text=text), pool, limits, budget, is_strict=is_new)
    if is_new:
        check_file(Context(file=file, pool=pool, budget=budget), encoder_of(file, pool, budget))
    canonical = printed(file.node, limits)
    return ProtobufSchema(file=file, pool=pool, limits=limits, canonical=canonical)


def check_size(text: str, dependencies: Sequence[NamedSchema], limits: SchemaLimits) -> None:
    """Check the bounds on a schema with its references before anything is parsed."""
    if len(dependencies) > limits.reference_count:
        raise InvalidSchemaError(f"the schema has more than {limits.reference_count} references")
    try:
        size = len(text.encode()) + sum(len(each.text.encode()) for each in dependencies)
    except UnicodeEncodeError as error:
        raise InvalidSchemaError("the text has half of a surrogate pair") from error
    if size > limits.text_bytes:
        raise InvalidSchemaError(f"the schema with its references is longer than {limits.text_bytes} bytes")


def add_dependency(dependency: NamedSchema, pool: Pool, limits: SchemaLimits, budget: Budget) -> None:
    """Add a file that is referred to. It was checked when it was registered."""
    if dependency.name not in pool.files:
        source = Source(path=dependency.name, text=dependency.text)
        add_file(source, pool, limits, budget, is_strict=False)


def add_file(source: Source, pool: Pool, limits: SchemaLimits, budget: Budget, *, is_strict: bool) -> FileDefinition:
    """Parse and link a file, with the well-known files that it imports."""
    if not is_serialized(source.text):
        tree = parse_text(source, limits, budget)
        adopt_imports(tree, pool)
        return link(tree, source, pool, budget, is_strict=is_strict)
    proto = parse_serialized(source.text)
    source = Source(path=source.path)
    bare = DescriptorReader(proto, no_options, budget).file()
    adopt_imports(bare, pool)
    # Options may be defined by the file itself, so it is linked without them first.
    scratch = pool.copy()
    link(bare, source, scratch, budget, is_strict=False)
    try:
        decoder = OptionDecoder(scratch, budget)
        tree = DescriptorReader(proto, decoder.options, budget).file()
    except WireFormatError as error:
        raise InvalidSchemaError(f"an option of the descriptor is broken: {error}") from error
    return link(tree, source, pool, budget, is_strict=is_strict)


def adopt_imports(tree: ProtoFile, pool: Pool) -> None:
    """Add the well-known files that a file imports, if no dependency has their names."""
    for each in tree.imports:
        known = None if each.path in pool.files else well_known_file(each.path)
        if known is not None:
            pool.adopt(known)


def encoder_of(file: FileDefinition, pool: Pool, budget: Budget) -> OptionEncoder:
    """Return what interprets the options of a file."""
    return OptionEncoder(pool, visible_files(file), file.source, budget)


def descriptor_of(file: FileDefinition, pool: Pool, limits: SchemaLimits, name: str) -> FileDescriptorProto:
    """Return the descriptor of a file."""
    return DescriptorWriter(file, encoder_of(file, pool, Budget(limits))).file(name)
