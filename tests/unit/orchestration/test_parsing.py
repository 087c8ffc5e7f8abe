"""Why a record does not fit its schema, in words."""

import pytest
from pyspark.sql import types

from orchestration.transforms.errors import described
from orchestration.transforms.parsing import explain_misfit

FIELDS = types.StructType(
    [
        types.StructField("id", types.StringType(), nullable=False),
        types.StructField("small", types.ByteType()),
        types.StructField("number", types.IntegerType()),
        types.StructField("share", types.DoubleType()),
        types.StructField("is_open", types.BooleanType()),
        types.StructField("tags", types.ArrayType(types.StringType())),
        types.StructField("place", types.StructType([types.StructField("x", types.IntegerType())])),
    ]
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the value is null"),
        (b"\xff", "the value is not UTF-8 text"),
        (b"{", "the value is not JSON"),
        (b"[" * 100_000, "the value is not JSON"),
        (b"[1]", "the value is not a JSON object"),
        (b"{}", "field id is required and missing"),
        (b'{"id": null}', "field id is required and null"),
        (b'{"id": "a", "small": 128}', "field small is not TINYINT"),
        (b'{"id": "a", "number": true}', "field number is not INT"),
        (b'{"id": "a", "number": 1.5, "share": "x"}', "field number is not INT; field share is not DOUBLE"),
        (b'{"id": "a", "is_open": "yes"}', "field is_open is not BOOLEAN"),
        (b'{"id": "a", "tags": "x"}', "field tags is not ARRAY<STRING>"),
        (b'{"id": "a", "place": {"x": "far"}}', "the value does not fit the schema"),
    ],
)
def test_the_fault_is_named_with_its_field(value: bytes | None, reason: str) -> None:
    assert explain_misfit(value, FIELDS) == reason


def test_errors_are_told_without_javas_stack_and_without_end() -> None:
    error = ValueError("[DIVIDE_BY_ZERO] Division by zero.\n\nJVM stacktrace:\norg.apache...\n\tat x")
    assert described(error) == "ValueError: [DIVIDE_BY_ZERO] Division by zero."
    assert len(described(ValueError("x" * 10_000))) < 1_600
