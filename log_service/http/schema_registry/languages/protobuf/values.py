"""Reads the parts of a ``.proto`` text that all statements share, such as values of options.

A value is a scalar, or an aggregate in the text format.
"""

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from log_service.http.schema_registry.languages.limits import Budget, SchemaLimits
from log_service.http.schema_registry.languages.protobuf.lexer import (
    Lexer,
    Token,
    TokenKind,
    unescaped,
)
from log_service.http.schema_registry.languages.protobuf.number_text import integer_of
from log_service.http.schema_registry.languages.protobuf.source import Source
from log_service.http.schema_registry.languages.protobuf.tree import (
    Aggregate,
    Entry,
    Items,
    Number,
    Quoted,
    Value,
    Word,
)

MAX_DIGITS = 400
"""The length of the longest number: a double has no more digits before its point."""
MAX_NESTING = 100
"""The depth that recursion can bear, whatever the limits say."""
CLOSING = {"{": "}", "<": ">"}
NUMBERS = {TokenKind.INTEGER, TokenKind.FLOAT}


class TokenReader:
    """Reads the parts that all statements share: symbols, names, strings and values."""

    def __init__(self, source: Source, limits: SchemaLimits, budget: Budget) -> None:
        self.lexer = Lexer(source)
        self.source = source
        self.budget = budget
        self._limits = limits
        self._depth = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.lexer!r}>"

    def expected(self, wanted: str) -> InvalidSchemaError:
        """Return an error that says that ``wanted`` was expected at the current token."""
        token = self.lexer.token
        found = token.text[:40] if token.text else token.kind.value
        return self.lexer.error(f"expected {wanted}, found {found}")

    def is_at(self, *texts: str) -> bool:
        """Return whether the current token is one of ``texts``, which are words or symbols."""
        return self.lexer.token.text in texts

    def accept(self, text: str) -> bool:
        """Take the current token if its text is ``text``, and return whether it was."""
        if self.lexer.token.text != text:
            return False
        self.lexer.take()
        return True

    def expect(self, text: str) -> Token:
        """Take and return the current token, whose text must be ``text``."""
        if self.lexer.token.text != text:
            raise self.expected(repr(text))
        return self.lexer.take()

    def expect_kind(self, kind: TokenKind, wanted: str) -> Token:
        """Take and return the current token, which must be of a kind."""
        if self.lexer.token.kind is not kind:
            raise self.expected(wanted)
        return self.lexer.take()

    def name(self, wanted: str = "a name") -> str:
        """Take a name without dots."""
        return self.expect_kind(TokenKind.WORD, wanted).text

    def dotted_name(self, wanted: str, *, may_be_full: bool = True) -> str:
        """Take a name with dots. A full name begins with a dot."""
        parts = ["."] if may_be_full and self.accept(".") else []
        parts.append(self.name(wanted))
        while self.accept("."):
            self.budget.spend()
            parts += [".", self.name(wanted)]
        return "".join(parts)

    def quoted(self, wanted: str = "a string") -> Quoted:
        """Take a string. Adjacent strings are joined."""
        token = self.expect_kind(TokenKind.STRING, wanted)
        pieces = [unescaped(self.source, token)]
        while self.lexer.token.kind is TokenKind.STRING:
            pieces.append(unescaped(self.source, self.lexer.take()))
        return Quoted(data=b"".join(pieces), at=token.at)

    def text(self, wanted: str = "a string") -> str:
        """Take a string that is UTF-8."""
        found = self.quoted(wanted)
        try:
            return found.data.decode()
        except UnicodeDecodeError as error:
            raise self.source.error(found.at, "the string is not UTF-8") from error

    def integer(self, wanted: str = "an integer") -> int:
        """Take an integer without a sign."""
        token = self.expect_kind(TokenKind.INTEGER, wanted)
        if len(token.text) > MAX_DIGITS:
            raise self.source.error(token.at, "the number is out of range")
        return integer_of(token.text)

    def scalar(self) -> Value:
        """Take a word, number or string. A word or number may have a minus sign."""
        token = self.lexer.token
        if token.kind is TokenKind.STRING:
            return self.quoted()
        sign = "-" if self.accept("-") else ""
        if self.lexer.token.kind in NUMBERS:
            if len(self.lexer.token.text) > MAX_DIGITS:
                raise self.lexer.error("the number has too many digits")
            return Number(text=sign + self.lexer.take().text, at=token.at)
        is_word = self.lexer.token.kind is TokenKind.WORD
        if not is_word or (sign and not self.is_at("inf", "nan", "infinity")):
            raise self.expected("a value")
        return Word(text=sign + self.lexer.take().text, at=token.at)

    def value(self) -> Value:
        """Take the value of an option."""
        self.budget.spend()
        if self.is_at("{"):
            return self.aggregate()
        return self.items() if self.is_at("[") else self.scalar()

    def aggregate(self) -> Aggregate:
        """Take a message in braces or angle brackets."""
        opening = self.lexer.take()
        self.enter(opening)
        entries = []
        while not self.accept(CLOSING[opening.text]):
            entries.append(self.entry())
            if not self.accept(","):
                self.accept(";")
        self.leave()
        return Aggregate(entries=tuple(entries), at=opening.at)

    def entry(self) -> Entry:
        """Take ``key: value``. A message or a list of messages needs no colon."""
        self.budget.spend()
        at = self.lexer.token.at
        key = self.bracketed_key() if self.is_at("[") else self.name("a field, or '}'")
        has_colon = self.accept(":")
        if self.is_at(*CLOSING):
            return Entry(key=key, value=self.aggregate(), has_colon=has_colon, at=at)
        if not has_colon and not self.is_at("["):
            raise self.expected("':'")
        value = self.items() if self.is_at("[") else self.scalar()
        return Entry(key=key, value=value, has_colon=has_colon, at=at)

    def bracketed_key(self) -> str:
        """Take ``[name.of.an.extension]``, or ``[a.host/name.of.a.type]``."""
        self.expect("[")
        key = self.dotted_name("the name of an extension", may_be_full=False)
        if self.accept("/"):
            key += "/" + self.dotted_name("the name of a type", may_be_full=False)
        self.expect("]")
        return f"[{key}]"

    def items(self) -> Items:
        """Take a list of values in brackets."""
        opening = self.expect("[")
        self.enter(opening)
        values: list[Value] = []
        while not self.accept("]"):
            if values:
                self.expect(",")
            self.budget.spend()
            values.append(self.aggregate() if self.is_at(*CLOSING) else self.item())
        self.leave()
        return Items(values=tuple(values), at=opening.at)

    def item(self) -> Value:
        """Take one value of a list."""
        return self.items() if self.is_at("[") else self.scalar()

    def enter(self, token: Token, limit: int | None = None) -> None:
        """Count one more level of nesting.

        Raises:
            InvalidSchemaError: the nesting is too deep.
        """
        self._depth += 1
        most = min(self._limits.nesting, limit or MAX_NESTING)
        if self._depth > most:
            raise self.source.error(token.at, f"the nesting is deeper than {most}")

    def leave(self) -> None:
        """Count one level of nesting less."""
        self._depth -= 1
