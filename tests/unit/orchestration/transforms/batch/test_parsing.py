"""Why Spark could not read a value, in words."""

import pytest
from pyspark.sql import types

from orchestration.transforms.batch.parsing import explain_unread
from orchestration.transforms.errors import TransformError, described, whole_text

FIELDS = types.StructType(
    [
        types.StructField("seen", types.TimestampType()),
        types.StructField("price", types.DecimalType(4, 2)),
        types.StructField("place", types.StructType([types.StructField("day", types.DateType())])),
    ]
)


@pytest.mark.parametrize(
    ("value", "nulls", "reason"),
    [
        (b'{"seen": "soon"}', ["seen", "price", "place"], "field seen is not TIMESTAMP"),
        (
            b'{"seen": "soon", "price": 1000}',
            ["seen", "price"],
            "field seen is not TIMESTAMP; field price is not DECIMAL(4,2)",
        ),
        (b'{"place": {"day": "soon"}}', ["seen"], "field place is not STRUCT<day: DATE>"),
        (b'{"price": 1}', ["seen"], "the value does not fit the schema"),
        (b"nonsense", [], "the value is not JSON"),
    ],
)
def test_the_fields_that_spark_read_as_null_are_to_blame(
    value: bytes, nulls: list[str], reason: str
) -> None:
    assert explain_unread(value, FIELDS, nulls) == reason


PLAN = "; line 1 pos 0;\n'Filter ('amuont > 1)\n+- LogicalRDD [id#0, name#1], false\n"
UNRESOLVED = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amuont` cannot be resolved. Did you mean one of the following? [`id`]."
TRACE = "An exception was thrown:\nTraceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no number: 'x'\n SQLSTATE: 38000"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{UNRESOLVED} SQLSTATE: 42703{PLAN}", f"ValueError: {UNRESOLVED}"),
        (
            "cannot resolve x;\n'Project ['x]\n+- LocalRelation [id#0]",
            "ValueError: cannot resolve x",
        ),
        (
            "[MISSING] Of no group.\nAdd it. SQLSTATE: 42803;\nAggregate [id#0]",
            "ValueError: [MISSING] Of no group.\nAdd it.",
        ),
        (TRACE, "ValueError: no number: 'x'"),
        ("a; b\nc", "ValueError: a; b\nc"),
    ],
    ids=["with a plan", "without a code", "of two lines", "Python's", "another's"],
)
def test_errors_are_told_without_logical_plans(text: str, told: str) -> None:
    """Failures had Spark's whole plan in their text."""
    assert described(ValueError(text)) == told


def test_the_whole_text_of_an_error_is_that_of_its_innermost_cause() -> None:
    """The log of a run keeps what the sentence leaves out."""
    cause = ValueError(f"{UNRESOLVED} SQLSTATE: 42703{PLAN}\n\tat org.apache.spark.X")
    refused, outer = (
        TransformError(f"the table t: {described(cause)}"),
        TransformError("the table t"),
    )
    refused.__cause__, outer.__cause__ = cause, refused
    assert whole_text(outer) == whole_text(refused) == f"{UNRESOLVED} SQLSTATE: 42703{PLAN}".strip()
    assert whole_text(TransformError("no cause")) == ""


def test_errors_are_told_without_javas_stack_and_without_end() -> None:
    error = ValueError(
        "[DIVIDE_BY_ZERO] Division by zero.\n\nJVM stacktrace:\norg.apache...\n\tat x"
    )
    assert described(error) == "ValueError: [DIVIDE_BY_ZERO] Division by zero."
    assert len(described(ValueError("x" * 10_000))) < 1_600
