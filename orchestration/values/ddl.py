"""Parses the schema of a topic's values from Spark's DDL, when the topic is declared.

So Spark need not be started to find a typing error. A schema is ``id BIGINT NOT NULL, price
DECIMAL(10,2), tags ARRAY<STRING>, place STRUCT<city: STRING>`` and so on: names (in backquotes if
they have other characters than letters, digits and underscores), a type, NOT NULL and COMMENT
'text'. Decides which types a topic may declare. ``TYPES`` lists them. Invariant: the fields are
those that Spark would have read.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from pyspark.sql import types

TOKEN = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)+`|\w+)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<mark>[<>(),:]))""",
    re.ASCII,
)
MAX_DECIMAL_DIGITS = 38
TYPES: dict[str, Callable[[], types.DataType]] = {
    "BOOLEAN": types.BooleanType,
    "TINYINT": types.ByteType,
    "BYTE": types.ByteType,
    "SMALLINT": types.ShortType,
    "SHORT": types.ShortType,
    "INT": types.IntegerType,
    "INTEGER": types.IntegerType,
    "BIGINT": types.LongType,
    "LONG": types.LongType,
    "FLOAT": types.FloatType,
    "REAL": types.FloatType,
    "DOUBLE": types.DoubleType,
    "STRING": types.StringType,
    "BINARY": types.BinaryType,
    "DATE": types.DateType,
    "TIMESTAMP": types.TimestampType,
    "TIMESTAMP_LTZ": types.TimestampType,
    "TIMESTAMP_NTZ": types.TimestampNTZType,
    "VARIANT": types.VariantType,
}
"""Types without parameters."""
DECIMAL, ARRAY, MAP, STRUCT = ("DECIMAL", "DEC", "NUMERIC"), "ARRAY", "MAP", "STRUCT"
KNOWN = (*TYPES, *DECIMAL, ARRAY, MAP, STRUCT)


class SchemaError(ValueError):
    """A schema cannot be read. The text names the field and the wrong word."""


@lru_cache
def parse_ddl(ddl: str) -> types.StructType:
    """Return the fields that ``ddl`` declares.

    :raises SchemaError: ``ddl`` is not a schema.
    """
    words = _Words(ddl)
    fields = types.StructType(list(_fields(words, end="")))
    words.validate_end()
    return fields


@dataclass(frozen=True, slots=True)
class _Word:
    """A token: a name, a text in quotes or a punctuation mark, or empty at the schema's end."""

    text: str
    is_quoted: bool = False

    @property
    def upper(self) -> str:
        return "" if self.is_quoted else self.text.upper()


class _Words:
    def __init__(self, ddl: str) -> None:
        self._words = list(_split(ddl))
        self._at = 0

    def peek(self) -> _Word:
        return self._words[self._at] if self._at < len(self._words) else _Word("")

    def take(self) -> _Word:
        word = self.peek()
        self._at += 1
        return word

    def take_if(self, *upper: str) -> bool:
        """Consume the next words if they equal ``upper``, and return whether they did."""
        if tuple(one.upper for one in self._words[self._at : self._at + len(upper)]) != upper:
            return False
        self._at += len(upper)
        return True

    def expect(self, mark: str, where: str) -> None:
        found = self.take()
        if found.upper != mark:
            raise SchemaError(f"{where}: {_shown(found)} stands where {mark!r} has to be")

    def validate_end(self) -> None:
        if self.peek().text:
            raise SchemaError(f"{_shown(self.peek())} stands behind the end of the schema")


def _split(ddl: str) -> Iterator[_Word]:
    place, end = 0, len(ddl.rstrip())
    while place < end:
        found = TOKEN.match(ddl, place)
        if found is None:
            raise SchemaError(f"nothing can be made of {ddl[place:].strip()[:20]!r}")
        place = found.end()
        text = found[0].strip()
        if text.startswith("`"):
            yield _Word(text[1:-1].replace("``", "`"), is_quoted=True)
        elif found["text"] is not None:
            yield _Word(re.sub(r"\\(.)", r"\1", text[1:-1]), is_quoted=True)
        else:
            yield _Word(text)


def _shown(word: _Word) -> str:
    return repr(word.text) if word.text else "the end"


def _fields(words: _Words, end: str, path: str = "") -> Iterator[types.StructField]:
    """Yield fields up to the token ``end``, which is not consumed."""
    seen: set[str] = set()
    while True:
        name = words.take()
        if not name.is_quoted and not re.fullmatch(r"\w+", name.text):
            raise SchemaError(
                f"{_shown(name)} stands where {'a field of ' + path if path else 'a field'} has"
                " to be"
            )
        full = f"{path}.{name.text}" if path else name.text
        if name.text.lower() in seen:
            raise SchemaError(f"field {full} is declared twice")
        seen.add(name.text.lower())
        yield _field(words, name.text, full)
        if words.peek().upper == end:
            return
        words.expect(",", f"after field {full}")


def _field(words: _Words, name: str, full: str) -> types.StructField:
    words.take_if(":")
    kind = _type(words, f"field {full}", full)
    is_required = words.take_if("NOT", "NULL")
    metadata = {}
    if words.take_if("COMMENT"):
        comment = words.take()
        if not comment.is_quoted:
            raise SchemaError(f"field {full}: a COMMENT is a text in quotes, not {_shown(comment)}")
        metadata["comment"] = comment.text
    return types.StructField(name, kind, nullable=not is_required, metadata=metadata)


def _type(words: _Words, where: str, path: str) -> types.DataType:
    word = words.take()
    name = word.upper
    if name in TYPES:
        return TYPES[name]()
    if name in DECIMAL:
        return _decimal(words, where)
    if name == ARRAY:
        words.expect("<", where)
        element = _type(words, where, f"{path}[]")
        words.expect(">", where)
        return types.ArrayType(element)
    if name == MAP:
        words.expect("<", where)
        key = _type(words, where, path)
        if not isinstance(key, types.StringType):
            raise SchemaError(
                f"{where}: the keys of a JSON object are texts, so they have to be STRING"
            )
        words.expect(",", where)
        value = _type(words, where, f"{path}[]")
        words.expect(">", where)
        return types.MapType(key, value)
    if name == STRUCT:
        words.expect("<", where)
        struct = types.StructType(list(_fields(words, ">", path)))
        words.expect(">", where)
        return struct
    near = get_close_matches(name, KNOWN, 1)
    advice = f"; did you mean {near[0]}?" if near else f": a type is one of {', '.join(KNOWN)}"
    raise SchemaError(
        f"{where}: there is no type {word.text}{advice}" if word.text else f"{where} has no type"
    )


def _decimal(words: _Words, where: str) -> types.DecimalType:
    if not words.take_if("("):
        return types.DecimalType(10, 0)
    digits = [_whole(words, where)]
    if words.take_if(","):
        digits.append(_whole(words, where))
    words.expect(")", where)
    precision, scale = (*digits, 0)[:2]
    if not 0 <= scale <= precision <= MAX_DECIMAL_DIGITS or not precision:
        raise SchemaError(
            f"{where}: a DECIMAL has up to {MAX_DECIMAL_DIGITS} digits, and no more of them behind"
            " the point"
        )
    return types.DecimalType(precision, scale)


def _whole(words: _Words, where: str) -> int:
    word = words.take()
    if not word.upper.isdecimal():
        raise SchemaError(f"{where}: {_shown(word)} stands where a number of digits has to be")
    return int(word.text)
