"""Declarations of tables: the source of their rows, the function that makes them, and their checks.

Checks a declaration as soon as it is made. Knows no run.
"""

import hashlib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg

from log_service.common.installation_names import TABLE_GROUP_PREFIX
from log_service.config.definition import closest_name
from orchestration.lake.tables import LAKE_PREFIX, RESERVED_NAMES, TABLE_NAME
from orchestration.quality import Rule, Suite
from orchestration.quality.conditions import named_columns, validate_condition
from orchestration.quality.rules import validate_rules
from orchestration.rows.aggregates import Aggregate, validate_aggregates
from orchestration.topics.spec import TopicSpec, validate_topic
from orchestration.transforms.result_columns import result_columns

POOL_PREFIX = "table_"
NO_SUITE = Suite()
DEFAULT_HISTORY_FROM = date(2020, 1, 1)
"""First day of a table's backfill if none is declared.

It is fixed, because a declaration does not ask a broker for the first record of its topic.
"""
MOST_FAILED = 1_000
"""Most failing records that are searched for in one batch. Each costs some twenty Spark jobs."""

Transform = Callable[..., Any]
"""``DataFrame -> DataFrame``, or several DataFrames in the order of the declared tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """A table that follows one topic.

    A limit that is None is taken from the settings. ``history_from`` is the first day of its
    backfill. With ``latest_by`` the table keeps the newest row per value of these columns. With
    ``aggregates`` it keeps a row per value of ``aggregate_by``. With ``has_headers`` the function
    gets the headers of the records as ``_headers``. The function may throw on up to ``max_failed``
    records of a batch (a count, or a share up to 1.0), which become dead letters. None allows no
    failure.
    """

    name: str
    topic: TopicSpec
    function: Transform
    unique_by: tuple[str, ...] = ()
    latest_by: tuple[str, ...] = ()
    deleted_when: str | None = None
    rules: tuple[Rule, ...] = ()
    suite: Suite = NO_SUITE
    is_evolving: bool = False
    minimum_interval_s: int | None = None
    records_per_run: int | None = None
    history_from: date = DEFAULT_HISTORY_FROM
    aggregate_by: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    has_headers: bool = False
    max_failed: float | None = None

    def __post_init__(self) -> None:
        validate_table_name(self.name)
        validate_topic(self.name, self.topic)
        validate_limits(self.name, self.minimum_interval_s, self.records_per_run)
        validate_max_failed(self.name, self.max_failed)
        validate_day(self.name, self.history_from)
        if self.aggregates or self.aggregate_by:
            validate_aggregates(self.name, self.aggregate_by, self.aggregates)
        validate_rules(self.rules, is_quarantine_possible=True)
        validate_suite(self.name, self.suite)
        validate_check_names(self.rules, self.suite)
        validate_parameters(self.name, self.function, 1)
        validate_latest(self)
        validate_known_columns(self)

    @property
    def kept_by(self) -> tuple[str, ...]:
        """Return the key columns of the table, then a text for each of its aggregates.

        It is empty for a table that keeps all rows. The lake table stores these texts, so that
        another declaration is noticed.
        """
        return self.latest_by or (*self.aggregate_by, *map(str, self.aggregates))


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedTable:
    """A table that is computed anew from the latest versions of other tables."""

    name: str
    inputs: tuple[str, ...]
    function: Transform
    rules: tuple[Rule, ...] = ()
    suite: Suite = NO_SUITE

    def __post_init__(self) -> None:
        validate_table_name(self.name)
        validate_rules(self.rules, is_quarantine_possible=False)
        validate_suite(self.name, self.suite)
        validate_check_names(self.rules, self.suite)
        validate_parameters(self.name, self.function, len(self.inputs))
        validate_checked_columns(self.name, self.function, self.rules, self.suite)
        if self.name in self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise ValueError(
                f"the inputs of table {self.name} have to be other tables, each once:"
                f" {', '.join(self.inputs)}"
            )

    @property
    def code_fingerprint(self) -> int:
        """Return a number that changes with the function's source and the rules.

        With another number, the table is computed anew even if its inputs have not changed.
        """
        rules = [(rule.name, rule.condition, rule.severity.value) for rule in self.rules]
        digest = hashlib.sha256(
            repr((_source(self.function), rules, self.inputs)).encode()
        ).digest()
        return int.from_bytes(digest[:7], "big")


def _source(function: Transform) -> str:
    """Return the source code of a transform: its SQL statement if it has one, else its Python."""
    statement: str | None = getattr(function, "statement", None)
    if statement is not None:
        return statement
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return function.__code__.co_code.hex()


def table_key(name: str) -> dg.AssetKey:
    """Return the asset key of the lake table ``name``."""
    return dg.AssetKey([LAKE_PREFIX, name])


def mirror_group(name: str, deployment: str | None) -> str:
    """Return the consumer group that mirrors the checkpoint of the table ``name``.

    Deployments on one cluster have groups of their own.
    """
    return TABLE_GROUP_PREFIX + ".".join(filter(None, [deployment, name]))


def pool_of(name: str) -> str:
    """Return the Dagster pool by which only one run at a time writes the table."""
    return POOL_PREFIX + name


def validate_table_name(name: str) -> None:
    """Refuse a name that cannot be that of a lake table.

    :raises ValueError: says why.
    """
    if not TABLE_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a table's name: letters, digits and underscores, not starting with"
            " a digit"
        )
    if name in RESERVED_NAMES:
        raise ValueError(f"{name} is the lake's own table: give the transform another name")


def one_or_more(
    given: str | dg.AssetsDefinition | Sequence[str | dg.AssetsDefinition],
) -> Sequence[str | dg.AssetsDefinition]:
    """Return the inputs as a sequence. A single asset or name may be given without one."""
    return [given] if isinstance(given, str | dg.AssetsDefinition) else given


def rules_of(rules: Rule | Sequence[Rule]) -> tuple[Rule, ...]:
    """Return rules as a tuple. A single rule may be given without a sequence."""
    return (rules,) if isinstance(rules, Rule) else tuple(rules)


def validate_limits(name: str, minimum_interval_s: int | None, records_per_run: int | None) -> None:
    """Refuse an interval below 0 and a number of records below 1, with which no run could work.

    :raises ValueError: says which.
    """
    if minimum_interval_s is not None and minimum_interval_s < 0:
        raise ValueError(
            f"minimum_interval_s of {name} is {minimum_interval_s}: give seconds, or 0 for a table"
            " that follows its topic"
        )
    if records_per_run is not None and records_per_run < 1:
        raise ValueError(
            f"records_per_run of {name} is {records_per_run}: a run reads at least 1 record; leave"
            " it out for the default"
        )


def validate_max_failed(name: str, max_failed: float | None) -> None:
    """Refuse a value that is neither a count of records nor a share of them.

    :raises ValueError: names the value.
    """
    if max_failed is None:
        return
    is_fit = (
        1 <= max_failed <= MOST_FAILED
        if type(max_failed) is int
        else type(max_failed) is float and 0 < max_failed <= 1
    )
    if not is_fit:
        raise ValueError(
            f"max_failed of {name} is {max_failed!r}: give how many records of a batch may fail,"
            f" from 1 to {MOST_FAILED}, or which share of them, as 0.01"
        )


def validate_day(name: str, day: object) -> None:
    """Refuse a value that is not a date.

    :raises ValueError: names the value.
    """
    if isinstance(day, date):
        return
    raise ValueError(
        f"history_from of {name} is {day!r}: give a day, e.g. datetime.date(2026, 1, 31)"
    )


def validate_suite(name: str, suite: object) -> None:
    """Refuse a value that is not a suite.

    :raises ValueError: says how to make a suite.
    """
    if isinstance(suite, Suite):
        return
    raise ValueError(f"the suite of {name} is {suite!r}: give Suite(expect(...), expect(...))")


def validate_latest(table: TopicTable) -> None:
    """Refuse an invalid declaration of a table that keeps the newest row of each key.

    :raises ValueError: says why.
    """
    if table.deleted_when is not None and not table.latest_by:
        raise ValueError(
            f"deleted_when says when a key's row goes: table {table.name} needs latest_by, the"
            " columns of the key"
        )
    if table.aggregates and (table.latest_by or table.is_evolving):
        raise ValueError(
            f"table {table.name} keeps aggregates: neither latest_by nor is_evolving goes with them"
        )
    if table.latest_by and table.unique_by:
        raise ValueError(
            f"table {table.name} cannot have both: unique_by keeps the first row of a key,"
            " latest_by the newest"
        )
    if len(set(table.latest_by)) != len(table.latest_by) or set(table.latest_by) & {
        "_topic_id",
        "_partition",
        "_offset",
        "_timestamp",
    }:
        raise ValueError(
            f"latest_by of table {table.name} has to name other columns than a record's place, each"
            f" once: {', '.join(table.latest_by)}"
        )
    if table.deleted_when is not None:
        validate_condition(f"deleted_when of table {table.name}", table.deleted_when)


def validate_known_columns(table: TopicTable) -> None:
    """Refuse a declaration that names columns which the result does not have.

    The columns of the result are known if the transform names them (``result_columns``).

    :raises ValueError: names the column.
    """
    named = {
        "unique_by": table.unique_by,
        "latest_by": table.latest_by,
        "aggregate_by": table.aggregate_by,
    }
    named["aggregates"] = tuple(one.column for one in table.aggregates if one.column is not None)
    for argument, columns in named.items():
        for column in columns:
            if not column.strip():
                raise ValueError(f"{argument} of table {table.name} names no column: {column!r}")
            _validate_column(table.name, argument, column, result_columns(table.function))
    if table.deleted_when is not None:
        _validate_condition(
            table.name, "deleted_when", table.deleted_when, result_columns(table.function)
        )
    validate_checked_columns(table.name, table.function, table.rules, table.suite)


def validate_checked_columns(
    name: str, function: Transform, rules: Sequence[Rule], suite: Suite
) -> None:
    """Refuse rules and expectations on columns that the result does not have.

    Nothing is refused if the columns of the result are not known.

    :raises ValueError: names the column and those of the result.
    """
    known = result_columns(function)
    if known is None:
        return
    for rule in rules:
        _validate_condition(name, f"the rule {rule.name}", rule.condition, known)
    for one in suite.expectations:
        for argument in ("column", "column_A", "column_B"):
            if isinstance(one.arguments.get(argument), str):
                _validate_column(
                    name, f"the expectation {one.check_name}", one.arguments[argument], known
                )


def _validate_condition(
    name: str, what: str, condition: str, known: Collection[str] | None
) -> None:
    if known is None:
        return
    folded = {column.lower() for column in known}
    for column in named_columns(condition):
        if column not in folded:
            _validate_column(name, what, column, known)


def _validate_column(name: str, what: str, column: str, known: Collection[str] | None) -> None:
    if known is not None and column not in known:
        meant = closest_name(column, known)
        advice = f"did you mean {meant}? It" if meant else "it"
        raise ValueError(
            f"{what} of table {name} names {column}, which the result does not have: {advice} has"
            f" {', '.join(known)}"
        )


def validate_check_names(rules: Sequence[Rule], suite: Suite) -> None:
    """Refuse rules and expectations that share a name, because both are asset checks of the table.

    :raises ValueError: names them.
    """
    shared = {rule.name for rule in rules} & {one.check_name for one in suite.expectations}
    if shared:
        raise ValueError(
            f"a rule and an expectation share the name {', '.join(sorted(shared))}: give the"
            " expectation another name=..."
        )


def validate_parameters(name: str, function: Transform, count: int) -> None:
    """Refuse a function that does not take one DataFrame per source.

    :raises ValueError: says how many it takes.
    """
    parameters: Mapping[str, inspect.Parameter] = inspect.signature(function).parameters
    required = [
        one
        for one in parameters.values()
        if one.default is one.empty and one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}
    ]
    is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
    if len(required) > count or (len(parameters) < count and not is_open):
        raise ValueError(
            f"the transform of table {name} takes {len(parameters)} parameters and there are"
            f" {count} sources: one DataFrame each"
        )
