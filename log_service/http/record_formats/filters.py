"""Parses and evaluates filters of records: comparisons joined by ``and``, with bounded cost.

    key = 42 and value.customer.country ~ de and header.trace = abc

``=`` is equality, and ``~`` is containment without regard to case. ``!=`` and
``!~`` are their opposites. A path leads through JSON objects by key, and through arrays by index.
There are no regular expressions, because matching a client's expression may never end.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from log_service.http.record_formats.json_text import contains_folded, json_text
from log_service.http.server.values import HttpError

MAX_FILTER_CHARACTERS = 1_000
MAX_COMPARISONS = 10
MAX_PATH_PARTS = 20
COMPARISON = re.compile(
    r"""\s*(?P<path>(?:key|value|header|partition|offset)(?:\.[^\s.=~!]+)*)\s*(?P<operator>!?[=~])\s*"""
    r"""(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"=~!]\S*))\s*""",
)
NUMBERS = frozenset({"partition", "offset"})
JOINT = re.compile(r"and\s+", re.IGNORECASE)
USUAL = (
    'write key = 42 and value.country ~ "de", or value ~ text;'
    " the operators are = != ~ !~, and a text that begins with one stands in double quotes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison. ``path`` begins with key, value, header, partition or offset."""

    path: tuple[str, ...]
    operator: str
    wanted: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filterable:
    """The parts of a record that a filter can compare, as JSON values.

    With ``is_long`` the filter is evaluated in another thread.
    """

    partition: int
    offset: int
    key: Any
    value: Any
    headers: Mapping[str, str]
    is_long: bool = False


def parse_filter(text: str) -> tuple[Comparison, ...]:
    """Return the comparisons of a filter. An empty filter has none.

    Raises:
        HttpError: 400, the filter is too long, or a comparison is malformed.
    """
    if len(text) > MAX_FILTER_CHARACTERS:
        raise HttpError(400, f"a filter has at most {MAX_FILTER_CHARACTERS} characters")
    found: list[Comparison] = []
    position, rest = 0, text.rstrip()
    while position < len(rest):
        match = COMPARISON.match(rest, position)
        if match is None:
            raise HttpError(400, f"the filter is not clear at {rest[position:][:40]!r}: {USUAL}")
        bare, quoted = match["bare"], match["quoted"]
        wanted = bare if bare is not None else re.sub(r"\\(.)", r"\1", quoted)
        path = tuple(match["path"].split("."))
        if len(path) > MAX_PATH_PARTS:
            raise HttpError(400, f"a path of a filter has at most {MAX_PATH_PARTS} parts")
        if path[0] in NUMBERS:
            wanted = _number_at(path, wanted)
        found.append(Comparison(path=path, operator=match["operator"], wanted=wanted))
        position = match.end()
        if position < len(rest):
            joint = JOINT.match(rest, position)
            if joint is None:
                text = f"the filter is not clear at {rest[position:][:40]!r}: join with and"
                raise HttpError(400, text)
            position = joint.end()
    if len(found) > MAX_COMPARISONS:
        raise HttpError(400, f"a filter has at most {MAX_COMPARISONS} comparisons")
    return tuple(found)


def _number_at(path: tuple[str, ...], wanted: str) -> str:
    """Return the number that a partition or an offset is compared with, as normal decimal text.

    Raises:
        HttpError: 400, the path has further parts, or the text is not a number.
    """
    if len(path) > 1:
        raise HttpError(400, f"a filter has no {'.'.join(path)[:40]}: {path[0]} is a number")
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 20):
        text = f"a filter compares {path[0]} with {wanted[:40]!r}: write a whole number"
        raise HttpError(400, text)
    return str(int(wanted))


def matches(comparisons: Sequence[Comparison], record: Filterable) -> bool:
    """Return whether a record satisfies all comparisons."""
    texts: dict[tuple[str, ...], str] = {}
    return all(_satisfies(each, record, texts) for each in comparisons)


def needs_decoding(comparisons: Sequence[Comparison]) -> bool:
    """Return whether a filter compares a key or a value."""
    return any(each.path[0] in {"key", "value"} for each in comparisons)


def _satisfies(
    comparison: Comparison, record: Filterable, known: dict[tuple[str, ...], str]
) -> bool:
    """Return whether a record satisfies a comparison. ``known`` caches the texts at paths."""
    kind, *rest = path = comparison.path
    if kind == "header":
        name = ".".join(rest)
        texts = [record.headers[name]] if name in record.headers else []
        if not rest:
            texts = [f"{key}={value}" for key, value in record.headers.items()]
        is_found = any(_compare(comparison, text) for text in texts)
    else:
        is_there, found = _at(getattr(record, kind), rest)
        if is_there and path not in known:
            is_text = isinstance(found, str)
            known[path] = found if is_text else json_text(found, is_long=record.is_long)
        is_found = is_there and _compare(comparison, known[path])
    return is_found != comparison.operator.startswith("!")


def _compare(comparison: Comparison, text: str) -> bool:
    if comparison.operator.endswith("="):
        return text == comparison.wanted
    return contains_folded(text, comparison.wanted)


def _at(value: Any, path: Sequence[str]) -> tuple[bool, Any]:
    """Return whether there is a value at a path, and the value, or None without one."""
    for part in path:
        if isinstance(value, Mapping):
            if part not in value:
                return False, None
            value = value[part]
        elif isinstance(value, list):
            if not (part.isascii() and part.isdigit() and int(part) < len(value)):
                return False, None
            value = value[int(part)]
        else:
            return False, None
    return True, value
