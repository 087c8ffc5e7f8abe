"""Rules and suites: declared with care, decided from bits, evaluated by Great Expectations."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from orchestration.quality import Expectation, Suite, expect, fail, quarantine, warn
from orchestration.quality.expectation_types import known_types
from orchestration.quality.rules import (
    broken_rules,
    count_violations,
    first_quarantine_rule,
    quarantined,
    validate_rules,
    violations_sql,
)
from orchestration.quality.suites import run_suite

RULES = (warn("a", "x > 0"), quarantine("b", "y > 0"), fail("c", "z > 0"), quarantine("d", "w > 0"))
pytestmark = [
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:great_expectations"),
]


def test_rules_compile_to_one_bit_each() -> None:
    assert (
        violations_sql(RULES[:2])
        == "CASE WHEN NOT (x > 0) THEN 1L ELSE 0L END + CASE WHEN NOT (y > 0) THEN 2L ELSE 0L END"
    )
    assert violations_sql(()) == "0L"


def test_bits_tell_counts_quarantine_and_failure() -> None:
    bits = np.array([0b0000, 0b0001, 0b1010, 0b0100, 0b1000])
    counts = count_violations(RULES, bits)
    assert counts == {"a": 1, "b": 1, "c": 1, "d": 2}
    assert quarantined(RULES, bits).tolist() == [False, False, True, False, True]
    assert first_quarantine_rule(RULES, 0b1010).name == "b"
    (broken,) = broken_rules(RULES, counts)
    assert broken.startswith("rule c: 1 row violates ")
    assert broken_rules(RULES, {"c": 2_000})[0].startswith("rule c: 2,000 rows violate ")


def test_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="'no spaces' cannot be a check's name"):
        warn("no spaces", "x")
    with pytest.raises(ValueError, match="rule x has no condition"):
        warn("x", " ")
    with pytest.raises(ValueError, match="a is there more than once"):
        validate_rules((RULES[0], RULES[0]), is_quarantine_possible=True)
    with pytest.raises(ValueError, match="63 rules are too many"):
        validate_rules(
            [warn(f"r{number}", "x") for number in range(63)], is_quarantine_possible=True
        )
    with pytest.raises(ValueError, match="make b, d a warn or fail rule"):
        validate_rules(RULES, is_quarantine_possible=False)


def test_expectations_get_names_from_type_and_columns() -> None:
    assert (
        expect("expect_column_values_to_not_be_null", column="a b").check_name
        == "a_b_column_values_to_not_be_null"
    )
    assert (
        expect("expect_compound_columns_to_be_unique", column_list=["a", "b"]).check_name
        == "a_b_compound_columns_to_be_unique"
    )
    assert len(expect("expect_column_to_exist", column="c" * 200).check_name) == 89
    with pytest.raises(ValueError, match=r"give name=... to tell apart: a_column_to_exist"):
        Suite(
            expect("expect_column_to_exist", column="a"),
            expect("expect_column_to_exist", column="a", description="b"),
        )


def test_outcomes_come_in_order_and_a_mistake_is_an_outcome_that_is_not_met() -> None:
    suite = Suite(
        expect("expect_column_values_to_not_be_null", column="a", is_blocking=True),
        expect("expect_column_values_to_be_between", column="a", min_value=0),
        Expectation(
            type="expect_column_values_to_be_between",
            arguments={"column": "a", "min_valu": 0},
            name="typo",
        ),
        Expectation(type="expect_nonsense", name="nonsense"),
        expect("expect_column_values_to_not_be_null", column="missing"),
    )
    outcomes = run_suite(suite, pd.DataFrame({"a": [1.0, None]}), table="t")
    assert [(one.expectation.check_name, one.is_met) for one in outcomes] == [
        ("a_column_values_to_not_be_null", False),
        ("a_column_values_to_be_between", True),
        ("typo", False),
        ("nonsense", False),
        ("missing_column_values_to_not_be_null", False),
    ]
    assert outcomes[0].observed["unexpected_count"] == 1
    assert "min_valu" in str(outcomes[2].observed["error"])
    assert "nonsense not found" in str(outcomes[3].observed["error"])
    assert '"missing"' in str(outcomes[4].observed["error"])


UTC_NOON, LOCAL_NOON = datetime(2026, 1, 2, 12, tzinfo=UTC), datetime(2026, 1, 2, 12)  # noqa: DTZ001 - as people write it
TIMES = pa.table(
    {
        "at": pa.array([None, UTC_NOON], pa.timestamp("us", tz="UTC")),
        "local": pa.array([None, LOCAL_NOON], pa.timestamp("us")),
        "day": pa.array([UTC_NOON.date()] * 2, pa.date32()),
    }
)


@pytest.mark.parametrize(
    ("column", "most", "is_met"),
    [
        ("at", LOCAL_NOON, True),
        ("at", UTC_NOON, True),
        ("at", LOCAL_NOON.replace(hour=11), False),
        ("at", date(2026, 1, 3), True),
        ("at", date(2026, 1, 2), False),
        ("at", "2026-01-02T12:00:00Z", True),
        ("local", UTC_NOON.astimezone(timezone(timedelta(hours=5))), True),
        ("local", LOCAL_NOON.replace(hour=11), False),
        ("day", LOCAL_NOON.replace(hour=0), True),
        ("day", date(2026, 1, 1), False),
    ],
)
def test_times_are_compared_in_utc_however_they_are_given(
    column: str, most: Any, is_met: bool
) -> None:
    """Pandas cannot compare a time without zone with a TIMESTAMP.

    The outcome was an error, shown as not met.
    """
    suite = Suite(
        expect("expect_column_values_to_be_between", column=column, max_value=most),
        expect("expect_column_max_to_be_between", column=column, max_value=most),
    )
    for one in run_suite(suite, TIMES.to_pandas(), table="t"):
        assert (one.is_met, one.observed.get("error")) == (is_met, None), one


def test_sets_of_times_are_compared_in_utc() -> None:
    found = run_suite(
        Suite(expect("expect_column_values_to_be_in_set", column="at", value_set=[LOCAL_NOON])),
        TIMES.to_pandas(),
        table="t",
    )
    assert [one.is_met for one in found] == [True]


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("", "has no condition"),
        ("amount >", "nothing is behind >"),
        ("> 0", "nothing is before >"),
        ("amount > > 0", "> and > follow each other"),
        ("amount > 0 AND", "nothing is behind AND"),
        ("(amount > 0", r"a \( is not closed"),
        ("amount > 0)", r"a \) closes nothing"),
        ("a[0) > 1]", r"a \) closes nothing"),
        ("kind = 'web", "a quote ' is not closed"),
        ("`odd name > 1", "a quote ` is not closed"),
        ("amount > 0; DROP", "a condition has no ;"),
        ("amount > 0 -- as always", "ends with a comment"),
    ],
)
def test_a_condition_that_no_sql_can_be_is_refused_when_it_is_declared(
    condition: str, told: str
) -> None:
    """Each was told by the first run, and stopped the table."""
    with pytest.raises(ValueError, match=told):
        quarantine("positive", condition)


@pytest.mark.parametrize(
    "condition",
    [
        "amount > 0 AND kind IN ('a;b', 'it''s', 'x\\'(y')",
        "size(filter(items, item -> item.price >= 0)) = 0",
        "name RLIKE r'\\d+\\' OR note = \"(\"",
        "amount >> 2 > 0 AND flags << 1 < 8 AND amount >>> 1 >= 0",
        "-amount < +1 AND NOT (a <=> b)",
        "CASE WHEN a THEN 1 ELSE 2 END = 1 -- why\n AND b",
        "count(*) OVER () > 1 /* ( */",
        "`odd ; name`[0]:field::INT = 1 || ''",
        "make_date(year => 2026, month => 1, day => 31) > day",
    ],
)
def test_other_conditions_are_left_to_spark(condition: str) -> None:
    assert quarantine("fine", condition).condition == condition


def test_numbers_that_were_observed_are_pythons_own() -> None:
    """Dagster stores no float64 of numpy's: the run of the table failed once its suite was
    evaluated.
    """
    suite = Suite(
        expect("expect_column_max_to_be_between", column="a", max_value=1),
        expect("expect_column_min_to_be_between", column="b", max_value=1),
        expect("expect_column_values_to_be_between", column="a", max_value=1),
    )
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [1, 2]})
    outcomes = run_suite(suite, frame, table="t")
    assert [type(outcome.observed.get("observed_value")) for outcome in outcomes] == [
        float,
        int,
        type(None),
    ]
    assert {type(value) for outcome in outcomes for value in outcome.observed.values()} <= {
        int,
        float,
        str,
    }


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (
            "expect_column_value_to_be_between",
            {"column": "a"},
            "there is no expectation expect_column_value_to_be_between; did you mean expect_column_values_to_be_between?",
        ),
        ("expect_nonsense", {}, "there is no expectation expect_nonsense"),
        (
            "expect_column_values_to_be_between",
            {"column": "a", "min_valu": 0},
            "expect_column_values_to_be_between takes no argument min_valu; did you mean min_value?",
        ),
        (
            "expect_column_values_to_be_in_set",
            {"value_set": [1]},
            "expect_column_values_to_be_in_set needs the argument column",
        ),
    ],
)
def test_an_expectation_that_does_not_exist_is_refused_when_declared(
    kind: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        expect(kind, name="mistaken", **arguments)


def test_every_expectation_of_the_package_is_known() -> None:
    import great_expectations  # noqa: F401 - registers its expectations
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    assert set(list_registered_expectation_implementations()) - known_types() == set()


def test_an_expectation_of_the_project_is_known_once_its_class_is_imported() -> None:
    from great_expectations.expectations.expectation import ColumnMapExpectation

    class ExpectColumnValuesToBeOurs(ColumnMapExpectation):
        map_metric = "column_values.nonnull"

    assert expect("expect_column_values_to_be_ours", column="a").arguments == {"column": "a"}
    assert ExpectColumnValuesToBeOurs.map_metric
