"""A JSON value has one meaning in bulk and one by one.

The rule's table, both readers and the page that shows it agree.
"""

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types

from orchestration.formats.columns import arrow_schema
from orchestration.formats.json_values import JsonFormat
from orchestration.topics.spec import TopicSpec
from orchestration.values.ddl import parse_ddl
from orchestration.values.plain_json import plain_schema, read_plain
from orchestration.values.rule import RULE, Example, rule_table
from orchestration.values.scalars import Reading
from orchestration.values.strict_json import StrictSchema
from tests.helpers.json_tokens import token
from tests.helpers.whole import of_a_run

PAGE = Path(__file__).parents[4] / "docs" / "pipelines" / "json-values.md"
FORMS = [
    pytest.param(
        kind,
        form,
        id=f"{kind} {form.json} {form.reading.rounding} {form.reading.epoch_unit} {form.reading.decimals}",
    )
    for kind in RULE
    for form in RULE[kind]
]
KINDS = (
    "DECIMAL(12,2)",
    "DECIMAL(38,0)",
    "DECIMAL(38,10)",
    "DECIMAL(38,38)",
    "TIMESTAMP",
    "DATE",
    "DOUBLE",
    "BIGINT",
)
READINGS = (
    Reading(),
    Reading(rounding="half_up", epoch_unit="ms"),
    Reading(rounding="half_even", epoch_unit="ns"),
    Reading(rounding="down", epoch_unit="s"),
    Reading(epoch_unit="us"),
)


def fields_of(kind: str, reading: Reading) -> types.StructType:
    return reading.declared_in(parse_ddl(f"a {kind}"))


def document(text: str) -> bytes:
    return f'{{"a": {text}}}'.encode()


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_each_form_becomes_what_the_rule_says(kind: str, form: Example) -> None:
    fields = fields_of(kind, form.reading)
    fault = None if form.fault is None else f"field a is not {form.fault}"
    values = pa.array([document(form.json)], pa.binary())
    table, faults = JsonFormat(fields).read(values)
    assert faults.to_pylist() == [fault]
    assert table["a"].to_pylist() == ([] if fault else [form.value])
    lenient, untold = JsonFormat(fields, is_lenient=True).read(values)
    assert (lenient["a"].to_pylist(), untold.to_pylist()) == (
        [None if fault else form.value],
        [None],
    )


def test_the_page_shows_the_rule() -> None:
    _, _, rest = PAGE.read_text().partition("<!-- rule -->\n")
    assert rest.partition("\n<!-- rule ends -->")[0] == rule_table()


@pytest.mark.parametrize("reading", READINGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_what_arrow_reads_in_bulk_is_what_is_read_one_by_one(kind: str, reading: Reading) -> None:
    """Arrow shifts decimals to their scale without a look at overflow.

    80869517 became 0.32 in a DECIMAL(38,38).
    """
    rng = random.Random(f"{kind} {reading}")
    fields = fields_of(kind, reading)
    plain = plain_schema(fields)
    assert plain is not None
    schema = arrow_schema(fields)
    values = pa.array(
        [document(token(rng)) for _ in range(of_a_run(400, whole=1_500))], pa.binary()
    )
    rows = StrictSchema(fields).rows_of(values)
    expected = pa.array([row[0] for row, fault in rows if fault is None], schema[0].type)
    certain = 0
    for value, (row, fault) in zip(values, rows, strict=True):
        table, is_plain = read_plain(pa.array([value], pa.binary()), plain)
        if is_plain[0]:
            certain += 1
            assert (value, fault) == (value, None)
            assert (
                table.cast(schema)["a"].combine_chunks().equals(pa.array([row[0]], schema[0].type))
            ), value
    assert certain > 0
    table, faults = JsonFormat(fields).read(values)
    assert faults.to_pylist() == [fault for _, fault in rows]
    assert table["a"].combine_chunks().equals(expected)


def test_ways_to_read_hold_for_inner_fields_and_are_remembered() -> None:
    spec = TopicSpec(
        name="orders",
        schema="lines ARRAY<STRUCT<price: DECIMAL(4,1), at: TIMESTAMP>>",
        rounding="half_even",
        epoch_unit="ms",
    )
    assert spec.fields is not None
    table, _ = JsonFormat(spec.fields).read(
        pa.array([json.dumps({"lines": [{"price": 0.25, "at": 1000}]}).encode()], pa.binary())
    )
    (line,) = table["lines"].to_pylist()[0]
    assert (str(line["price"]), line["at"].isoformat()) == ("0.2", "1970-01-01T00:00:01+00:00")


def test_decimals_in_base64_are_read_within_structs_too() -> None:
    spec = TopicSpec(name="orders", schema="after STRUCT<price: DECIMAL(10,2)>", decimals="base64")
    assert spec.fields is not None
    table, faults = JsonFormat(spec.fields).read(
        pa.array([b'{"after": {"price": "AfQ="}}'], pa.binary())
    )
    assert (str(table["after"].to_pylist()[0]["price"]), faults.to_pylist()) == ("5.00", [None])


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (
            {"schema": "a DECIMAL(4,1)", "rounding": "up"},
            "there is no rounding 'up': it is one of half_up, half_even, down",
        ),
        ({"schema": "a TIMESTAMP", "epoch_unit": "min"}, "there is no epoch_unit 'min'"),
        (
            {"schema": "a TIMESTAMP, b VARIANT", "epoch_unit": "ms"},
            "has epoch_unit='ms', which is for values in JSON",
        ),
        (
            {"schema": "a DECIMAL(4,1)", "decimals": "bytes"},
            "there is no decimals 'bytes': it is one of plain, base64",
        ),
        ({"rounding": "down"}, "has rounding='down', which is for values in JSON"),
    ],
)
def test_ways_to_read_that_make_no_sense_are_refused(declared: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TopicSpec(name="orders", **declared)  # type: ignore[arg-type]
