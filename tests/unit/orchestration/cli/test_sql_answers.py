"""How ``tidelog sql`` prints an answer: for programs as JSON, in files as CSV, for people as a
table.
"""

import csv
import io
import json

import click.testing
import pytest

from orchestration.cli.sql import sql

QUESTION = """SELECT map {'a': 1} AS counts, map([1], [{'x': [1.50::DECIMAL(3, 2)]}]) AS nested, map {}::MAP(VARCHAR, INT) AS no_counts,
    [map {'k': 'nan'::DOUBLE}] AS listed, 'inf'::DOUBLE AS most, '\\xFF'::BLOB AS raw, DATE '2026-01-31' AS day, NULL AS nothing"""
EXPECTED = {
    "counts": {"a": 1},
    "nested": {"1": {"x": ["1.50"]}},
    "no_counts": {},
    "listed": [{"k": "NaN"}],
    "most": "Infinity",
    "raw": "\\xff",
    "day": "2026-01-31",
    "nothing": None,
}


@pytest.fixture
def _lake(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setenv("TIDELOG_DATA", str(tmp_path))


def printed(*options: str) -> str:
    ran = click.testing.CliRunner().invoke(sql, [QUESTION, *options], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.usefixtures("_lake")
def test_json_has_maps_as_objects_and_no_numbers_that_json_lacks() -> None:
    assert json.loads(printed("--json"), parse_constant=refuse_constant) == [EXPECTED]


@pytest.mark.usefixtures("_lake")
def test_cells_of_files_and_tables_hold_structures_as_json() -> None:
    row = next(csv.DictReader(io.StringIO(printed("--csv"))))
    assert {
        name: json.loads(row[name]) for name in ("counts", "nested", "no_counts", "listed")
    } == {name: EXPECTED[name] for name in ("counts", "nested", "no_counts", "listed")}
    assert row["nothing"] == ""
    assert '{"a": 1}' in printed()


FAR_TIMES = {
    "epoch_ms(1769860800000000)": "58054-08-28 00:00:00",
    "epoch_ms(1769860800000000)::TIMESTAMPTZ": "58054-08-28 00:00:00+00:00",
    "[DATE '12000-02-29']": ["12000-02-29"],
    "{'at': DATE '9999-12-31' + 1}.at::DATE": "10000-01-01",
    "map {'k': DATE '0044-03-15 (BC)'}": {"k": "-43-03-15"},
    "TIMESTAMP '2026-01-31 12:00:00'": "2026-01-31 12:00:00",
}


@pytest.mark.usefixtures("_lake")
@pytest.mark.parametrize("told", FAR_TIMES)
def test_times_of_years_that_python_lacks_are_printed_all_the_same(told: str) -> None:
    """They ended the command with a traceback."""
    ran = click.testing.CliRunner().invoke(
        sql, [f"SELECT {told} AS far", "--json"], catch_exceptions=False
    )
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == [{"far": FAR_TIMES[told]}]
