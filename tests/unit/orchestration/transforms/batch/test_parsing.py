"""Why Spark could not read a value, in words."""

import pytest
from pyspark.sql import types

from orchestration.transforms.batch.parsing import explain_unread
from orchestration.transforms.errors import described

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
        (b'{"seen": "soon", "price": 1000}', ["seen", "price"], "field seen is not TIMESTAMP; field price is not DECIMAL(4,2)"),
        (b'{"place": {"day": "soon"}}', ["seen"], "field place is not STRUCT<day: DATE>"),
        (b'{"price": 1}', ["seen"], "the value does not fit the schema"),
        (b"nonsense", [], "the value is not JSON"),
    ],
)
def test_the_fields_that_spark_read_as_null_are_to_blame(value: bytes, nulls: list[str], reason: str) -> None:
    assert explain_unread(value, FIELDS, nulls) == reason


def test_errors_are_told_without_javas_stack_and_without_end() -> None:
    error = ValueError("[DIVIDE_BY_ZERO] Division by zero.\n\nJVM stacktrace:\norg.apache...\n\tat x")
    assert described(error) == "ValueError: [DIVIDE_BY_ZERO] Division by zero."
    assert len(described(ValueError("x" * 10_000))) < 1_600
