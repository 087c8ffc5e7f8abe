"""Implements the registry's language protocol for Protobuf: parses, prints, compares schemas."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from log_service.http.schema_registry.languages.language import (
    BACKWARD_SIDES,
    Difference,
    InvalidSchemaError,
    NamedSchema,
    SchemaType,
    Sides,
)
from log_service.http.schema_registry.languages.limits import USUAL_LIMITS, Budget, SchemaLimits
from log_service.http.schema_registry.languages.protobuf.comparison import Side, compare
from log_service.http.schema_registry.languages.protobuf.definitions import FileDefinition
from log_service.http.schema_registry.languages.protobuf.descriptor_reader import (
    DescriptorReader,
    is_serialized,
    no_options,
    parse_serialized,
)
from log_service.http.schema_registry.languages.protobuf.descriptor_writer import DescriptorWriter
from log_service.http.schema_registry.languages.protobuf.linker import link
from log_service.http.schema_registry.languages.protobuf.normal_form import normal_form
from log_service.http.schema_registry.languages.protobuf.option_decoder import OptionDecoder
from log_service.http.schema_registry.languages.protobuf.option_encoder import OptionEncoder
from log_service.http.schema_registry.languages.protobuf.parser import parse_text
from log_service.http.schema_registry.languages.protobuf.pool import Pool
from log_service.http.schema_registry.languages.protobuf.printer import (
    NORMAL,
    WITHOUT_EXTENSIONS,
    printed,
)
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import ProtoFile
from log_service.http.schema_registry.languages.protobuf.validation.context import Context
from log_service.http.schema_registry.languages.protobuf.validation.files import check_file
from log_service.http.schema_registry.languages.protobuf.well_known import new_pool, well_known_file
from log_service.http.schema_registry.languages.protobuf.wire_format import WireFormatError

MAIN = ""
"""The path of the schema itself among its dependencies."""
DEFAULT_NAME = "default"
"""The name of a schema's descriptor, as Confluent calls it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProtobufSchema:
    """A valid schema. ``canonical`` is the text that is stored."""

    file: FileDefinition = field(repr=False)
    pool: Pool = field(repr=False)
    limits: SchemaLimits = field(repr=False)
    canonical: str

    @property
    def schema_type(self) -> SchemaType:
        """The schema's language."""
        return SchemaType.PROTOBUF

    @property
    def top_level_fields(self) -> frozenset[str]:
        """The names of the first message's fields, also of those in its oneofs."""
        first = self.file.messages[0].fields if self.file.messages else ()
        return frozenset(each.node.name for each in first)

    def normalized(self) -> str:
        """Return the text in its normal form.

        Raises:
            InvalidSchemaError: it takes too many steps, or the new text is too long.
        """
        tree = normal_form(self.file, self.pool, Budget(self.limits))
        return printed(tree, self.limits, NORMAL)

    def differences(
        self,
        writer: Self,
        *,
        sides: Sides = BACKWARD_SIDES,
        is_lenient: bool = False,  # noqa: ARG002
    ) -> list[Difference]:
        """Return the reasons that keep this schema from reading values of ``writer``.

        Protobuf has only one policy, so ``is_lenient`` changes nothing.

        Raises:
            InvalidSchemaError: the comparison takes too many steps.
        """
        reader_side = Side(file=self.file, pool=self.pool)
        writer_side = Side(file=writer.file, pool=writer.pool)
        found = compare(reader_side, writer_side, Budget(self.limits))
        return [replace(each, text=each.text % (sides.reader, sides.writer)) for each in found]

    def formatted(self, form: str) -> str:
        """Return the text in a format.

        ``serialized`` is a descriptor in base64. ``ignore_extensions`` leaves out extensions. Any
        other format means the canonical text.
        """
        if form == "serialized":
            proto = descriptor_of(self.file, self.pool, self.limits, DEFAULT_NAME)
            return b64encode(proto.SerializeToString(deterministic=True)).decode()
        if form == "ignore_extensions":
            return printed(self.file.node, self.limits, WITHOUT_EXTENSIONS)
        return self.canonical


def parse_schema(
    text: str, dependencies: Sequence[NamedSchema], limits: SchemaLimits, *, is_new: bool
) -> ProtobufSchema:
    """Parse and link a schema with its dependencies.

    Raises:
        InvalidSchemaError: the text is invalid or over a bound.
    """
    check_size(text, dependencies, limits)
    budget = Budget(limits)
    pool = new_pool()
    main = read_file(Source(path=MAIN, text=text), limits, budget)
    depths: dict[str, int] = {}
    for each in needed_dependencies(main, dependencies, limits, budget):
        link_file(each, pool, budget, is_strict=False)
        check_depths(pool, depths, limits)
    file = link_file(main, pool, budget, is_strict=is_new)
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
        raise InvalidSchemaError(
            f"the schema with its references is longer than {limits.text_bytes} bytes"
        )


