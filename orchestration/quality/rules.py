"""Rules on rows: SQL conditions that are compiled to one Spark SQL column of bits.

Decides which rows violate which rules, and the consequence: a warning, a dead letter, or no commit.
A condition that is NULL passes, as in an SQL CHECK. Write ``carrier IS NOT NULL`` to refuse nulls.
Knows no table and no Dagster.
Invariants: names are unique in a transform. Bit i of the violations column is rule i.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from log_service.common.counts import agreed, counted
from orchestration.quality.conditions import validate_condition

VIOLATIONS_COLUMN = "_violations"
MAX_RULES = 62
CHECK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")

Bits = npt.NDArray[np.int64]


class Severity(StrEnum):
    """The consequence when a row violates a rule."""

    WARN = "warn"
    QUARANTINE = "quarantine"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition that the rows of a result should meet.

    ``condition`` is Spark SQL over the columns of the result.
    """

    name: str
    condition: str
    severity: Severity
    description: str = ""

    def __post_init__(self) -> None:
        validate_check_name(self.name)
        validate_condition(f"rule {self.name}", self.condition)


def warn(name: str, condition: str, description: str = "") -> Rule:
    """Declare a rule whose violations are counted and shown. The rows are committed."""
    return Rule(name=name, condition=condition, severity=Severity.WARN, description=description)


def quarantine(name: str, condition: str, description: str = "") -> Rule:
    """Declare a rule whose violations send the record to the dead letters, with the rule's name."""
    return Rule(
        name=name, condition=condition, severity=Severity.QUARANTINE, description=description
    )


def fail(name: str, condition: str, description: str = "") -> Rule:
    """Declare a rule that stops the run before the commit when one row violates it."""
    return Rule(name=name, condition=condition, severity=Severity.FAIL, description=description)


def validate_check_name(name: str) -> None:
    """Refuse a name that Dagster does not allow for an asset check.

    :raises ValueError: names the name.
    """
    if not CHECK_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a check's name: letters, digits and underscores, starting with a"
            " letter"
        )


def validate_rules(rules: Sequence[Rule], *, is_quarantine_possible: bool) -> None:
    """Refuse repeated names, too many rules, and quarantine rules where they are not possible.

    A row can be quarantined only if it comes from a single record.

    :raises ValueError: says which rule.
    """
    names = [rule.name for rule in rules]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"rules need names of their own: {', '.join(repeated)} is there more than once"
        )
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} rules are too many for one transform: at most {MAX_RULES}")
    astray = [rule.name for rule in rules if rule.severity is Severity.QUARANTINE]
    if astray and not is_quarantine_possible:
        raise ValueError(
            f"a table from tables has no records to put aside: make {', '.join(astray)} a warn or"
            " fail rule"
        )


def violations_sql(rules: Sequence[Rule]) -> str:
    """Return the Spark SQL expression of a BIGINT whose bit i is set if rule i is violated."""
    terms = [
        f"CASE WHEN NOT ({rule.condition}) THEN {1 << position}L ELSE 0L END"
        for position, rule in enumerate(rules)
    ]
    return " + ".join(terms) if terms else "0L"


def count_violations(rules: Sequence[Rule], violations: Bits) -> dict[str, int]:
    """Return the number of rows that violate each rule, by name."""
    return {
        rule.name: int(np.count_nonzero(violations & (1 << position)))
        for position, rule in enumerate(rules)
    }


def quarantined(rules: Sequence[Rule], violations: Bits) -> npt.NDArray[np.bool_]:
    """Return which rows violate a quarantine rule."""
    mask = sum(
        1 << position for position, rule in enumerate(rules) if rule.severity is Severity.QUARANTINE
    )
    broken: npt.NDArray[np.bool_] = np.not_equal(violations & mask, 0)
    return broken


def first_quarantine_rule(rules: Sequence[Rule], violations: int) -> Rule:
    """Return the first quarantine rule that a row with these ``violations`` breaks.

    The row has to break one.
    """
    return next(
        rule
        for position, rule in enumerate(rules)
        if rule.severity is Severity.QUARANTINE and violations & (1 << position)
    )


def broken_rules(rules: Iterable[Rule], counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return a sentence on each rule of severity FAIL that at least one row violates."""
    broken = [(rule, counts.get(rule.name, 0)) for rule in rules if rule.severity is Severity.FAIL]
    return tuple(
        f"rule {rule.name}: {counted(count, 'row')} {agreed(count, 'violates', 'violate')}"
        f" {rule.condition}"
        for rule, count in broken
        if count > 0
    )
