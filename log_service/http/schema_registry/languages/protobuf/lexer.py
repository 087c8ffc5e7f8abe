"""Splits a ``.proto`` text into tokens, one at a time. Comments and white space are skipped.

The rules are protoc's: no control characters, no nested block comments, a space between a number
and a word. Every pattern is possessive, so that no text costs more than linear time.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.protobuf.source import Source


class TokenKind(StrEnum):
    """A kind of token. The value is its name in errors."""

    WORD = "a name"
    INTEGER = "an integer"
    FLOAT = "a number"
    STRING = "a string"
    SYMBOL = "a symbol"
    END = "the end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token and its position. The text of a string includes the quotes."""

    kind: TokenKind
    text: str
    at: int


KINDS = {kind.name: kind for kind in TokenKind}
BLANK = re.compile(r"(?:[ \t\r\n\v\f]++|//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
COMMENT = re.compile(r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/")
TOKEN = re.compile(
    r"(?P<WORD>[A-Za-z_][A-Za-z0-9_]*+)"
    r"|(?P<INTEGER>0[xX][0-9A-Fa-f]++|0[0-7]*+|[1-9][0-9]*+)(?![0-9A-Za-z_.])"
    r"|(?P<FLOAT>(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
    r"(?![0-9A-Za-z_.])"
    r"|(?P<STRING>\"(?:[^\"\\\n\0]++|\\[^\n])*+\"|'(?:[^'\\\n\0]++|\\[^\n])*+')"
    r"|(?P<SYMBOL>[!#-&(-/:-@\[-`{-~])"
)
ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?'\"])|([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})"
    r"|u([0-9A-Fa-f]{4}(?:(?<=[dD][89abAB][0-9A-Fa-f]{2})\\u[dD][c-fC-F][0-9A-Fa-f]{2})?)"
    r"|U([0-9A-Fa-f]{8})|)"
)
SIMPLE_ESCAPES = {
    "a": b"\a",
    "b": b"\b",
    "f": b"\f",
    "n": b"\n",
    "r": b"\r",
    "t": b"\t",
    "v": b"\v",
}


class Lexer:
    """Reads tokens from a text. ``token`` is the current one."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._text = source.text
        if (zero := self._text.find("\0")) >= 0:
            raise source.error(zero, "the text has a zero byte")
        self.token = self._scan(1 if self._text.startswith("\ufeff") else 0)

    def __repr__(self) -> str:
        return f"<Lexer at {self.token.at} of {len(self._text)}>"

    def take(self) -> Token:
        """Return the current token and go to the next one."""
        token = self.token
        self.token = self._scan(token.at + len(token.text))
        return token

    def error(self, sentence: str) -> InvalidSchemaError:
        """Return an error at the current token."""
        return self.source.error(self.token.at, sentence)

    def _scan(self, start: int) -> Token:
        blank = BLANK.match(self._text, start)
        at = blank.end() if blank else start
        if "/*" in self._text[start:at]:
            self._refuse_nested_comments(start, at)
        if at == len(self._text):
            return Token(kind=TokenKind.END, text="", at=at)
        match = TOKEN.match(self._text, at)
        if match is None or self._text.startswith("/*", at):
            raise self.source.error(at, unreadable(self._text[at : at + 2]))
        return Token(kind=KINDS[match.lastgroup or "END"], text=match.group(), at=at)

    def _refuse_nested_comments(self, start: int, end: int) -> None:
        for comment in COMMENT.finditer(self._text, start, end):
            if comment.group().startswith("/*") and "/*" in comment.group()[2:]:
                raise self.source.error(comment.start(), "a comment has another one in it")


def unreadable(text: str) -> str:
    """Return a sentence that says why a text is not a token."""
    if text == "/*":
        return "the comment does not end"
    if text[0] in "'\"":
        return "the string does not end on its line"
    if text[0].isdecimal() or text[0] == ".":
        return "this is not a number, or a space is missing after it"
    return f"the character {text[0]!a} may stand in strings and comments only"


def unescaped(source: Source, token: Token) -> bytes:
    """Return the bytes that a string token stands for, without its quotes and escapes.

    Raises:
        InvalidSchemaError: an escape is unknown.
    """
    inner = token.text[1:-1]
    pieces, done = [], 0
    for match in ESCAPE.finditer(inner):
        value = escaped_bytes(match)
        if value is None:
            at = token.at + 1 + match.start()
            raise source.error(at, f"{inner[match.start() : match.end() + 1]} is not an escape")
        pieces += [inner[done : match.start()].encode(), value]
        done = match.end()
    return b"".join([*pieces, inner[done:].encode()])


def escaped_bytes(match: re.Match[str]) -> bytes | None:
    """Return the bytes that an escape sequence means, or None if it is unknown."""
    simple, octal, hexadecimal, short, long = match.groups()
    if simple:
        return SIMPLE_ESCAPES.get(simple, simple.encode())
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if short and len(short) > 4:
        pair = bytes.fromhex(short.replace("\\u", ""))
        return pair.decode("utf-16-be").encode()
    code = int(short or long or "-1", 16)
    is_character = 0 <= code < 0xD800 or 0xDFFF < code <= 0x10FFFF
    return chr(code).encode() if is_character else None
