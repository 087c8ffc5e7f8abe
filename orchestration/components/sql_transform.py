"""The component of a transform in SQL, the YAML form of ``spark_table``.

It makes a table from a topic or from tables. The statement is Spark's SQL. It names its topic or
its tables as relations. The columns of a topic are the fields of its records, ``_topic_id``,
``_partition``, ``_offset``, ``_timestamp`` and ``_key``, and with ``has_headers`` also
``_headers``. Rules, repetitions and dead letters are those of every table.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from orchestration.components.attributes import Declaration, Made, example, place_of, read_sql
from orchestration.lake.tables import PROVENANCE
from orchestration.quality import Rule, Suite
from orchestration.quality.rules import Severity
from orchestration.quality.suites import DEFAULT_SAMPLE_ROWS, Expectation
from orchestration.topics.spec import TopicSpec, declared_topic, declared_topics
from orchestration.transforms import spark_table
from orchestration.transforms.to_lake.statements import sql_transform, validate_provenance


class RuleAttributes(dg.Resolvable, dg.Model):
    """A condition that rows of the result should meet."""

    name: str
    condition: str = Field(description="Spark SQL over the columns of the result")
    severity: Severity = Field(
        default=Severity.QUARANTINE,
        description="warn, quarantine (the record becomes a dead letter) or fail",
    )
    description: str = ""


class ExpectationAttributes(dg.Resolvable, dg.Model):
    """An expectation of Great Expectations by its type."""

    type: str
    arguments: dict[str, Any] = Field(default={})
    name: str = ""
    is_blocking: bool = False
    description: str = ""


def _example(name: str) -> Mapping[str, Any]:
    places = ", ".join(PROVENANCE)
    return {
        "name": name,
        "topic": "orders",
        "sql": f"SELECT id, amount, {places} FROM orders WHERE amount IS NOT NULL",  # noqa: S608
    }


@dg.scaffold_with(example(_example))
class SqlTransformComponent(Declaration, dg.Resolvable, dg.Model):
    """A table of the lake: one SELECT in Spark's SQL over a topic or over tables.

    Over a topic it is computed batch by batch. Over tables it is computed anew when one changes.
    """

    name: str = Field(description="The table's name")
    sql: str | None = Field(default=None, description="The statement")
    sql_file: str | None = Field(
        default=None, description="The name of a file beside this one that holds the statement"
    )
    topic: str | None = Field(default=None, description="The topic that the table follows, by name")
    tables: list[str] = Field(
        default=[], description="The tables of the lake that it is computed from"
    )
    description: str = Field(default="", description="What the table holds")
    unique_by: list[str] = Field(
        default=[],
        description="Columns whose values may be there once; a repetition becomes a dead letter",
    )
    latest_by: list[str] = Field(
        default=[], description="Columns of which the newest row per value is kept"
    )
    deleted_when: str | None = Field(
        default=None, description="Condition of rows that remove their key's row"
    )
    rules: list[RuleAttributes] = Field(default=[], description="Conditions that rows should meet")
    expectations: list[ExpectationAttributes] = Field(
        default=[], description="Expectations of Great Expectations"
    )
    sample_rows: int | None = Field(
        default=DEFAULT_SAMPLE_ROWS,
        description="How many rows expectations that do not block look at",
    )
    is_evolving: bool = Field(default=False, description="Whether columns may come and go")
    minimum_interval_s: int | None = Field(
        default=None, description="Seconds between the starts of two runs"
    )
    records_per_run: int | None = Field(default=None, description="The most records of one commit")
    history_from: str | None = Field(
        default=None, description="The first day of the table's backfill, e.g. 2026-01-31"
    )
    has_headers: bool = Field(
        default=False, description="Whether the statement reads the records' headers, as _headers"
    )
    max_failed: int | float | None = Field(
        default=None, description="How many records of a batch, or which share, may make it fail"
    )
    is_automated: bool = Field(
        default=True, description="Whether a table from tables is computed by itself"
    )
    group_name: str = Field(default="lake", description="Dagster's group")
    tags: dict[str, str] = Field(default={}, description="Dagster's tags")
    owners: list[str] = Field(default=[], description="Dagster's owners")

    def declare(self, context: dg.ComponentLoadContext) -> Made:
        """Return the table's asset."""
        if (self.topic is None) == (not self.tables):
            raise ValueError(
                "a table comes either from a topic or from tables: give one of the two"
            )
        statement = read_sql(context, self.sql, self.sql_file)
        topic = None if self.topic is None else named_topic(self.topic)
        if topic is not None:
            validate_provenance(statement)
        function = sql_transform(
            statement,
            self.tables if topic is None else [topic.name],
            place=place_of(context, "sql" if self.sql is not None else "sql_file"),
            description=self.description,
            columns=() if topic is None else known_columns(topic, has_headers=self.has_headers),
        )
        return spark_table(
            topic=topic,
            tables=self.tables,
            name=self.name,
            unique_by=self.unique_by,
            latest_by=self.latest_by,
            deleted_when=self.deleted_when,
            rules=[Rule(**dict(one)) for one in self.rules],
            suite=Suite(
                *(Expectation(**dict(one)) for one in self.expectations),
                sample_rows=self.sample_rows,
            ),
            is_evolving=self.is_evolving,
            minimum_interval_s=self.minimum_interval_s,
            records_per_run=self.records_per_run,
            history_from=None if self.history_from is None else day(self.history_from),
            has_headers=self.has_headers,
            max_failed=self.max_failed,
            is_automated=self.is_automated,
            group_name=self.group_name,
            tags=self.tags or None,
            owners=self.owners or None,
        )(function)


def named_topic(name: str) -> TopicSpec:
    """Return the topic of that name.

    :raises ValueError: the project declares none.
    """
    try:
        return declared_topic(name)
    except KeyError:
        known: Sequence[str] = declared_topics()
        raise ValueError(
            f"no topic {name} is declared (declared: {', '.join(known) or 'none'}): declare it with"
            " a TopicComponent or a topic_asset"
        ) from None


def known_columns(topic: TopicSpec, *, has_headers: bool = False) -> Collection[str]:
    """Return the columns of a topic that a transform can name."""
    own = ["_value"] if topic.fields is None else topic.fields.names
    return {*PROVENANCE, "_timestamp", "_key", *(["_headers"] if has_headers else []), *own}


def day(text: str) -> date:
    """Return the date that ``text`` writes in ISO 8601.

    :raises ValueError: the text is not a date.
    """
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"history_from is {text!r}: give a day, e.g. 2026-01-31") from error
