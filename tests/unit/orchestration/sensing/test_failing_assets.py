"""Assets whose last run failed, as the terminal and ``tidelog status`` tell them."""

import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from log_service.supervisor.complaints import MOMENTARY
from orchestration.marts.mart import mart
from orchestration.project.location import DEFINITIONS
from orchestration.sensing.failing_assets import LOOKS_AFTER_EVENT, LOOKS_PER_CHECK, FailingAssets
from orchestration.sensing.retries import retries_of
from orchestration.sensing.topic_sensor import TABLE_TAG
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import TransformError, spark_table

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
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    BROKEN.clear()
    # Another test may have loaded a project.
    monkeypatch.delitem(sys.modules, DEFINITIONS, raising=False)
    with dg.instance_for_test() as made:
        yield made


def run(
    instance: dg.DagsterInstance, *assets: dg.AssetsDefinition, broken: tuple[str, ...] = ()
) -> None:
    BROKEN.clear()
    BROKEN.update(broken)
    keys = [asset.key for asset in assets]
    JOB.execute_in_process(asset_selection=keys, instance=instance, raise_on_error=False)


def test_an_asset_fails_from_its_failed_run_to_its_next_good_one(
    instance: dg.DagsterInstance,
) -> None:
    failing = FailingAssets(instance)
    assert failing.look(KNOWN) == []
    run(instance, orders, broken=("orders",))
    assert failing.look(KNOWN) == [TOLD]
    assert failing.look(KNOWN) == [TOLD], "as long as it is so"
    run(instance, invoices)
    assert failing.look(KNOWN) == [TOLD], "a run of another asset mends nothing"
    run(instance, orders)
    assert failing.look(KNOWN) == []


def test_the_first_line_of_another_error_is_the_reason_and_what_went_well_beside_it_is_not_told(
    instance: dg.DagsterInstance,
) -> None:
    run(instance, orders, invoices, broken=("invoices",))
    assert FailingAssets(instance).look(KNOWN) == [
        "invoices failed in its last run: ZeroDivisionError: division by zero"
    ]


def test_each_of_two_assets_that_fail_in_one_run_has_its_own_reason(
    instance: dg.DagsterInstance,
) -> None:
    run(instance, orders, invoices, broken=("orders", "invoices"))
    assert FailingAssets(instance).look(KNOWN) == [
        "invoices failed in its last run: ZeroDivisionError: division by zero",
        TOLD,
    ]


def test_what_failed_before_the_process_started_is_told_unless_the_project_has_it_no_more(
    instance: dg.DagsterInstance,
) -> None:
    run(instance, orders, broken=("orders",))
    assert FailingAssets(instance).look(KNOWN) == [TOLD]
    assert FailingAssets(instance).look({invoices.key}) == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            TransformError("Spark failed on the transform of table orders"),
            "Spark failed on the transform of table orders",
        ),
        (
            ValueError("orchestration.x.Y: said by another"),
            "ValueError: orchestration.x.Y: said by another",
        ),
    ],
    ids=["ours", "another's"],
)
def test_the_class_of_an_error_of_ours_is_no_part_of_its_sentence(
    instance: dg.DagsterInstance, error: Exception, why: str
) -> None:
    @dg.asset
    def broken() -> None:
        """Fails."""
        raise error

    job = dg.Definitions(assets=[broken]).resolve_implicit_global_asset_job_def()
    job.execute_in_process(asset_selection=[broken.key], instance=instance, raise_on_error=False)
    assert FailingAssets(instance).look({broken.key}) == [f"broken failed in its last run: {why}"]


def test_runs_are_asked_for_now_and_then_while_no_event_comes(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
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


ORDERS = TopicSpec(name="orders", schema="id STRING")
START = datetime(2026, 1, 1, tzinfo=UTC)


@spark_table(topic=ORDERS, minimum_interval_s=15)
def clean_orders(records: Any) -> Any:
    """Orders."""
    return records.select("id", "_topic_id", "_partition", "_offset")


def revenue(*, is_automated: bool) -> dg.AssetsDefinition:
    return mart(
        "revenue",
        sql="SELECT id FROM clean_orders",
        tables=[clean_orders],
        is_automated=is_automated,
    )


@pytest.mark.parametrize(
    ("asset", "failures", "after_s", "told"),
    [
        (clean_orders, 1, 1, "tried again at 00:00:15 UTC"),
        (clean_orders, 3, 1, "tried again at 00:00:40 UTC"),
        (clean_orders, 3, 41, "tried again now"),
        (revenue(is_automated=True), 1, 61, "tried again at 00:05:00 UTC"),
        (revenue(is_automated=False), 1, 61, "tried again when a person or a schedule starts it"),
        (orders, 1, 1, ""),
    ],
)
def test_it_is_told_when_a_failed_asset_is_tried_again(
    instance: dg.DagsterInstance,
    asset: dg.AssetsDefinition,
    failures: int,
    after_s: float,
    told: str,
) -> None:
    """It was said nowhere."""
    tags = {"dagster/failure_reason": "STEP_FAILURE", TABLE_TAG: "clean_orders"}
    for _ in range(failures):
        run = dg.DagsterRun(
            job_name="job",
            status=dg.DagsterRunStatus.FAILURE,
            tags=tags,
            asset_selection=frozenset({asset.key}),
        )
        instance.run_storage.add_historical_run(run, START)
    (line,) = FailingAssets(instance).look(
        {asset.key}, retries_of([asset]), now_s=START.timestamp() + after_s
    )
    assert line.partition(MOMENTARY)[2] == told


def test_a_failure_from_before_the_last_load_of_the_project_says_so(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a correction the old failure was told as if it were one of the new load."""
    run(instance, orders, broken=("orders",))
    loaded = ModuleType(DEFINITIONS)
    vars(loaded)["LOADED_S"] = time.time() + 60
    monkeypatch.setitem(sys.modules, DEFINITIONS, loaded)
    assert FailingAssets(instance).look(KNOWN) == [
        f"{TOLD}{MOMENTARY}the project was loaded anew since"
    ]
