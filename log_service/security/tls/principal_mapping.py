"""Rules that map a certificate's name to a user: ``ssl.principal.mapping.rules`` (KIP-371).

Rules are separated by commas or line ends. The first match decides. ``DEFAULT`` takes the name
unchanged. ``RULE:pattern/replacement/`` matches the whole name and replaces it. ``$1`` is a group.
``/L`` and ``/U`` change the case of the result. A name that matches no rule is refused, so rules
must end with ``DEFAULT`` to accept every certificate.

Patterns are compiled by RE2, while Apache Kafka uses Java's expressions. RE2 takes time in
proportion to the name. An expression that RE2 lacks (look-ahead, back reference) is refused at the
start.

Invariant: parsing refuses every error. Applying rules fails only if no rule matches.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from log_service.common.errors import ConfigError

RULE = re.compile(
    r"RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
)
SEPARATOR = re.compile(r"\s*(?:[,\n]\s*|$)")
DEFAULT = "DEFAULT"


class NoRuleMatchesError(Exception):
    """No rule matches a name, so the client has no principal here."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. If ``pattern`` is None, the rule takes every name unchanged."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the rule's result for a name, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        count = self.pattern.groups
        changed: str = self.pattern.sub(
            lambda match: expanded(self.replacement, match.group, count), name
        )
        return (
            changed.lower()
            if self.case == "L"
            else changed.upper()
            if self.case == "U"
            else changed
        )


class PrincipalMapping:
    """The rules of one listener, parsed from the text of the key.

    Raises:
        ConfigError: the text is not a list of rules.
    """

    def __init__(self, text: str) -> None:
        self._rules = parse_rules(text)

    def __repr__(self) -> str:
        return f"<PrincipalMapping rules={len(self._rules)}>"

    def user_of(self, name: str) -> str:
        """Return the user's name for the name in a certificate.

        Raises:
            NoRuleMatchesError: no rule matches.
        """
        for rule in self._rules:
            user = rule.apply(name)
            if user is not None:
                return user
        raise NoRuleMatchesError(f"no rule of ssl.principal.mapping.rules matches {name}")


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text, at least one.

    Raises:
        ConfigError: a rule is neither DEFAULT nor RULE:pattern/replacement/, or its pattern is not
            valid.
    """
    rules, text, position = [], text.strip(), 0
    while position < len(text):
        rule, position = _rule_at(text, position)
        rules.append(rule)
        separator = SEPARATOR.match(text, position)
        if separator is None:
            raise ConfigError(
                f"ssl.principal.mapping.rules has {text[position:]!r} behind a rule; rules are"
                " separated by commas"
            )
        position = separator.end()
    return tuple(rules) or (Rule(),)


def _rule_at(text: str, position: int) -> tuple[Rule, int]:
    if text.startswith(DEFAULT, position):
        return Rule(), position + len(DEFAULT)
    match = RULE.match(text, position)
    if match is None:
        expected = "each rule is DEFAULT or RULE:pattern/replacement/, with L or U behind it"
        raise ConfigError(f"ssl.principal.mapping.rules holds {text[position:]!r}; {expected}")
    return Rule(_compiled(match["pattern"]), match["replacement"], match["case"]), match.end()


def _compiled(pattern: str) -> Any:
    import re2  # noqa: PLC0415 - few listeners have rules

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ConfigError(
            f"ssl.principal.mapping.rules: {pattern!r} is not an expression in RE2's syntax:"
            f" {error}"
        ) from error


def expanded(replacement: str, group: Callable[[int], str | None], group_count: int) -> str:
    """Return a replacement with its groups filled in, as Java does.

    ``\\x`` is x. ``$12`` is group 1 followed by a 2 if the pattern has two groups. A group that the
    pattern lacks stays as written.
    """
    parts, position = [], 0
    while position < len(replacement):
        letter = replacement[position]
        if letter == "\\" and position + 1 < len(replacement):
            parts.append(replacement[position + 1])
            position += 2
            continue
        number, end = (
            _group_at(replacement, position + 1, group_count) if letter == "$" else (-1, position)
        )
        parts.append(letter if number < 0 else group(number) or "")
        position = position + 1 if number < 0 else end
    return "".join(parts)


def _group_at(replacement: str, position: int, group_count: int) -> tuple[int, int]:
    number = -1
    while position < len(replacement) and replacement[position] in "0123456789":
        longer = max(number, 0) * 10 + int(replacement[position])
        if longer > group_count:
            break
        number, position = longer, position + 1
    return number, position
