"""Assets whose last run failed, as the terminal and ``tidelog status`` tell them."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
import pytest

from orchestration.sensing.failing_assets import LOOKS_AFTER_EVENT, LOOKS_PER_CHECK, FailingAssets
from orchestration.transforms import TransformError

BROKEN: set[str] = set()


@dg.asset
def orders() -> None:
    """Fails as long as it is asked to."""
    if "orders" in BROKEN:
        raise dg.Failure(description="the column amount is missing", allow_retries=False)


@dg.asset
def invoices() -> None:
    """Fails with what is no sentence of ours."""
    if "invoices" in BROKEN:
        raise ZeroDivisionError("division by zero\nin line 2")


JOB = dg.Definitions(assets=[orders, invoices]).resolve_implicit_global_asset_job_def()
KNOWN = {orders.key, invoices.key}
TOLD = "orders failed in its last run: the column amount is missing"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    BROKEN.clear()
    with dg.instance_for_test() as made:
        yield made


def run(instance: dg.DagsterInstance, *assets: dg.AssetsDefinition, broken: tuple[str, ...] = ()) -> None:
    BROKEN.clear()
    BROKEN.update(broken)
    keys = [asset.key for asset in assets]
    JOB.execute_in_process(asset_selection=keys, instance=instance, raise_on_error=False)


def test_an_asset_fails_from_its_failed_run_to_its_next_good_one(instance: dg.DagsterInstance) -> None:
    failing = FailingAssets(instance)
    assert failing.look(KNOWN) == []
    run(instance, orders, broken=("orders",))
    assert failing.look(KNOWN) == [TOLD]
    assert failing.look(KNOWN) == [TOLD], "as long as it is so"
    run(instance, invoices)
    assert failing.look(KNOWN) == [TOLD], "a run of another asset mends nothing"
    run(instance, orders)
    assert failing.look(KNOWN) == []


def test_the_first_line_of_another_error_is_the_reason_and_what_went_well_beside_it_is_not_told(instance: dg.DagsterInstance) -> None:
    run(instance, orders, invoices, broken=("invoices",))
    assert FailingAssets(instance).look(KNOWN) == ["invoices failed in its last run: ZeroDivisionError: division by zero"]


def test_each_of_two_assets_that_fail_in_one_run_has_its_own_reason(instance: dg.DagsterInstance) -> None:
    run(instance, orders, invoices, broken=("orders", "invoices"))
    assert FailingAssets(instance).look(KNOWN) == ["invoices failed in its last run: ZeroDivisionError: division by zero", TOLD]


def test_what_failed_before_the_process_started_is_told_unless_the_project_has_it_no_more(instance: dg.DagsterInstance) -> None:
    run(instance, orders, broken=("orders",))
    assert FailingAssets(instance).look(KNOWN) == [TOLD]
    assert FailingAssets(instance).look({invoices.key}) == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (TransformError("Spark failed on the transform of table orders"), "Spark failed on the transform of table orders"),
        (ValueError("orchestration.x.Y: said by another"), "ValueError: orchestration.x.Y: said by another"),
    ],
    ids=["ours", "another's"],
)
def test_the_class_of_an_error_of_ours_is_no_part_of_its_sentence(instance: dg.DagsterInstance, error: Exception, why: str) -> None:
    @dg.asset
    def broken() -> None:
        """Fails."""
        raise error

    job = dg.Definitions(assets=[broken]).resolve_implicit_global_asset_job_def()
    job.execute_in_process(asset_selection=[broken.key], instance=instance, raise_on_error=False)
    assert FailingAssets(instance).look({broken.key}) == [f"broken failed in its last run: {why}"]


def test_runs_are_asked_for_now_and_then_while_no_event_comes(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    ask = instance.get_run_records

    def counted(*arguments: Any, **named: Any) -> Sequence[dg.RunRecord]:
        asked.append(arguments)
        return ask(*arguments, **named)

    monkeypatch.setattr(instance, "get_run_records", counted)
    failing = FailingAssets(instance)
    for _ in range(LOOKS_AFTER_EVENT + 10 * LOOKS_PER_CHECK):
        assert failing.look(KNOWN) == []
    assert len(asked) == LOOKS_AFTER_EVENT + 10
    run(instance, orders, broken=("orders",))
    assert failing.look(KNOWN) == [TOLD]
