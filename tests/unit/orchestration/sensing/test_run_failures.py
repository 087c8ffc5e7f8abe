"""The sensor tells some of the failed runs, and counts those that are failures of a table."""

from uuid import uuid4

import dagster as dg
import pytest

from orchestration.sensing import Alert, decide_alert
from orchestration.sensing.past_runs import failures_in_a_row
from orchestration.sensing.run_failures import failed_assets, named, run_failure_alerts
from orchestration.sensing.topic_sensor import TABLE_TAG

STEP_FAILED = {"dagster/failure_reason": "STEP_FAILURE"}
DIED = {"dagster/failure_reason": "RUN_EXCEPTION"}


def is_reported(failures: int, tags: dict[str, str] | None = None) -> bool:
    alert = decide_alert(
        subject="orders", run_id="r", tags=tags or STEP_FAILED, failures=failures, why="no disk"
    )
    return alert is not None


def test_failures_in_a_row_are_told_ever_more_rarely() -> None:
    assert [count for count in range(1, 20) if is_reported(count)] == [1, 2, 4, 8, 16]


def test_the_text_says_who_failed_how_often_and_why() -> None:
    alert = decide_alert(subject="orders", run_id="r1", tags=STEP_FAILED, failures=2, why="no disk")
    assert alert is not None
    assert alert.text == "orders failed 2 times in a row: no disk (run r1)"


KEYS = [dg.AssetKey(["marts", name]) for name in "cadeb"]


def test_a_run_of_assets_is_told_by_those_that_failed() -> None:
    """Runs of assets have one job for all, whose name says nothing."""
    assert named(failed_assets(KEYS, ["marts__d", "elsewhere"])) == "marts/d"
    assert named(failed_assets(KEYS[:2], [])) == "marts/a and marts/c"
    assert named(failed_assets(KEYS, [])) == "marts/a, marts/b, marts/c and 2 more"
    assert named(failed_assets((), ["step"])) == ""


def test_a_killed_run_that_is_tried_again_is_not_told() -> None:
    assert not is_reported(0, {**DIED, "dagster/will_retry": "true"})
    assert is_reported(0, {**DIED, "dagster/will_retry": "false"})


def run(status: dg.DagsterRunStatus, tags: dict[str, str] | None = None) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="job", status=status, tags=tags or {})


FAILED = run(dg.DagsterRunStatus.FAILURE, STEP_FAILED)
KILLED = run(dg.DagsterRunStatus.FAILURE, DIED)
SUCCEEDED = run(dg.DagsterRunStatus.SUCCESS)


@pytest.mark.parametrize(
    ("runs", "count"),
    [
        ([], 0),
        ([SUCCEEDED, FAILED], 0),
        ([FAILED, FAILED, SUCCEEDED, FAILED], 2),
        ([KILLED, FAILED], 1),
        ([KILLED, KILLED], 0),
    ],
)
def test_failures_count_from_the_newest_run_and_killed_ones_do_not(
    runs: list[dg.DagsterRun], count: int
) -> None:
    assert failures_in_a_row(runs) == count


def tell(
    runs: list[dg.DagsterRun], told: list[Alert] | None, heard: dg.DagsterRun | None = None
) -> list[str]:
    """Report the failure of ``heard``, or of the last of ``runs``, to the sensor.

    Return its descriptions on the assets of the table and the mart.
    """
    event = dg.DagsterEvent(
        dg.DagsterEventType.RUN_FAILURE.value, job_name="job", message="no disk"
    )
    with dg.DagsterInstance.ephemeral() as instance:
        for one in runs:
            instance.add_run(one)
        context = dg.build_run_status_sensor_context(
            sensor_name="run_failures",
            dagster_event=event,
            dagster_instance=instance,
            dagster_run=heard or runs[-1],
        )
        run_failure_alerts(notify=None if told is None else told.append)(context.for_run_failure())
        keys = [dg.AssetKey(["lake", "orders"]), dg.AssetKey(["marts", "a"])]
        found = [
            record for key in keys for record in instance.fetch_observations(key, limit=10).records
        ]
    return [
        str(record.asset_observation.description)
        for record in found
        if record.asset_observation is not None
    ]


