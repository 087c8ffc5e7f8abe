"""Finds the names that a pattern of a schema matches, in bounded time.

Patterns come from clients, and a search by backtracking may take exponential time. RE2 takes time
in proportion to the text, but has no lookaheads and no backreferences, and refuses patterns that
are too large when compiled.
"""

from collections.abc import Collection

from log_service.common.errors import KafkaError
from log_service.common.regexes import matching, program_size, validate_regex
from log_service.http.schema_registry.languages.limits import Budget

COMPILE_STEPS = 10
"""The steps that compiling one character of a pattern costs."""
CLASS_STEPS = 200
"""The steps that compiling a Unicode class costs. A class may have hundreds of ranges."""
SEARCHED_PER_STEP = 10_000
"""How much one step searches.

The unit is one character of a name, times one instruction of the compiled pattern.
"""


def names_that_match(pattern: str, names: Collection[str], budget: Budget) -> Collection[str]:
    """Return the names in which a pattern is found, or none for a pattern that RE2 cannot read."""
    return _found(pattern, names, budget) or ()


def names_that_may_match(pattern: str, names: Collection[str], budget: Budget) -> Collection[str]:
    """Return the names in which a pattern is found, or all for a pattern that RE2 cannot read."""
    found = _found(pattern, names, budget)
    return names if found is None else found


def _found(pattern: str, names: Collection[str], budget: Budget) -> Collection[str] | None:
    budget.spend(COMPILE_STEPS * len(pattern) + CLASS_STEPS * pattern.lower().count(r"\p"))
    anywhere = f"(?s:.*)(?:{pattern})(?s:.*)"
    try:
        validate_regex(anywhere)
        size = program_size(anywhere)
        budget.spend(size * sum(map(len, names)) // SEARCHED_PER_STEP)
        return matching(anywhere, names)
    except KafkaError:
        return None
