"""Batches of aggregates merge into the result over all rows, however they were cut.

A value that cannot be computed is told.
"""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from orchestration.rows.aggregates import (
    Aggregate,
    AggregateError,
    accumulated,
    count,
    group_rejections,
    largest,
    merged,
    smallest,
    total,
    validate_aggregates,
    validate_columns,
)

SCHEMA = pa.schema(
    [
        ("country", pa.string()),
        ("day", pa.date32()),
        ("amount", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("weight", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
BY = ("country", "day")
AGGREGATES = (
    count("orders"),
    count("weighed", "weight"),
    total("amount_total", "amount"),
    total("revenue", "price"),
    smallest("first_at", "at"),
    largest("last_at", "at"),
    largest("heaviest", "weight"),
)
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Groups:
    """A table of groups without its files."""

    rows: pa.Table | None = None
    told: list[tuple[int, int]] = field(default_factory=list)

    def dataset(self) -> pads.Dataset:
        return pads.dataset(self.rows)

    def take(self, rows: pa.Table) -> None:
        changes = merged(rows, None if self.rows is None else self, BY, AGGREGATES)
        self.told.append((changes.inserted, changes.updated))
        gone = {tuple(row.values()) for row in changes.replaced.to_pylist()}
        kept = [
            row
            for row in ([] if self.rows is None else self.rows.to_pylist())
            if tuple(row[key] for key in BY) not in gone
        ]
        self.rows = pa.concat_tables(
            [pa.Table.from_pylist(kept, schema=changes.rows.schema), changes.rows]
        )

    def found(self) -> dict[Any, dict[str, Any]]:
        assert self.rows is not None
        found = {(row["country"], row["day"]): row for row in self.rows.to_pylist()}
        assert len(found) == self.rows.num_rows, "a group has two rows"
        return found


def order(draw: random.Random) -> dict[str, Any]:
    at = START + timedelta(minutes=draw.randrange(4_000))
    return {
        "country": draw.choice(["DE", "NZ", "", "ü"]),
        "day": at.date(),
        "amount": draw.choice([None, draw.randrange(-(2**31), 2**31)]),
        "price": draw.choice([None, Decimal(draw.randrange(10**6)) / 100]),
        "weight": draw.choice([None, float(draw.randrange(100))]),
        "at": at,
    }


def expected(rows: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Aggregate in plain Python."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["country"], row["day"]), []).append(row)

    def values(group: list[dict[str, Any]], name: str) -> list[Any]:
        return [row[name] for row in group if row[name] is not None]

    return {
        key: {
            "country": key[0],
            "day": key[1],
            "orders": len(group),
            "weighed": len(values(group, "weight")),
            "amount_total": sum(values(group, "amount")) if values(group, "amount") else None,
            "revenue": sum(values(group, "price")) if values(group, "price") else None,
            "first_at": min(values(group, "at")),
            "last_at": max(values(group, "at")),
            "heaviest": max(values(group, "weight"), default=None),
        }
        for key, group in groups.items()
    }


@pytest.mark.parametrize("seed", range(12))
def test_batches_of_any_size_give_what_all_rows_give(seed: int) -> None:
    draw = random.Random(seed)
    rows = [order(draw) for _ in range(60)]
    table, start = Groups(), 0
    while start < len(rows):
        end = start + draw.randrange(1, 20)
        table.take(pa.Table.from_pylist(rows[start:end], schema=SCHEMA))
        start = end
    assert table.found() == expected(rows), f"seed {seed}"


def test_groups_that_are_not_touched_are_left_alone_and_changes_are_counted() -> None:
    table = Groups()
    row = order(random.Random(0))
    table.take(
        pa.Table.from_pylist([{**row, "country": "A"}, {**row, "country": "B"}], schema=SCHEMA)
    )
    table.take(
        pa.Table.from_pylist([{**row, "country": "B"}, {**row, "country": "C"}], schema=SCHEMA)
    )
    table.take(SCHEMA.empty_table())
    assert table.told == [(2, 0), (1, 1), (0, 0)]


def test_a_total_beyond_its_type_is_an_error_that_says_what_to_do() -> None:
    rows = pa.table({"k": ["a", "a"], "v": pa.array([2**63 - 1, 1], pa.int64())})
    with pytest.raises(AggregateError, match=r"Nothing was committed\. Cast the column"):
        merged(rows, None, ["k"], [total("t", "v")])


def test_a_total_of_finite_numbers_is_never_infinite() -> None:
    """DuckDB adds 1e308 and 1e308 up to infinity."""
    one, totals = pa.table({"k": ["a"], "v": [1e308]}), [total("t", "v")]
    for held, rows in [
        (None, pa.concat_tables([one, one])),
        (merged(one, None, ["k"], totals).rows, one),
    ]:
        with pytest.raises(AggregateError, match="the total t is beyond the range of DOUBLE"):
            accumulated(rows, held, ["k"], totals)
    for given in ("inf", "nan"):
        found = accumulated(
            pa.table({"k": ["a", "a"], "v": [float(given), 1.0]}),
            merged(one, None, ["k"], totals).rows,
            ["k"],
            totals,
        )
        assert str(found["t"][0]) == given
    single = pa.table({"k": ["a", "a"], "v": pa.array([3e38, 3e38], pa.float32())})
    assert merged(single, None, ["k"], totals).rows["t"].to_pylist() == [pytest.approx(6e38)]


def test_rows_without_a_group_are_rejected_and_missing_columns_named() -> None:
    rows = pa.table({"k": ["a", None], "_partition": [0, 1], "_offset": [5, 6]})
    assert [(one.partition, one.offset, one.rule) for one in group_rejections(rows, ["k"])] == [
        (1, 6, "aggregate_by")
    ]
    with pytest.raises(AggregateError, match="the result lacks v, w"):
        validate_columns(rows, ["k", "w"], [total("t", "v"), count("n")])


@pytest.mark.parametrize(
    ("by", "aggregates", "told"),
    [
        ((), (count("n"),), "needs columns to group by"),
        (("k",), (), "at least one aggregate"),
        (("k",), (count("k"),), "are not different: k, k"),
        (("k",), (count("a-b"),), "cannot be called a-b"),
        (("_offset",), (count("n"),), "as the place of a record is"),
    ],
)
def test_what_makes_no_sense_is_refused(
    by: tuple[str, ...], aggregates: tuple[Aggregate, ...], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        validate_aggregates("t", by, aggregates)
