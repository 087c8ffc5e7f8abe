"""Regular expressions from clients: whether one is valid, and which texts it matches.

Consumers subscribe to topics by them (KIP-848), transactions are listed by them, and they choose
which clients push metrics (KIP-714). The syntax is RE2's, which has no backreferences. Its time is
proportional to the length of the text and to ``program_size``. This module bounds the cost of
compiling an expression, because ``\\pL`` alone means 650 ranges of letters. The protocol's longest
string, full of ``\\pL``, would take three seconds and 350 MB. Except for a ``searcher``, an
expression must match a text as a whole. The library is imported with the first expression, because
most brokers never get one.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from log_service.common.errors import ErrorCode, KafkaError

Compiled = Any
"""An expression of RE2's Python module, which has no types."""
KEPT_BYTES = 1 << 20
"""The memory of a cached expression.

RE2 fills it with states while it matches. It is enough for an expression with some 5,800 names of
topics.
"""
KEPT_COUNT = 32
"""The number of cached expressions of all clients together.

It is bounded, because clients may send any number of different ones.
"""
SEARCHER_BYTES = 1 << 18
"""What an expression may take that its user keeps."""
LARGEST_BYTES = 8 << 20
"""What an expression may take at all."""
LARGE_COUNT = 2
"""The number of cached expressions above ``KEPT_BYTES``.

They take a quarter of the cache's memory.
"""
MAX_COST = 4_000
"""The bound of the summed costs of an expression's operators.

It is usually a tenth of a second. Names and alternatives cost nothing.
"""
COSTS = {r"\p": 40, r"\P": 40, "{": 4, "?": 1, "*": 1, "+": 1}
"""The cost of operators.

Unicode classes are the most expensive, then repetitions, which may stand for a thousand copies.
"""
_OPERATOR = re.compile(r"\\.|[?*+{]", re.DOTALL)


def validate_regex(regex: str) -> None:
    """Check that an expression is valid and not too large.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION, with the fault.
    """
    _validate_cost(regex)
    _compiled(regex)


def searcher(regex: str) -> Callable[[str], bool]:
    """Return a function that tells whether a text contains a match.

    It is not cached here, so the caller must keep it. It may take up to ``SEARCHER_BYTES`` of
    memory.

    Raises:
        KafkaError: as ``validate_regex``.
    """
    _validate_cost(regex)
    search = compile_in_re2(regex, SEARCHER_BYTES).search
    return lambda text: search(text) is not None


def _validate_cost(regex: str) -> None:
    if sum(COSTS.get(found, 0) for found in _OPERATOR.findall(regex)) > MAX_COST:
        text = (
            f"a regular expression of {len(regex)} characters has too many repetitions, or classes"
            " of Unicode"
        )
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text)


def is_match(regex: str, text: str) -> bool:
    """Whether a valid expression matches a text as a whole."""
    return _compiled(regex).fullmatch(text) is not None


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a valid expression matches as a whole."""
    find = _compiled(regex).fullmatch
    return frozenset(name for name in names if find(name))


def program_size(regex: str) -> int:
    """Return the number of instructions that a valid expression is compiled to.

    At worst all of them run for each character of a text.
    """
    size: int = _compiled(regex).programsize
    return size


def _compiled(regex: str) -> Compiled:
    compiled = _small(regex)
    return _large(regex) if compiled is None else compiled


@lru_cache(KEPT_COUNT)
def _small(regex: str) -> Compiled | None:
    """Return a compiled expression, or None if it is invalid or takes more than ``KEPT_BYTES``.

    The result is cached.
    """
    try:
        return compile_in_re2(regex, KEPT_BYTES)
    except KafkaError:
        return None


@lru_cache(LARGE_COUNT)
def _large(regex: str) -> Compiled:
    return compile_in_re2(regex, LARGEST_BYTES)


def compile_in_re2(regex: str, max_bytes: int) -> Compiled:
    """Return a compiled expression that takes no more than ``max_bytes``."""
    import re2  # noqa: PLC0415 - see the module's opening

    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_bytes
    try:
        compiled = re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as error:
        text = f"the regular expression {regex!r} is not valid in RE2's syntax: {_reason(error)}"
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from error
    re2.purge()  # the library would keep 128 by itself
    return compiled


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