@pytest.mark.parametrize(
    ("failures", "is_heard"), [(8, True), (15, False), (16, True), (64, True), (1_500, False)]
)
def test_a_table_that_goes_on_failing_goes_on_being_told(failures: int, is_heard: bool) -> None:
    told: list[Alert] = []
    tags = {TABLE_TAG: "orders", **STEP_FAILED}
    runs = [
        dg.DagsterRun(
            job_name="job", run_id=str(uuid4()), status=dg.DagsterRunStatus.FAILURE, tags=tags
        )
        for _ in range(failures)
    ]
    shown = tell(runs, told)
    assert [one.text for one in told] == [
        f"orders failed {failures} times in a row: no disk (run {runs[-1].run_id})"
    ] * is_heard
    assert shown == [one.text for one in told]


def test_a_run_of_no_table_is_told_on_its_assets_or_by_its_job_also_without_a_hook() -> None:
    of_mart = dg.DagsterRun(
        job_name="job",
        status=dg.DagsterRunStatus.FAILURE,
        asset_selection=frozenset({dg.AssetKey(["marts", "a"])}),
    )
    assert tell([of_mart], None) == [f"marts/a failed: no disk (run {of_mart.run_id})"]
    of_nothing = dg.DagsterRun(job_name="tidy_up", status=dg.DagsterRunStatus.FAILURE)
    told: list[Alert] = []
    assert tell([of_nothing], told) == []
    assert [one.subject for one in told] == ["tidy_up"]


def test_a_step_that_failed_is_told_though_its_run_is_tried_again() -> None:
    assert is_reported(1, {**STEP_FAILED, "dagster/will_retry": "true"})


def test_a_failure_that_is_heard_after_the_next_ones_counts_as_the_one_that_it_was() -> None:
    """Two runs may have failed until the sensor hears of the first.

    Each was told as the second, and of three none was told.
    """
    told: list[Alert] = []
    tags = {TABLE_TAG: "orders", **STEP_FAILED}
    runs = [
        dg.DagsterRun(
            job_name="job", run_id=str(uuid4()), status=dg.DagsterRunStatus.FAILURE, tags=tags
        )
        for _ in range(3)
    ]
    for heard in runs:
        tell(runs, told, heard)
    assert [(one.failures, one.run_id) for one in told] == [
        (1, runs[0].run_id),
        (2, runs[1].run_id),
    ]


@dg.asset(key=["marts", "a"])
def mart_a() -> None:
    """Fails."""
    raise dg.Failure("no column amount")


@dg.asset(key=["marts", "b"])
def mart_b() -> None:
    """Fails for another reason."""
    raise dg.Failure("no table orders")


def test_each_of_two_assets_that_fail_in_one_run_has_its_own_reason() -> None:
    """Both had the reason of the first."""
    job = dg.Definitions(assets=[mart_a, mart_b]).resolve_implicit_global_asset_job_def()
    told: list[Alert] = []
    with dg.DagsterInstance.ephemeral() as instance:
        ran = job.execute_in_process(
            asset_selection=[mart_a.key, mart_b.key], instance=instance, raise_on_error=False
        )
        event = dg.DagsterEvent(
            dg.DagsterEventType.RUN_FAILURE.value, job_name="job", message="2 steps failed"
        )
        context = dg.build_run_status_sensor_context(
            sensor_name="run_failures",
            dagster_event=event,
            dagster_instance=instance,
            dagster_run=ran.dagster_run,
        )
        run_failure_alerts(notify=told.append)(context.for_run_failure())
        shown = {
            asset.key: [
                str(one.asset_observation.metadata["failure"].value)
                for one in records
                if one.asset_observation is not None
            ]
            for asset in (mart_a, mart_b)
            for records in [instance.fetch_observations(asset.key, limit=10).records]
        }
    assert shown == {mart_a.key: ["no column amount"], mart_b.key: ["no table orders"]}
    assert [one.why for one in told] == ["marts/a: no column amount; marts/b: no table orders"]