def check_depths(pool: Pool, depths: dict[str, int], limits: SchemaLimits) -> None:
    """Check that imports are not nested too deep, and add the depths of new files to ``depths``."""
    for path, file in pool.files.items():
        if path not in depths:
            depths[path] = 1 + max((depths[each] for each in file.imports), default=0)
            if depths[path] > limits.reference_depth:
                raise InvalidSchemaError(
                    f"the references lead deeper than {limits.reference_depth} files"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A parsed file that is not linked yet.

    The tree of a descriptor has no options yet. ``link_file`` decodes them from ``proto``.
    """

    source: Source
    tree: ProtoFile
    proto: FileDescriptorProto | None = None


def read_file(source: Source, limits: SchemaLimits, budget: Budget) -> ReadFile:
    """Parse a text or a descriptor in base64."""
    if not is_serialized(source.text):
        return ReadFile(source=source, tree=parse_text(source, limits, budget))
    proto = parse_serialized(source.text)
    tree = DescriptorReader(proto, no_options, budget).file()
    return ReadFile(source=Source(path=source.path), tree=tree, proto=proto)


def needed_dependencies(
    main: ReadFile, dependencies: Sequence[NamedSchema], limits: SchemaLimits, budget: Budget
) -> list[ReadFile]:
    """Return the parsed dependencies that are imported, also indirectly, in their given order.

    Other dependencies are ignored, as protoc does. They may define the same names.
    """
    texts = {each.name: each.text for each in dependencies if each.name != MAIN}
    found: dict[str, ReadFile] = {}
    waiting = list(main.tree.imports)
    while waiting:
        path = waiting.pop().path
        if path in texts and path not in found:
            found[path] = read_file(Source(path=path, text=texts[path]), limits, budget)
            waiting += found[path].tree.imports
    return [found[name] for name in texts if name in found]


def link_file(read: ReadFile, pool: Pool, budget: Budget, *, is_strict: bool) -> FileDefinition:
    """Link a file, with the well-known files that it imports."""
    tree = read.tree
    adopt_imports(tree, pool)
    if read.proto is not None:
        # Options may be defined by the file itself, so it is linked without them first.
        scratch = pool.copy()
        link(tree, read.source, scratch, budget, is_strict=False)
        try:
            decoder = OptionDecoder(scratch, budget)
            tree = DescriptorReader(read.proto, decoder.options, budget).file()
        except WireFormatError as error:
            raise InvalidSchemaError(f"an option of the descriptor is broken: {error}") from error
    return link(tree, read.source, pool, budget, is_strict=is_strict)


def adopt_imports(tree: ProtoFile, pool: Pool) -> None:
    """Add the well-known files that a file imports to the pool, unless it has their paths."""
    for each in tree.imports:
        known = None if each.path in pool.files else well_known_file(each.path)
        if known is not None:
            pool.adopt(known)


def encoder_of(file: FileDefinition, pool: Pool, budget: Budget) -> OptionEncoder:
    """Return the encoder of a file's options."""
    return OptionEncoder(file, pool, budget)


def descriptor_of(
    file: FileDefinition, pool: Pool, limits: SchemaLimits, name: str
) -> FileDescriptorProto:
    """Return the descriptor of a file, under a name."""
    return DescriptorWriter(file, encoder_of(file, pool, Budget(limits))).file(name)


def file_descriptors(schema: ProtobufSchema) -> list[FileDescriptorProto]:
    """Return the descriptors of a schema and of all files that it needs, each after its imports.

    A descriptor pool takes them in this order. The last one is the schema, named ``default``. All
    files are checked first, also those that an older registry has accepted, because the C code of a
    descriptor pool should not get descriptors that break the rules.

    Raises:
        InvalidSchemaError: a file breaks a rule.
    """
    pool, budget = new_pool(), Budget(schema.limits)
    protos = []
    for file in needed_files(schema.file):
        known = well_known_file(file.path)
        if known is file:
            pool.adopt(known)
        checked = file if known is file else strict_file(file, pool, budget)
        name = file.path or DEFAULT_NAME
        protos.append(descriptor_of(checked, pool, schema.limits, name))
    return protos


def strict_file(file: FileDefinition, pool: Pool, budget: Budget) -> FileDefinition:
    """Link a linked file into another pool, and check it by all rules for new schemas."""
    strict = link(file.node, file.source, pool, budget, is_strict=True)
    check_file(Context(file=strict, pool=pool, budget=budget), encoder_of(strict, pool, budget))
    return strict


def needed_files(file: FileDefinition) -> list[FileDefinition]:
    """Return a file and all files that it imports, also indirectly, each after its imports."""
    done: dict[str, FileDefinition] = {}
    waiting = [file]
    while waiting:
        each = waiting[-1]
        missing = [imported for path, imported in each.imports.items() if path not in done]
        if missing:
            waiting += missing
        else:
            done[each.path] = waiting.pop()
    return list(done.values())


class Protobuf:
    """The language Protobuf, with bounds on its schemas."""

    def __init__(self, limits: SchemaLimits = USUAL_LIMITS) -> None:
        self._limits = limits

    def __repr__(self) -> str:
        return f"<Protobuf {self._limits}>"

    @property
    def schema_type(self) -> SchemaType:
        """The language's name in requests and records."""
        return SchemaType.PROTOBUF

    def parse(
        self, text: str, dependencies: Sequence[NamedSchema] = (), *, is_new: bool = True
    ) -> ProtobufSchema:
        """Parse a text, and return its schema.

        Raises:
            InvalidSchemaError: the text is not a schema, or is over a bound.
        """
        return parse_schema(text, dependencies, self._limits, is_new=is_new)


PROTOBUF = Protobuf()
