"""Automation starts downstream assets when an input changed and passed its checks.

It does so, too, when the last run failed a while ago.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from orchestration.transforms import on_fresh_inputs

# Dagster's own use.
pytestmark = [
    pytest.mark.platform,
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
]
NOON = datetime(2030, 1, 1, 12, 1, tzinfo=UTC)
UPSTREAM, DOWNSTREAM = dg.AssetKey("upstream"), dg.AssetKey("downstream")


@dg.asset(check_specs=[dg.AssetCheckSpec("is_whole", asset="upstream", blocking=True)])
def upstream(
    context: dg.AssetExecutionContext,
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
    yield dg.AssetCheckResult(passed="broken" not in context.run.tags, check_name="is_whole")
    yield dg.MaterializeResult()


@dg.asset(deps=[upstream], automation_condition=on_fresh_inputs())
def downstream(context: dg.AssetExecutionContext) -> None:
    if "fails" in context.run.tags:
        raise RuntimeError("Spark went away")


DEFINITIONS = dg.Definitions(assets=[upstream, downstream])


class Automation:
    """Evaluates the conditions as the daemon does, at times that a test chooses."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._cursor: Any = None
        self.tick(0)

    def tick(self, minutes: float) -> bool:
        """Return whether the downstream asset is requested so many minutes after noon."""
        result = dg.evaluate_automation_conditions(
            DEFINITIONS,
            instance=self._instance,
            cursor=self._cursor,
            evaluation_time=NOON + timedelta(minutes=minutes),
        )
        self._cursor = result.cursor
        return bool(result.get_num_requested(DOWNSTREAM))

    def run(self, asset: dg.AssetsDefinition, **tags: str) -> None:
        dg.materialize(
            [upstream, downstream],
            instance=self._instance,
            selection=[asset],
            tags=tags,
            raise_on_error=False,
        )


@pytest.fixture
def automation() -> Iterator[Automation]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Automation(instance)


def test_a_changed_input_requests_what_is_downstream_once(automation: Automation) -> None:
    automation.run(upstream)
    assert automation.tick(1)
    automation.run(downstream)
    assert not automation.tick(2)
    automation.run(upstream)
    assert automation.tick(3)


def test_an_input_that_changes_while_a_run_reads_it_requests_another_run(
    automation: Automation,
) -> None:
    automation.run(upstream)
    assert automation.tick(1)
    automation.run(upstream)
    automation.run(downstream)
    assert automation.tick(2), "that run may have read the input as it was before"
    automation.run(downstream)
    assert not automation.tick(3)


def test_an_input_that_changes_later_in_a_long_run_requests_another_run(
    automation: Automation,
) -> None:
    automation.run(upstream)
    assert automation.tick(1)
    assert not automation.tick(2)
    automation.run(upstream)
    automation.run(downstream)
    assert automation.tick(3)
    automation.run(downstream)
    assert not automation.tick(4)


def test_an_input_whose_blocking_check_failed_requests_nothing(automation: Automation) -> None:
    automation.run(upstream, broken="yes")
    assert not automation.tick(1)


def test_what_failed_is_tried_again_though_no_input_changes(automation: Automation) -> None:
    automation.run(upstream)
    assert automation.tick(1)
    automation.run(downstream, fails="yes")
    assert not automation.tick(2), "at once would be a loop"
    assert automation.tick(10)
    automation.run(downstream)
    assert not automation.tick(20)
