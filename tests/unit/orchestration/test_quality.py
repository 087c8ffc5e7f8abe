"""Rules and suites: declared with care, decided from bits, evaluated by Great Expectations."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestration.quality import Expectation, Suite, expect, fail, quarantine, warn
from orchestration.quality.expectation_types import known_types
from orchestration.quality.rules import (
    broken_fail_rules,
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
    assert violations_sql(RULES[:2]) == "CASE WHEN NOT (x > 0) THEN 1L ELSE 0L END + CASE WHEN NOT (y > 0) THEN 2L ELSE 0L END"
    assert violations_sql(()) == "0L"


def test_bits_tell_counts_quarantine_and_failure() -> None:
    bits = np.array([0b0000, 0b0001, 0b1010, 0b0100, 0b1000])
    counts = count_violations(RULES, bits)
    assert counts == {"a": 1, "b": 1, "c": 1, "d": 2}
    assert quarantined(RULES, bits).tolist() == [False, False, True, False, True]
    assert first_quarantine_rule(RULES, 0b1010).name == "b"
    assert [rule.name for rule in broken_fail_rules(RULES, counts)] == ["c"]


def test_rules_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="'no spaces' cannot be a check's name"):
        warn("no spaces", "x")
    with pytest.raises(ValueError, match="rule x has no condition"):
        warn("x", " ")
    with pytest.raises(ValueError, match="a is there more than once"):
        validate_rules((RULES[0], RULES[0]), is_quarantine_possible=True)
    with pytest.raises(ValueError, match="63 rules are too many"):
        validate_rules([warn(f"r{number}", "x") for number in range(63)], is_quarantine_possible=True)
    with pytest.raises(ValueError, match="make b, d a warn or fail rule"):
        validate_rules(RULES, is_quarantine_possible=False)


def test_expectations_get_names_from_type_and_columns() -> None:
    assert expect("expect_column_values_to_not_be_null", column="a b").check_name == "a_b_column_values_to_not_be_null"
    assert expect("expect_compound_columns_to_be_unique", column_list=["a", "b"]).check_name == "a_b_compound_columns_to_be_unique"
    assert len(expect("expect_column_to_exist", column="c" * 200).check_name) == 89
    with pytest.raises(ValueError, match=r"give name=... to tell apart: a_column_to_exist"):
        Suite(expect("expect_column_to_exist", column="a"), expect("expect_column_to_exist", column="a", description="b"))


def test_outcomes_come_in_order_and_a_mistake_is_an_outcome_that_is_not_met() -> None:
    suite = Suite(
        expect("expect_column_values_to_not_be_null", column="a", is_blocking=True),
        expect("expect_column_values_to_be_between", column="a", min_value=0),
        Expectation(type="expect_column_values_to_be_between", arguments={"column": "a", "min_valu": 0}, name="typo"),
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


def test_numbers_that_were_observed_are_pythons_own() -> None:
    """Dagster stores no float64 of numpy's: the run of the table failed once its suite was evaluated."""
    suite = Suite(
        expect("expect_column_max_to_be_between", column="a", max_value=1),
        expect("expect_column_min_to_be_between", column="b", max_value=1),
        expect("expect_column_values_to_be_between", column="a", max_value=1),
    )
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [1, 2]})
    outcomes = run_suite(suite, frame, table="t")
    assert [type(outcome.observed.get("observed_value")) for outcome in outcomes] == [float, int, type(None)]
    assert {type(value) for outcome in outcomes for value in outcome.observed.values()} <= {int, float, str}


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
        ("expect_column_values_to_be_in_set", {"value_set": [1]}, "expect_column_values_to_be_in_set needs the argument column"),
    ],
)
def test_an_expectation_that_does_not_exist_is_refused_when_declared(kind: str, arguments: dict[str, Any], said: str) -> None:
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
