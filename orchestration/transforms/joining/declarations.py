"""Declarations of joins: the two topics, the condition of a pair, the function, and the checks.

Checks a declaration as soon as it is made. Knows no run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import types

from orchestration.project.names import names_of
from orchestration.quality import Rule, Severity, Suite
from orchestration.quality.rules import validate_rules
from orchestration.rows.join_state import declared_text
from orchestration.rows.joins import LEFT, PLACES, RECORD_TIME, RIGHT, SIDES, How, JoinShape, Side
from orchestration.topics.spec import TopicSpec, validate_topic
from orchestration.transforms.declarations import (
    NO_SUITE,
    Transform,
    validate_check_names,
    validate_checked_columns,
    validate_limits,
    validate_parameters,
    validate_suite,
    validate_table_name,
)
from orchestration.values.times import MICROSECOND

MAX_SPAN = timedelta(days=36_500)
DEFAULT_STATE_ROWS = 5_000_000
DEFAULT_AHEAD = timedelta(days=1)
"""Default of ``ahead``.

It exceeds any mistaken time zone. A row is kept longer by the time that it is ahead.
"""
KEY_TYPES = (
    types.StringType,
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
    types.BooleanType,
    types.DateType,
    types.TimestampType,
    types.DecimalType,
    types.BinaryType,
)
GIVEN = (*SIDES, *PLACES.values())
"""Columns that the function gets beside the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTable:
    """A table that follows two topics.

    A limit that is None is taken from the settings. ``records_per_run`` applies to each topic. With
    ``has_headers`` the function gets the headers of both records, as ``_headers`` of ``left`` and
    ``right``.
    """

    name: str
    left: TopicSpec
    right: TopicSpec
    function: Transform
    shape: JoinShape
    rules: tuple[Rule, ...] = ()
    suite: Suite = NO_SUITE
    minimum_interval_s: int | None = None
    records_per_run: int | None = None
    state_rows: int = DEFAULT_STATE_ROWS
    has_headers: bool = False

    def __post_init__(self) -> None:
        validate_table_name(self.name)
        validate_topic(self.name, self.left)
        validate_topic(self.name, self.right)
        validate_limits(self.name, self.minimum_interval_s, self.records_per_run)
        validate_rules(self.rules, is_quarantine_possible=True)
        astray = [rule.name for rule in self.rules if rule.severity is Severity.QUARANTINE]
        if astray:
            raise ValueError(
                f"a row of {self.name} comes of two records, and neither can be put aside for it:"
                f" make {', '.join(astray)} a warn or fail rule"
            )
        validate_suite(self.name, self.suite)
        validate_check_names(self.rules, self.suite)
        validate_parameters(self.name, self.function, 1)
        validate_checked_columns(self.name, self.function, self.rules, self.suite)
        validate_shape(self)

    def topic(self, side: Side) -> TopicSpec:
        """Return the topic of one side."""
        return self.left if side == LEFT else self.right

    def fields(self, side: Side) -> types.StructType:
        """Return the fields of one side's schema."""
        fields = self.topic(side).fields
        assert fields is not None
        return fields

    @property
    def declared(self) -> str:
        """Return a text of the parts of the declaration that must not change while rows wait."""
        return declared_text((self.left.name, self.right.name), self.shape)


