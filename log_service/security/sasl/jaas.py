"""The parser of ``sasl.jaas.config``, which follows Java's ``JaasConfig``.

A text holds one login module, a control flag and options: ``<class> <flag> (<key>=<value>)* ;``.
Keys and values are words or quoted. A word begins with a letter, ``_`` or ``$``; digits, ``-`` and
``.`` may follow. A quoted text is enclosed in ``"`` or ``'`` on one line and may have C's escapes.
A slash outside quotes begins a comment: up to ``*/`` after ``/*``, else up to the end of the line.
If a key occurs several times, its last value counts.

Only the login modules of PLAIN, SCRAM and OAUTHBEARER are known. Any other class is refused.

Invariant: no error quotes the text, because any part may be a password. An error names the position
and the remedy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        PLAIN_MODULE: ("PLAIN",),
        SCRAM_MODULE: ("SCRAM-SHA-256", "SCRAM-SHA-512"),
        OAUTHBEARER_MODULE: ("OAUTHBEARER",),
    }
)
"""The supported login modules, with the mechanisms of each."""

FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
ESCAPES: Mapping[str, str] = MappingProxyType(
    {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
)
MAX_TEXT_LENGTH: Final = 1 << 20
"""The most characters of one JAAS text. It may list users, with one option each."""

_DIGITS: Final = frozenset("0123456789")
_OCTAL: Final = frozenset("01234567")
_NUMBER_STARTS: Final = _DIGITS | {".", "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JaasEntry:
    """One login module with its options.

    Option values are secrets, because passwords are among them.
    """

    login_module: str
    flag: str
    options: Mapping[str, SecretText] = field(repr=False)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms of the login module."""
        return MODULES[self.login_module]

    def option(self, name: str) -> str | None:
        """Return the value of an option, or None if it is absent."""
        value = self.options.get(name)
        return None if value is None else value.reveal()

    def plain_users(self) -> dict[str, SecretText]:
        """Return the passwords of the users given as ``user_<name>``, by user name."""
        prefix = "user_"
        return {
            name[len(prefix) :]: value
            for name, value in self.options.items()
            if name.startswith(prefix)
        }


class _Token(NamedTuple):
    """A word, a quoted text, or any other single character.

    ``kind`` is ``text``, ``number``, or the character itself.
    """

    kind: str
    text: str
    position: int


def parse_jaas(text: str) -> JaasEntry:
    """Return the entry of a JAAS text.

    Raises:
        ConfigError: the text is not a JAAS entry, or names a login module that cannot run here.
    """
    if len(text) > MAX_TEXT_LENGTH:
        raise ConfigError(
            f"the JAAS text has {len(text)} characters; at most {MAX_TEXT_LENGTH} are read"
        )
    tokens = list(_tokens(text))
    if not tokens:
        raise ConfigError(
            "the JAAS text is empty; it must be <login module class> required <key>=<value> ... ;"
        )
    module = _text_of(tokens, 0, "the class of the login module is missing")
    flag = _text_of(
        tokens, 1, "the control flag is missing after the login module's class; write required"
    )
    if flag.lower() not in FLAGS:
        raise _error(
            tokens[1].position,
            "the control flag must be one of required, requisite, sufficient, optional",
        )
    options, end = _options(tokens)
    if end + 1 < len(tokens):
        raise _error(
            tokens[end + 1].position,
            "there is more after the semicolon; a JAAS text of a key holds one login module",
        )
    _validate_module(module)
    return JaasEntry(login_module=module, flag=flag.lower(), options=MappingProxyType(options))


def _validate_module(module: str) -> None:
    if module not in MODULES:
        name = module.rpartition(".")[2]
        if name == "Krb5LoginModule":
            raise ConfigError(
                "the JAAS text names Krb5LoginModule: GSSAPI (Kerberos) is not there; use"
                " SCRAM-SHA-512, OAUTHBEARER or mTLS"
            )
        raise ConfigError(
            "the JAAS text names a login module that cannot run here; it must be one of"
            f" {', '.join(MODULES)}"
        )


def _options(tokens: list[_Token]) -> tuple[dict[str, SecretText], int]:
    """Return the options, and the index of the semicolon after them."""
    options: dict[str, SecretText] = {}
    at = 2
    while at < len(tokens) and tokens[at].kind != ";":
        key = _text_of(tokens, at, "an option's key is missing")
        if at + 1 >= len(tokens) or tokens[at + 1].kind != "=":
            raise _error(
                tokens[min(at + 1, len(tokens) - 1)].position, "= is missing after an option's key"
            )
        options[key] = SecretText(_text_of(tokens, at + 2, "an option's value is missing"))
        at += 3
    if at >= len(tokens):
        raise ConfigError(
            "the JAAS text does not end with a semicolon; note that / outside of quotes begins a"
            " comment"
        )
    return options, at


def _text_of(tokens: list[_Token], index: int, complaint: str) -> str:
    if index >= len(tokens):
        raise ConfigError(f"the JAAS text ends early: {complaint}")
    token = tokens[index]
    if token.kind == "number":
        raise _error(
            token.position,
            "a word begins with a digit, a point or a minus, which is read as a number; put it in"
            " quotes",
        )
    if token.kind != "text":
        raise _error(
            token.position,
            f"{complaint}; a value with other characters than letters, digits, _ - . $ must stand"
            " in quotes",
        )
    return token.text


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        character = text[position]
        if character <= " ":
            position += 1
        elif character == "/":
            position = _comment_end(text, position)
        elif character in "\"'":
            value, end = _quoted(text, position)
            yield _Token("text", value, position)
            position = end
        elif character in _NUMBER_STARTS:
            yield _Token("number", "", position)
            position = _word_end(text, position)
        elif _begins_word(character):
            end = _word_end(text, position)
            yield _Token("text", text[position:end], position)
            position = end
        else:
            yield _Token(character, "", position)
            position += 1


def _begins_word(character: str) -> bool:
    """Whether Java's tokenizer treats a character as a letter.

    All characters from U+00A0 on count as letters.
    """
    return (
        (character.isascii() and character.isalpha()) or character in "_$" or character >= "\u00a0"
    )


def _word_end(text: str, position: int) -> int:
    while position < len(text) and (
        _begins_word(text[position]) or text[position] in _NUMBER_STARTS
    ):
        position += 1
    return position


def _comment_end(text: str, position: int) -> int:
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    ends = [end for end in (text.find("\n", position), text.find("\r", position)) if end >= 0]
    return min(ends, default=len(text))


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Return the quoted text that begins at ``start``, and the position after it."""
    quote = text[start]
    parts: list[str] = []
    position = start + 1
    while position < len(text) and text[position] not in "\r\n":
        character = text[position]
        if character == quote:
            return "".join(parts), position + 1
        if character == "\\" and position + 1 < len(text):
            part, position = _escaped(text, position + 1)
            parts.append(part)
        else:
            parts.append(character)
            position += 1
    raise _error(
        start, "a quote is not closed on its line; write \\n for a line break inside quotes"
    )


def _escaped(text: str, position: int) -> tuple[str, int]:
    """Return the character of an escape, and the position after it.

    An escape is one to three octal digits, or one character.
    """
    character = text[position]
    if character not in _OCTAL:
        return ESCAPES.get(character, character), position + 1
    longest = 3 if character <= "3" else 2
    end = position + 1
    while end < len(text) and end < position + longest and text[end] in _OCTAL:
        end += 1
    return chr(int(text[position:end], 8)), end


def _error(position: int, complaint: str) -> ConfigError:
    return ConfigError(f"the JAAS text is wrong at character {position + 1}: {complaint}")
