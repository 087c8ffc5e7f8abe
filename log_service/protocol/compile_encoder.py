"""Turns a message's schema into one Python function that encodes one version of it.

The function has no loops over fields, and appends to one ``bytearray``. One ``struct.Struct`` packs
neighbouring fields of fixed size, the length after them and an empty tag section. Nested structs
are inlined. ``records`` are never copied, but become a chunk between two bytearrays. A value for
which the version has no field is dropped if it is the default, or if the schema says ignorable.
Otherwise it is refused.
"""

import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from log_service.protocol import reader, writer
from log_service.protocol.schema import Chunk, Field, Message, has_version
from log_service.protocol.source import FIXED_FORMATS, SourceWriter

Encoder = Callable[[Any, bytearray, list[Chunk]], None]
"""(message, bytearray to go on with, list that receives the finished chunks)."""

RUNTIME = {
    "pack": struct.pack,
    "StructError": struct.error,
    "NO_UUID": reader.NO_UUID,
    "uvarint": writer.uvarint,
    "cannot_carry": writer.cannot_carry,
    "does_not_fit": writer.does_not_fit,
    "too_long": writer.too_long,
    "null_value": reader.null_value,
    "PLAIN": frozenset({bytes, type(None)}),
}


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Return the encoder of one (class, version). The class must have this version."""
    return _EncoderCompiler(cls, version).compile()


class _EncoderCompiler:
    """Writes the Python source of one encoder.

    ``_run`` holds the neighbouring values of fixed size for which no code is written yet, as
    (format, expression). One call will pack all of them.
    """

    def __init__(self, cls: type[Message], version: int) -> None:
        self._cls = cls
        self._version = version
        self._title = f"{cls.SCHEMA.name} v{version}"
        self._source = SourceWriter(RUNTIME)
        self._run: list[tuple[str, str]] = []

    def compile(self) -> Encoder:
        source = self._source
        with source.block("def encode(m, out, chunks):"):
            with source.block("try:"):
                source.line("pass")
                self._struct(self._cls, "m", "")
                self._flush()
            with source.block("except (StructError, UnicodeEncodeError) as error:"):
                source.line(f"raise does_not_fit({self._title!r}, error) from error")
            source.line("chunks.append(out)")
        encoder: Encoder = source.function("encode", f"encode {self._title}")
        return encoder

    def _flush(self) -> None:
        """Write one call that packs all values in ``_run``, and empty ``_run``."""
        run, self._run = self._run, []
        if run:
            self._source.line(f"out += {self._packed(run)}")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        """Return the source of an expression that packs the values of ``run``.

        The format ``x`` is a zero byte without a value.
        """
        values = [value for kind, value in run if kind != "x"]
        if not values:
            return repr(bytes(len(run)))
        packed = struct.Struct(">" + "".join(kind for kind, _ in run))
        return f"{self._source.constant('pack', packed.format, packed.pack)}({', '.join(values)})"

    def _where(self, path: str) -> str:
        return repr(f"{self._title}: {path}" if path else self._title)

    def _is_flexible(self, field: Field) -> bool:
        versions = self._cls.SCHEMA.flexible if field.flexible is None else field.flexible
        return has_version(versions, self._version)

    def _struct(self, cls: type[Message], value: str, path: str) -> None:
        tagged = []
        for field in cls.SCHEMA.fields:
            expression = f"{value}.{field.name}"
            inner_path = f"{path}.{field.name}" if path else field.name
            if not has_version(field.versions, self._version):
                self._refuse(field, expression, inner_path)
            elif field.tag is not None:
                tagged.append(field)
            else:
                self._field(field, expression, inner_path)
        if has_version(cls.SCHEMA.flexible, self._version):
            self._tags(sorted(tagged, key=lambda each: each.tag or 0), value, path)

    def _refuse(self, field: Field, expression: str, path: str) -> None:
        """Write the code that refuses a field which this version does not have.

        An ignorable field, and one with its default, are not refused.
        """
        if not field.ignorable:
            with self._source.block(f"if {self._differs(field, expression)}:"):
                self._source.line(f"raise cannot_carry({self._where(path)}, {expression})")

    def _differs(self, field: Field, expression: str) -> str:
        """Return the source of a condition that is true if a field is not at its default."""
        if field.struct is not None and not field.is_array:
            default = self._source.constant("default", field.struct, field.struct())
            if field.default is ... or has_version(field.nullable, self._version):
                return (
                    f"{expression} != {default}"
                    if field.default is ...
                    else f"{expression} is not None"
                )
            return f"{expression} is not None and {expression} != {default}"
        if field.default is None:
            return f"{expression} is not None"
        if field.is_array:
            return (
                f"{expression} is None or len({expression}) > 0"
                if field.nullable
                else f"len({expression}) > 0"
            )
        return (
            f"{expression} !="
            f" {'NO_UUID' if isinstance(field.default, UUID) else repr(field.default)}"
        )

    def _field(self, field: Field, expression: str, path: str) -> None:
        if field.is_array:
            self._array(field, expression, path)
        elif field.wire_type == "struct":
            self._struct_field(field, expression, path)
        elif field.wire_type in FIXED_FORMATS:
            self._run.append(
                (
                    FIXED_FORMATS[field.wire_type],
                    f"{expression}.bytes" if field.wire_type == "uuid" else expression,
                )
            )
        else:
            self._sized(field, expression, path)

    def _not_null(self, field: Field, value: str, path: str) -> None:
        """Write the code that refuses None, if the class allows None and this version does not."""
        if field.nullable or field.default is None:
            with self._source.block(f"if {value} is None:"):
                self._source.line(f"raise null_value({self._where(path)})")

    def _length(self, field: Field, length: str, short: str, path: str) -> None:
        """Write the code that encodes a length, together with the fixed values before it.

        A length of -1 means null.
        """
        source = self._source
        if not self._is_flexible(field):
            self._run.append((short, length))
            self._flush()
            return
        run, self._run = self._run, []
        source.line(f"{length} += 1")
        with source.block(f"if {length} < 128:"):
            source.line(
                f"out += {self._packed([*run, ('B', length)])}" if run else f"out.append({length})"
            )
        with source.block("else:"):
            if short == "h":
                with source.block(f"if {length} > {reader.MAX_STRING_BYTES + 1}:"):
                    source.line(f"raise too_long({self._where(path)}, {length} - 1)")
            if run:
                source.line(f"out += {self._packed(run)}")
            source.line(f"out += uvarint({length})")

    def _sized(self, field: Field, expression: str, path: str) -> None:
        """Write the code that encodes a string, bytes or records: a length and that many bytes."""
        source = self._source
        value, length = source.name("v"), source.name("n")
        is_text = field.wire_type == "string"
        nullable = has_version(field.nullable, self._version)
        source.line(f"{value} = {expression}")
        if nullable:
            with source.block(f"if {value} is None:"):
                source.line(f"{length} = -1")
            with source.block("else:"):
                self._measure(value, length, is_text=is_text)
        else:
            self._not_null(field, value, path)
            self._measure(value, length, is_text=is_text)
        self._length(field, length, "h" if is_text else "i", path)
        if field.wire_type == "records":
            # No chunk for no bytes, of which a response may have very many. An empty slice of a
            # file is a chunk, because it has to be released.
            with source.block(f"if {value} or type({value}) not in PLAIN:"):
                self._records_chunk(value)
        elif nullable:
            with source.block(f"if {value}:"):
                source.line(f"out += {value}")
        else:
            source.line(f"out += {value}")

    def _measure(self, value: str, length: str, *, is_text: bool) -> None:
        if is_text:
            self._source.line(f"{value} = {value}.encode()")
        self._source.line(f"{length} = len({value})")

    def _records_chunk(self, value: str) -> None:
        self._source.line("chunks.append(out)")
        self._source.line(f"chunks.append({value})")
        self._source.line("out = bytearray()")

    def _struct_field(self, field: Field, expression: str, path: str) -> None:
        assert field.struct is not None
        source = self._source
        inner = source.name("s")
        source.line(f"{inner} = {expression}")
        if not has_version(field.nullable, self._version):
            self._not_null(field, inner, path)
            self._struct(field.struct, inner, path)
            return
        self._flush()
        with source.block(f"if {inner} is None:"):
            # Kafka marks a null struct by 0 if it is tagged, else by -1.
            source.line(f"out.append({255 if field.tag is None else 0})")
        with source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(field.struct, inner, path)
            self._flush()

    def _array(self, field: Field, expression: str, path: str) -> None:
        source = self._source
        value, count = source.name("a"), source.name("count")
        source.line(f"{value} = {expression}")
        if has_version(field.nullable, self._version):
            source.line(f"{count} = -1 if {value} is None else len({value})")
        else:
            self._not_null(field, value, path)
            source.line(f"{count} = len({value})")
        self._length(field, count, "i", path)
        element = field.element_type
        with source.block(f"if {value}:"):
            if element in FIXED_FORMATS and element != "uuid":
                source.line(f'out += pack(f">{{len({value})}}{FIXED_FORMATS[element]}", *{value})')
                return
            inner = source.name("e")
            with source.block(f"for {inner} in {value}:"):
                if field.struct is not None:
                    self._struct(field.struct, inner, path)
                else:
                    self._field(
                        Field(
                            name=field.name,
                            wire_type=element,
                            versions=field.versions,
                            flexible=field.flexible,
                        ),
                        inner,
                        path,
                    )
                self._flush()
                source.line("pass")

    def _tags(self, tagged: list[Field], value: str, path: str) -> None:
        """Write the code that encodes the tagged fields at the end of a flexible struct.

        A field at its default is not encoded.
        """
        source = self._source
        if not tagged:
            self._run.append(("x", ""))
            return
        self._flush()
        present = []
        for field in tagged:
            inner, flag = source.name("v"), source.name("has")
            source.line(f"{inner} = {value}.{field.name}")
            source.line(f"{flag} = {self._differs(field, inner)}")
            present.append((field, inner, flag))
        with source.block(f"if {' or '.join(flag for _, _, flag in present)}:"):
            source.line(f"out.append({' + '.join(flag for _, _, flag in present)})")
            for field, inner, flag in present:
                with source.block(f"if {flag}:"):
                    self._tag(field, inner, f"{path}.{field.name}" if path else field.name)
        with source.block("else:"):
            source.line("out.append(0)")

    def _tag(self, field: Field, value: str, path: str) -> None:
        source = self._source
        outer = source.name("outer")
        source.line(f"{outer} = out")
        source.line("out = bytearray()")
        self._field(field, value, path)
        self._flush()
        source.line(f"{outer} += uvarint({field.tag})")
        source.line(f"{outer} += uvarint(len(out))")
        source.line(f"{outer} += out")
        source.line(f"out = {outer}")