def shape_of(
    *,
    on: str | Sequence[str] | Mapping[str, str],
    event_time: tuple[str, str],
    within: timedelta | tuple[timedelta, timedelta],
    lateness: timedelta,
    how: How,
    idle_after: timedelta | None,
    ahead: timedelta | None = None,
) -> JoinShape:
    """Return the shape of a join, from the arguments of its declaration.

    :raises ValueError: a span is negative or too long.
    """
    before, after = within if isinstance(within, tuple) else (within, within)
    spans = {
        "within": max(abs(before), abs(after)),
        "lateness": lateness,
        "idle_after": idle_after or timedelta(),
        "ahead": ahead or timedelta(),
    }
    for name, span in spans.items():
        if not timedelta() <= span <= MAX_SPAN:
            raise ValueError(
                f"{name} of a join is {span}: it has to be between nothing and {MAX_SPAN.days} days"
            )
    if before + after < timedelta():
        raise ValueError(
            f"no right row is at least {-before} and at most {after} later than its left row:"
            " within is (before, after)"
        )
    names = on.items() if isinstance(on, Mapping) else ((name, name) for name in names_of(on))
    return JoinShape(
        on=tuple(names),
        event_time=event_time,
        before_us=before // MICROSECOND,
        after_us=after // MICROSECOND,
        lateness_us=lateness // MICROSECOND,
        how=how,
        idle_after_us=None if idle_after is None else idle_after // MICROSECOND,
        ahead_us=None if ahead is None else ahead // MICROSECOND,
    )


def validate_no_max_failed(name: str, max_failed: float | None) -> None:
    """Refuse ``max_failed``, which only tables of one topic can have.

    :raises ValueError: says what to do instead.
    """
    if max_failed is not None:
        raise ValueError(
            f"{name} is a join and cannot have max_failed: a row comes of two records, and neither"
            " can be put aside for it. Leave it out, and let the function bear such records, as"
            " with try_cast; or reject them before, in tables of each topic"
        )


def validate_shape(table: JoinedTable) -> None:
    """Refuse a join whose columns do not exist or cannot be compared.

    :raises ValueError: says which.
    """
    shape = table.shape
    if table.left.name == table.right.name:
        raise ValueError(
            f"{table.name} joins the topic {table.left.name} with itself: a join needs two topics"
        )
    if shape.how not in {"inner", LEFT, RIGHT, "full"}:
        raise ValueError(
            f"how of {table.name} is {shape.how!r}: a join is inner, left, right or full"
        )
    if (
        not shape.on
        or len(set(shape.keys(LEFT))) != len(shape.on)
        or set(shape.keys(LEFT)) & set(GIVEN)
    ):
        raise ValueError(
            f"{table.name} needs columns to join on, each once, and none called {', '.join(GIVEN)}"
        )
    for side in SIDES:
        topic = table.topic(side)
        if topic.fields is None:
            raise ValueError(f"{table.name} joins fields, and the topic {topic.name} has no schema")
        missing = [name for name in shape.keys(side) if name not in topic.fields.names]
        if missing:
            raise ValueError(
                f"the topic {topic.name} has no field {', '.join(missing)}, on which {table.name}"
                " joins"
            )
        if any(isinstance(one.dataType, types.VariantType) for one in topic.fields):
            raise ValueError(
                f"{table.name} cannot join the topic {topic.name}: rows with a VARIANT cannot be"
                " kept until a partner comes"
            )
        _validate_time(table, side)
    for mine, theirs in shape.on:
        kinds = table.fields(LEFT)[mine].dataType, table.fields(RIGHT)[theirs].dataType
        if kinds[0] != kinds[1] or not isinstance(kinds[0], KEY_TYPES):
            named = " and ".join(kind.simpleString() for kind in kinds)
            raise ValueError(
                f"{table.name} cannot join {mine} on {theirs}, which are {named}: they have to be"
                " of one type, and no fractions"
            )


def _validate_time(table: JoinedTable, side: Side) -> None:
    name, fields = table.shape.time(side), table.fields(side)
    if name == RECORD_TIME:
        return
    if name not in fields.names or not isinstance(fields[name].dataType, types.TimestampType):
        raise ValueError(
            f"the event time of {table.topic(side).name} in {table.name} is {name!r}: name a field"
            f" of type TIMESTAMP, or {RECORD_TIME}, the time of the record"
        )


def why_only_everything(name: str) -> str:
    """Return why a part cannot be replayed into the join ``name``, and what can be replayed."""
    return (
        f"the table {name} joins two topics, and the partners of a range may lie anywhere in the"
        f" other one: there is no replay of a part. tidelog replay {name} --everything --execute"
        " joins all that was committed and is still in the topics once more, late records too"
    )
