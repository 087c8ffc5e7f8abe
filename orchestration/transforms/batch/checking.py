"""Evaluates a table's suite on a result that is not committed yet.

Decides which rows the suite sees. An expectation that can forbid a commit sees every row. The
others see a sample in pandas, and the outcome gives the number of rows in the sample and in all. If
the suite requests it, all expectations see every row in Spark.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from orchestration.quality import Suite
from orchestration.quality.suites import Outcome, run_suite
from orchestration.transforms.batch.results import Result, chosen_rows


def evaluate_suite(
    session: Any, suite: Suite, rows: pa.Table, *, table: str
) -> tuple[Outcome, ...]:
    """Run ``suite`` on ``rows``. The same rows give the same sample.

    Without rows no expectation is evaluated.
    """
    if not suite.expectations or rows.num_rows == 0:
        return ()
    if suite.sample_rows is None:
        return run_suite(suite, session.createDataFrame(rows), table=table)
    blocking, others = suite.parts()
    whole = run_suite(blocking, rows.to_pandas(), table=table) if blocking.expectations else ()
    looked = sample(rows, suite.sample_rows)
    return suite.in_order([*whole, *_sampled(others, looked, rows.num_rows, table)])


def evaluate_result(suite: Suite, result: Result, *, table: str) -> tuple[Outcome, ...]:
    """Run ``suite`` on a computed table that is not committed yet."""
    if not suite.expectations or result.row_count == 0:
        return ()
    if suite.sample_rows is None:
        return run_suite(suite, result.frame(), table=table)
    blocking, others = suite.parts()
    whole = run_suite(blocking, result.whole(), table=table) if blocking.expectations else ()
    looked = result.sample(suite.sample_rows) if others.expectations else pa.table({})
    return suite.in_order([*whole, *_sampled(others, looked, result.row_count, table)])


def _sampled(suite: Suite, looked: pa.Table, row_count: int, table: str) -> list[Outcome]:
    """Run ``suite`` on ``looked``, a sample of ``row_count`` rows.

    If ``looked`` has fewer rows, each outcome notes how many, and ``row_count``.
    """
    outcomes = run_suite(suite, looked.to_pandas(), table=table)
    if looked.num_rows == row_count:
        return list(outcomes)
    return [
        replace(one, observed={**one.observed, "rows": looked.num_rows, "of_rows": row_count})
        for one in outcomes
    ]


def sample(rows: pa.Table, size: int) -> pa.Table:
    """Return at most ``size`` rows, drawn at random with a fixed seed."""
    return rows if rows.num_rows <= size else rows.take(pa.array(chosen_rows(rows.num_rows, size)))


def blocking_failures(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return a sentence for each blocking expectation that is not met."""
    return tuple(
        f"expectation {one.expectation.check_name}:"
        f" {one.observed.get('error') or describe_observed(one)}"
        for one in outcomes
        if one.expectation.is_blocking and not one.is_met
    )


def describe_observed(outcome: Outcome) -> str:
    """Return a short text of the values that an expectation observed."""
    return ", ".join(f"{name} {value}" for name, value in outcome.observed.items()) or "not met"
