"""A table's suite on a result that is not committed yet. Decides on what the suite looks: a sample in pandas, or every row in Spark."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from orchestration.quality import Suite
from orchestration.quality.suites import Outcome, run_suite
from orchestration.transforms.results import Result, chosen_rows


def evaluate_suite(session: Any, suite: Suite, rows: pa.Table, *, table: str) -> tuple[Outcome, ...]:
    """Run ``suite`` on ``rows``, or on a sample of them that is the same for the same rows. Without rows there is nothing to look at."""
    if not suite.expectations or rows.num_rows == 0:
        return ()
    if suite.sample_rows is None:
        return run_suite(suite, session.createDataFrame(rows), table=table)
    return run_suite(suite, sample(rows, suite.sample_rows).to_pandas(), table=table)


def evaluate_result(suite: Suite, result: Result, *, table: str) -> tuple[Outcome, ...]:
    """Run ``suite`` on a computed table that is not committed yet."""
    if not suite.expectations or result.row_count == 0:
        return ()
    if suite.sample_rows is None:
        return run_suite(suite, result.frame(), table=table)
    return run_suite(suite, result.sample(suite.sample_rows).to_pandas(), table=table)


def sample(rows: pa.Table, size: int) -> pa.Table:
    """Return at most ``size`` rows, drawn evenly and always the same ones."""
    return rows if rows.num_rows <= size else rows.take(pa.array(chosen_rows(rows.num_rows, size)))


def blocking_failures(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return a sentence for each blocking expectation that is not met."""
    return tuple(
        f"expectation {one.expectation.check_name}: {one.observed.get('error') or describe_observed(one)}"
        for one in outcomes
        if one.expectation.is_blocking and not one.is_met
    )


def describe_observed(outcome: Outcome) -> str:
    """Return what an expectation saw, in short."""
    return ", ".join(f"{name} {value}" for name, value in outcome.observed.items()) or "not met"
