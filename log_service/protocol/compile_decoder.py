"""Turns a message's schema into one Python function that decodes one version of it.

The function has no loops over fields. One ``struct.Struct`` reads neighbouring fields of fixed size
together with the length that follows them, and nested structs are inlined. Every length is compared
with the bytes that remain before anything is built. The elements of all lists in a frame count
against one limit. This module knows schemas and source text, but no values.
"""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from log_service.protocol import reader
from log_service.protocol.schema import Field, Message, has_version
from log_service.protocol.source import FIXED_FORMATS, FIXED_SIZES, SourceWriter

Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
"""(buffer, position, budget of list elements) -> (message, position behind it)."""

RUNTIME = {
    "new": object.__new__,
    "unpack_from": struct.unpack_from,
    "StructError": struct.error,
    "NO_UUID": reader.NO_UUID,
    "uuid_of": reader.uuid_of,
    "long_uvarint": reader.read_long_uvarint,
    "skip_tags": reader.skip_tags,
    "overrun": reader.overrun,
    "string_overrun": reader.string_overrun,
    "bad_count": reader.bad_count,
    "too_many": reader.too_many,
    "null_value": reader.null_value,
    "tag_order": reader.tag_order,
    "tag_size": reader.tag_size,
    "ends_early": reader.ends_early,
    "not_text": reader.not_text,
}


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Return the decoder of one (class, version). The class must have this version."""
    return _DecoderCompiler(cls, version).compile()


def minimum_size(field: Field, version: int) -> int:
    """Return the least number of bytes that one element of a list takes, at least 1."""
    element = field.element_type
    if element == "struct":
        assert field.struct is not None
        schema = field.struct.SCHEMA
        flexible = has_version(schema.flexible, version)
        present = (
            each
            for each in schema.fields
            if has_version(each.versions, version) and each.tag is None
        )
        return max(
            1, flexible + sum(_field_minimum(each, version, flexible=flexible) for each in present)
        )
    return FIXED_SIZES.get(element, 1)


def _field_minimum(field: Field, version: int, *, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    if field.wire_type in FIXED_SIZES:
        return FIXED_SIZES[field.wire_type]
    if field.wire_type == "struct":
        return 1 if has_version(field.nullable, version) else minimum_size(field, version)
    if flexible:
        return 1
    return 2 if field.wire_type == "string" else 4


class _DecoderCompiler:
    """Writes the Python source of one decoder.

    ``_run`` holds the neighbouring fields of fixed size for which no code is written yet, as
    (format, target). One call will read all of them.
    """

    def __init__(self, cls: type[Message], version: int) -> None:
        self._cls = cls
        self._version = version
        self._title = f"{cls.SCHEMA.name} v{version}"
        self._source = SourceWriter(RUNTIME)
        self._run: list[tuple[str, str]] = []

    def compile(self) -> Decoder:
        source = self._source
        with source.block("def decode(buf, pos, budget):"):
            source.line("end = len(buf)")
            with source.block("try:"):
                self._struct(self._cls, "m", "")
                self._flush()
            with source.block("except (StructError, IndexError):"):
                source.line(f"raise ends_early({self._title!r}, pos, end) from None")
            with source.block("except UnicodeDecodeError:"):
                source.line(f"raise not_text({self._title!r}, pos) from None")
            source.line("return m, pos")
        decoder: Decoder = source.function("decode", f"decode {self._title}")
        return decoder

    def _flush(self) -> None:
        """Write one call that reads all fields in ``_run``, and empty ``_run``."""
        run, self._run = self._run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] == "B":
            self._source.line(f"{run[0][1]} = buf[pos]")
            self._source.line("pos += 1")
            return
        packed = struct.Struct(">" + "".join(kind for kind, _ in run))
        unpack = self._source.constant("unpack", packed.format, packed.unpack_from)
        self._source.line(f"{', '.join(target for _, target in run)}, = {unpack}(buf, pos)")
        self._source.line(f"pos += {packed.size}")
        for kind, target in run:
            if kind == "16s":
                self._source.line(f"{target} = uuid_of({target})")

    def _struct(self, cls: type[Message], target: str, path: str) -> None:
        """Write the code that decodes a struct into the new object ``target``."""
        flexible = has_version(cls.SCHEMA.flexible, self._version)
        self._source.line(f"{target} = new({self._source.constant('cls', cls, cls)})")
        tagged = []
        for field in cls.SCHEMA.fields:
            attribute = f"{target}.{field.name}"
            if not has_version(field.versions, self._version):
                self._source.line(f"{attribute} = {self._default(field)}")
            elif field.tag is not None:
                self._source.line(f"{attribute} = {self._default(field)}")
                tagged.append(field)
            else:
                self._field(field, attribute, f"{path}.{field.name}" if path else field.name)
        if flexible:
            self._tags(tagged, target, path)

    def _default(self, field: Field) -> str:
        if field.default is ...:
            assert field.struct is not None
            return f"{self._source.constant('cls', field.struct, field.struct)}()"
        if field.default == () and field.is_array:
            return "[]"
        return "NO_UUID" if isinstance(field.default, UUID) else repr(field.default)

    def _where(self, path: str) -> str:
        return repr(f"{self._title}: {path}" if path else self._title)

    def _is_flexible(self, field: Field) -> bool:
        versions = self._cls.SCHEMA.flexible if field.flexible is None else field.flexible
        return has_version(versions, self._version)

    def _field(self, field: Field, target: str, path: str) -> None:
        if field.is_array:
            self._array(field, target, path)
        elif field.wire_type == "struct":
            self._struct_field(field, target, path)
        elif field.wire_type in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.wire_type], target))
        else:
            self._sized(field, target, path)

    def _length(self, field: Field, prefix: str, short: str) -> str:
        """Write the code that reads a length, and return the name of its variable.

        The variable is -1 for null in every version.
        """
        length = self._source.name(prefix)
        flexible = self._is_flexible(field)
        self._run.append(("B" if flexible else short, length))
        self._flush()
        if flexible:
            with self._source.block(f"if {length} > 127:"):
                self._source.line(f"{length}, pos = long_uvarint(buf, pos, {length})")
            self._source.line(f"{length} -= 1")
        return length

    def _sized(self, field: Field, target: str, path: str) -> None:
        """Write the code that reads a string, bytes or records: a length and that many bytes."""
        source = self._source
        is_text = field.wire_type == "string"
        nullable = has_version(field.nullable, self._version)
        length = self._length(field, "n", "h" if is_text else "i")
        where = self._where(path)
        with source.block(f"if {length} < 0:"):
            if nullable:
                with source.block(f"if {length} != -1:"):
                    source.line(f"raise overrun({where}, {length}, end - pos)")
                source.line(f"{target} = None")
            else:
                source.line(f"raise null_value({where})")
        with source.block("else:"):
            stop = source.name("stop")
            source.line(f"{stop} = pos + {length}")
            limit = f" or {length} > {reader.MAX_STRING_BYTES}" if is_text else ""
            with source.block(f"if {stop} > end{limit}:"):
                source.line(
                    f"raise {'string_overrun' if is_text else 'overrun'}({where}, {length}, end -"
                    " pos)"
                )
            piece = f"buf[pos:{stop}]"
            source.line(
                f"{target} = "
                + {
                    "string": f'str({piece}, "utf-8")',
                    "bytes": f"bytes({piece})",
                    "records": piece,
                }[field.wire_type]
            )
            source.line(f"pos = {stop}")

    def _struct_field(self, field: Field, target: str, path: str) -> None:
        assert field.struct is not None
        inner = self._source.name("s")
        if not has_version(field.nullable, self._version):
            self._struct(field.struct, inner, path)
            self._source.line(f"{target} = {inner}")
            return
        mark = self._source.name("mark")
        self._run.append(("b", mark))
        self._flush()
        with self._source.block(f"if {mark} {'<' if field.tag is None else '<='} 0:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            self._struct(field.struct, inner, path)
            self._flush()
            self._source.line(f"{target} = {inner}")

    def _array(self, field: Field, target: str, path: str) -> None:
        source = self._source
        count = self._length(field, "count", "i")
        where = self._where(path)
        if has_version(field.nullable, self._version):
            with source.block(f"if {count} == -1:"):
                source.line(f"{target} = None")
            with source.block("else:"):
                self._elements(field, target, count, path)
            return
        with source.block(f"if {count} == -1:"):
            source.line(f"raise null_value({where})")
        self._elements(field, target, count, path)

    def _elements(self, field: Field, target: str, count: str, path: str) -> None:
        source = self._source
        where = self._where(path)
        size = minimum_size(field, self._version)
        rest = f"(end - pos) // {size}" if size > 1 else "end - pos"
        with source.block(f"if {count} < 0 or {count} > {rest}:"):
            source.line(f"raise bad_count({where}, {count}, end - pos)")
        source.line(f"budget -= {count}")
        with source.block("if budget < 0:"):
            source.line(f"raise too_many({where}, {count})")
        element = field.element_type
        if element in FIXED_FORMATS and element != "uuid":
            source.line(
                f'{target} = list(unpack_from(f">{{{count}}}{FIXED_FORMATS[element]}", buf, pos))'
            )
            source.line(f"pos += {count} * {FIXED_SIZES[element]}")
            return
        items = source.name("items")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({count}):"):
            self._element(field, items, path)

    def _element(self, field: Field, items: str, path: str) -> None:
        inner = self._source.name("e")
        if field.element_type == "struct":
            assert field.struct is not None
            self._struct(field.struct, inner, path)
        else:
            self._field(
                Field(
                    name=field.name,
                    wire_type=field.element_type,
                    versions=field.versions,
                    flexible=field.flexible,
                ),
                inner,
                path,
            )
        self._flush()
        self._source.line(f"{items}.append({inner})")

    def _tags(self, tagged: list[Field], target: str, path: str) -> None:
        """Write the code that reads the tagged fields at the end of a flexible struct.

        Almost always there are none.
        """
        source = self._source
        count = source.name("tags")
        self._run.append(("B", count))
        self._flush()
        with source.block(f"if {count}:"):
            with source.block(f"if {count} > 127:"):
                source.line(f"{count}, pos = long_uvarint(buf, pos, {count})")
            with source.block(f"if {count} > (end - pos) // 2:"):
                source.line(f"raise bad_count({self._where(path)} + ' tags', {count}, end - pos)")
            if tagged:
                self._known_tags(tagged, count, target, path)
            else:
                source.line(f"pos = skip_tags(buf, pos, end, {count}, {self._where(path)})")

    def _known_tags(self, tagged: list[Field], count: str, target: str, path: str) -> None:
        source = self._source
        last, tag, size, stop, outer = (
            source.name(prefix) for prefix in ("last", "tag", "size", "stop", "outer")
        )
        where = self._where(path)
        source.line(f"{last} = -1")
        with source.block(f"for _ in range({count}):"):
            for each in (tag, size):
                source.line(f"{each}, pos = long_uvarint(buf, pos + 1, buf[pos])")
            with source.block(f"if {tag} <= {last}:"):
                source.line(f"raise tag_order({where}, {tag}, {last})")
            source.line(f"{last} = {tag}")
            source.line(f"{stop} = pos + {size}")
            with source.block(f"if {stop} > end:"):
                source.line(f"raise overrun({where} + f' tag {{{tag}}}', {size}, end - pos)")
            source.line(f"{outer} = end")
            source.line(f"end = {stop}")
            for index, field in enumerate(tagged):
                with source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    self._field(
                        field,
                        f"{target}.{field.name}",
                        f"{path}.{field.name}" if path else field.name,
                    )
                    self._flush()
            with source.block("else:"):
                source.line(f"pos = {stop}")
            with source.block(f"if pos != {stop}:"):
                source.line(f"raise tag_size({where}, {tag}, {size})")
            source.line(f"end = {outer}")
