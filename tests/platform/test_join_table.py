"""A table of two joined topics has each pair once however runs are cut and killed.

Late records are dead letters, and both topics have a lag.
"""

import pickle
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import dagster as dg
import pytest

from orchestration.assembly import assemble
from orchestration.calls.replay import replay
from orchestration.dead_letters.fixes import Fixes
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import CommitConflictError, Lake
from orchestration.maintenance.retention import consumers_of, run_retention
from orchestration.offsets.planning import ProgressError
from orchestration.quality import Suite, expect, fail, quarantine
from orchestration.retained.lag_objective import lag_verdict
from orchestration.sensing.new_records import decide_runs
from orchestration.sensing.topic_sensor import Clock, Watch, lag_event, watermark_event
from orchestration.topics.spec import TopicSpec, topic_asset
from orchestration.transforms import spark_join, table_key, topic_feeds
from orchestration.transforms.errors import NotReadyError, TransformError
from orchestration.transforms.joining import pairs
from orchestration.transforms.joining import run as join_run
from orchestration.transforms.joining.declarations import JoinedTable
from orchestration.transforms.joining.history import join_replay_job
from orchestration.transforms.joining.kind import JoinedKind
from orchestration.transforms.joining.replay import (
    planned_metadata,
    planned_replay,
    run_join_replay,
    summed,
)
from orchestration.transforms.joining.run import JoinRunResult, run_joined_table
from orchestration.transforms.kinds import register
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.context import RunContext
from tests.helpers.declared_kinds import declared_as
from tests.platform import dying, joined
from tests.platform.assets_world import World, failure_of
from tests.platform.dying import KILLED
from tests.platform.joined import (
    AFTER,
    BEFORE,
    COMMITTED,
    LATENESS,
    ON,
    ORDERS,
    PAYMENTS,
    REPLAY_STEPS,
    START,
    STEPS,
    TIMES,
    append_end,
    append_order,
    append_payment,
    append_round,
    expected,
    held,
    joined_table,
    paid_orders,
    run_all,
    shape,
    two_topics,
)
from tests.platform.pipeline import Notes, run_context
from tests.platform.spark_server import warm_server
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(600)]
KEY = table_key("paid_orders")


class DiedError(BaseException):
    """Stands for a kill: nothing of the run is done after it."""


def dying_at(work: Callable[..., Any], when: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> None:
        if when == "after":
            work(*arguments, **named)
        raise DiedError

    return call


@pytest.fixture
def log() -> MemoryLog:
    made = two_topics()
    append_round(made, 0)
    return made


@spark_join(
    left=ORDERS,
    right=PAYMENTS,
    on=ON,
    event_time=TIMES,
    within=(BEFORE, AFTER),
    lateness=LATENESS,
    how="left",
    name="paid_orders",
)
def asset(pairs: Any) -> Any:
    """Orders with their payments."""
    return joined.paid_orders(pairs)


def test_a_declared_join_keeps_no_row_of_a_far_year() -> None:
    """Unless it says so, times may be a day ahead of their records."""
    assert declared_as(JoinedKind, "paid_orders").table.shape.ahead_us == timedelta(
        days=1
    ) // timedelta(microseconds=1)


@pytest.mark.parametrize("limit", [7, 1_000])
def test_runs_of_any_size_make_the_same_rows(
    log: MemoryLog, spark: Any, lake_root: Path, limit: int
) -> None:
    context = run_context(log, lake_root, spark, records_per_run=limit)
    run_all(context)
    append_round(log, 1)
    append_end(log)
    results = run_all(context)
    assert held(lake_root) == expected(log)
    assert DeadLetters(Lake(lake_root)).pending().count_rows() == 0
    state = results[-1].held
    assert state is not None
    assert {side: table.num_rows for side, table in state.kept.items()} == {
        "left": 1,
        "right": 1,
    }, "only the end is waited for"
    assert len(list((lake_root / "paid_orders" / "_join_state").iterdir())) == 1


def test_a_late_record_is_a_dead_letter_and_joins_nothing(spark: Any, lake_root: Path) -> None:
    log = two_topics()
    table = joined_table(shape=shape(lateness=timedelta(seconds=10)))
    context = run_context(log, lake_root, spark)
    append_order(log, "a", 0)
    append_order(log, "b", 200)
    append_payment(log, "b", 200)
    run_all(context, table)
    append_payment(log, "a", 80)
    append_payment(log, "b", 195)
    (result,) = run_all(context, table)
    assert result.sides["right"].rejections[0].rule == "late"
    (letter,) = DeadLetters(Lake(lake_root)).of_target("paid_orders")
    assert (letter["topic"], letter["_offset"]) == ("payments", 1)
    assert letter["reason"].startswith(
        "late by 0:01:50: paid_at is 2024-03-01T10:01:20+00:00, and the watermark was at 2024-03-01T10:03:10"
    )
    assert held(lake_root)[0] == {
        ("a", (0, 0), None): 1,
        ("b", (0, 1), (0, 0)): 1,
        ("b", (0, 1), (0, 2)): 1,
    }


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_ends_at_any_step_is_made_up_for(
    log: MemoryLog, spark: Any, lake_root: Path, step: str
) -> None:
    context = run_context(log, lake_root, spark)
    if step != "after-the-table-is-created":
        run_all(context)
    append_round(log, 1)
    append_end(log)
    before = held(lake_root)
    owner, name, when = STEPS[step]
    with mock.patch.object(owner, name, dying_at(getattr(owner, name), when)), suppress(DiedError):
        run_joined_table(joined_table(), context)
    assert held(lake_root) == (expected(log) if step in COMMITTED else before), step
    append_order(log, "after", 36_001)
    run_all(replace(context, records_per_run=5))
    assert held(lake_root) == expected(log), f"recovered from {step}"


def test_upkeep_leaves_what_is_kept_alone_and_its_loss_is_said(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    context = run_context(log, lake_root, spark, records_per_run=5)
    run_all(context)
    lake = Lake(lake_root)
    assert lake.compact("paid_orders")["numFilesRemoved"] > 0
    assert lake.vacuum("paid_orders", retention_hours=0)
    append_round(log, 1)
    run_all(context)
    assert held(lake_root) == expected(log)
    shutil.rmtree(lake_root / "paid_orders" / "_join_state")
    append_end(log)
    with pytest.raises(ProgressError, match="was the table copied without its folder _join_state"):
        run_joined_table(joined_table(), context)


def replayed(context: RunContext, table: JoinedTable | None = None) -> JoinRunResult:
    return run_join_replay(table or joined_table(), context, ReplayRequest(is_everything=True))


def test_a_replay_of_everything_gives_late_records_their_partners(
    spark: Any, lake_root: Path
) -> None:
    log = two_topics()
    table = joined_table(shape=shape(lateness=timedelta(seconds=10)))
    context = run_context(log, lake_root, spark)
    with pytest.raises(NotReadyError, match="does not exist yet"):
        planned_replay(table, context)
    append_order(log, "a", 0)
    append_order(log, "b", 200)
    append_payment(log, "b", 200)
    run_all(context, table)
    append_payment(log, "a", 80)
    append_payment(log, None, 80)
    run_all(context, table)
    assert len(held(lake_root)[1]) == 2
    register(JoinedKind(table))
    with pytest.raises(ProgressError, match="tidelog replay paid_orders --everything --execute"):
        run_join_replay(table, context, ReplayRequest(is_of_dead_letters=True))
    result = replayed(context, table)
    assert summed(result).metadata() == {
        "rows": 2, "records": 5, "dead_letters": 1, "commits": 1, "offsets": "orders 0:[0,2) payments 0:[0,3)"
    }  # fmt: skip
    assert held(lake_root) == (
        {("a", (0, 0), (0, 1)): 1, ("b", (0, 1), (0, 0)): 1},
        {("id-of-payments", 0, 2)},
    )
    assert run_joined_table(table, context).version is None, "no checkpoint moved"
    append_payment(log, "b", 201)
    run_all(context, table)
    assert held(lake_root)[0]["b", (0, 1), (0, 3)] == 1, "what was kept is kept"


def test_a_replay_leaves_dead_letters_whose_records_were_compacted_away(
    spark: Any, lake_root: Path
) -> None:
    log = two_topics()
    context = run_context(log, lake_root, spark)
    append_order(log, "a", 0)
    append_payment(log, None, 1)
    append_payment(log, None, 2)
    run_all(context, joined_table())
    assert held(lake_root)[1] == {("id-of-payments", 0, 0), ("id-of-payments", 0, 1)}
    del log.topics["payments"].partitions[0].records[0]
    replayed(context, joined_table())
    assert held(lake_root)[1] == {("id-of-payments", 0, 0), ("id-of-payments", 0, 1)}


def test_the_job_reads_what_was_fixed_with_everything_else(tmp_path: Path, spark: Any) -> None:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(tmp_path, spark, instance)
        world.log.topics = two_topics().topics
        append_round(world.log, 0)
        bad = world.log.topics["payments"].partitions[0].append(b'{"id": "x"}')
        result = dg.materialize(
            [asset], resources=world.resources, instance=instance, raise_on_error=False
        )
        assert result.success, failure_of(result)
        letters = DeadLetters(world.lake)
        before = {
            (row["topic"], row["_partition"], row["_offset"])
            for row in letters.of_target("paid_orders")
        }
        assert ("payments", 0, bad) in before
        value = world.log.topics["payments"].partitions[0].records[0][3] or b""
        fixes = [{"topic": "payments", "partition": 0, "offset": bad, "value": value.decode()}]
        job = join_replay_job(declared_as(JoinedKind, "paid_orders").table)

        def run(**config: Any) -> dg.ExecuteInProcessResult:
            asked = {"ops": {"replay": {"config": config}}}
            return job.execute_in_process(
                asked, instance=instance, resources=world.resources, raise_on_error=False
            )

        refused = run(fixes=fixes)
        assert "there is no replay of a part" in failure_of(refused)
        assert Fixes(world.lake).of("paid_orders", "id-of-payments") == {}, (
            "what is refused changes nothing"
        )
        result = run(fixes=fixes, everything=True)
        assert result.success, failure_of(result)
        after = {
            (row["topic"], row["_partition"], row["_offset"])
            for row in letters.of_target("paid_orders")
        }
        assert before - after == {("payments", 0, bad)}


def test_a_replay_leaves_what_is_no_longer_in_the_logs(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    notes = Notes()
    context = run_context(log, lake_root, spark, reporter=notes)
    append_round(log, 1)
    run_all(context)
    append_end(log)
    run_all(context)
    whole = held(lake_root)
    assert whole == expected(log)
    log.delete_records("orders", {0: 2, 1: 1})
    log.delete_records("payments", {0: 4})
    sides = planned_replay(joined_table(), context)
    result = replayed(context)
    assert held(lake_root) == whole
    lost = (
        "retention has removed orders-0 [0, 2), orders-1 [0, 1) from the log; the topic has no archive; "
        "retention has removed payments-0 [0, 4) from the log; the topic has no archive"
    )
    assert (
        planned_metadata(sides)["no_longer_in_the_log"]
        == summed(result).metadata()["no_longer_in_the_log"]
        == lost
    )
    assert notes.notes[-1:] == [f"the replay of paid_orders is not whole: {lost}"]
    replayed(context, joined_table(function=lambda pairs: paid_orders(pairs.where("id LIKE '0%'"))))
    rows = held(lake_root)[0]
    assert 0 < rows.total() < whole[0].total()
    assert not rows - whole[0]
    append_payment(log, "end", 36_001)
    run_all(context)
    assert held(lake_root)[0].total() == rows.total() + 1


@pytest.mark.parametrize("step", REPLAY_STEPS)
def test_a_replay_that_ends_at_any_step_is_whole_or_nothing(
    log: MemoryLog, spark: Any, lake_root: Path, step: str
) -> None:
    context = run_context(log, lake_root, spark)
    run_all(context)
    before, wanted = held(lake_root), expected(log)
    other = joined_table(function=lambda pairs: paid_orders(pairs.where("right.paid IS NULL")))
    owner, name, when = REPLAY_STEPS[step]
    with mock.patch.object(owner, name, dying_at(getattr(owner, name), when)), suppress(DiedError):
        replayed(context, other)
    assert held(lake_root) == (before if step not in COMMITTED else (Counter(), before[1])), step
    replayed(context)
    assert held(lake_root) == wanted
    append_round(log, 1)
    run_all(context)
    assert held(lake_root) == expected(log)


def test_a_rival_is_noticed_before_anything_is_written_twice(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    context = run_context(log, lake_root, spark)
    run_all(context)
    append_round(log, 1)
    computed = pairs.computed

    def slowly(*arguments: Any) -> Any:
        with mock.patch.object(join_run, "computed", computed):
            run_all(context)
        return computed(*arguments)

    with mock.patch.object(join_run, "computed", slowly):
        assert run_joined_table(joined_table(), context).version is None, (
            "the second attempt finds nothing new"
        )
    assert held(lake_root) == expected(log)
    with (
        mock.patch.object(join_run, "validate_unmoved", return_value=None),
        mock.patch.object(join_run, "computed", slowly),
    ):
        append_round(log, 2)
        with pytest.raises(CommitConflictError):
            run_joined_table(joined_table(), replace(context, commit_attempts=1))
    assert held(lake_root) == expected(log)


def test_a_check_that_forbids_commits_nothing_and_too_many_kept_rows_are_said(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    context = run_context(log, lake_root, spark)
    suite = Suite(
        expect("expect_column_values_to_be_between", column="amount", max_value=0, is_blocking=True)
    )
    result = run_joined_table(joined_table(rules=(fail("none", "paid < 0"),), suite=suite), context)
    assert [text.split(":")[0] for text in result.failures] == [
        "rule none",
        "expectation amount_column_values_to_be_between",
    ]
    with pytest.raises(
        ProgressError,
        match=r"would keep 6 rows of orders and 7 of payments .*, and 12 are allowed .*idle_after",
    ):
        run_joined_table(joined_table(state_rows=12), context)
    with pytest.raises(TransformError, match="lacks _right"):
        run_joined_table(
            joined_table(function=lambda pairs: pairs.select("id", "_left"), rules=()), context
        )
    with pytest.raises(TransformError, match="whose _left and _right are not of the batch"):
        run_joined_table(
            joined_table(
                function=lambda pairs: pairs.selectExpr("id", "_left", "_left AS _right"), rules=()
            ),
            context,
        )
    assert Lake(lake_root).snapshot("paid_orders") is None


def test_headers_of_both_records_are_there_also_of_one_that_was_kept_for_its_partner(
    spark: Any, lake_root: Path
) -> None:
    log = two_topics()
    context = run_context(log, lake_root, spark)

    def traced(pairs: Any) -> Any:
        return pairs.selectExpr(
            "id", "left._headers AS ordered", "right._headers AS paid", "_left", "_right"
        )

    table = joined_table(function=traced, has_headers=True)
    orders, payments = (log.topics[name].partitions[0] for name in ("orders", "payments"))
    orders.headers[append_order(log, "a", 0)] = [("trace", b"1"), ("trace", None)]
    append_order(log, "b", 1)
    run_all(context, table)
    payments.headers[append_payment(log, "a", 2)] = [("trace", b"2")]
    payments.headers[append_payment(log, "b", 2)] = [("trace", b"3")]
    run_all(context, table)
    rows = (
        Lake(lake_root)
        .existing("paid_orders")
        .dataset()
        .to_table(columns=["id", "ordered", "paid"])
        .sort_by("id")
        .to_pylist()
    )
    assert rows == [
        {
            "id": "a",
            "ordered": [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}],
            "paid": [{"key": "trace", "value": b"2"}],
        },
        {"id": "b", "ordered": [], "paid": [{"key": "trace", "value": b"3"}]},
    ]


def test_headers_that_were_not_kept_are_null(spark: Any, lake_root: Path) -> None:
    log = two_topics()
    context = run_context(log, lake_root, spark)
    log.topics["orders"].partitions[0].headers[append_order(log, "a", 0)] = [("trace", b"1")]
    untraced = joined_table(
        function=lambda pairs: pairs.selectExpr("id", "false AS is_known", "_left", "_right"),
        rules=(),
    )
    run_all(context, untraced)
    append_payment(log, "a", 2)
    known = joined_table(
        function=lambda pairs: pairs.selectExpr(
            "id", "left._headers IS NOT NULL AS is_known", "_left", "_right"
        ),
        rules=(),
        has_headers=True,
    )
    run_all(context, known)
    assert Lake(lake_root).existing("paid_orders").dataset().to_table(
        columns=["is_known"]
    ).to_pylist() == [{"is_known": False}]


def test_another_declaration_is_refused_and_another_lateness_is_not(
    log: MemoryLog, spark: Any, lake_root: Path
) -> None:
    notes = Notes()
    context = run_context(log, lake_root, spark, reporter=notes)
    run_all(context)
    append_round(log, 1)
    other = joined_table(shape=shape(how="full"))
    with pytest.raises(
        SchemaConflictError,
        match=r"is the left join of orders and payments on id = order_id, .* says full join",
    ):
        run_joined_table(other, context)
    more = TopicSpec(name="orders", partitions=2, schema=f"{ORDERS.schema}, note STRING")
    assert (
        run_joined_table(
            joined_table(left=more, shape=shape(lateness=timedelta(hours=1))), context
        ).version
        is not None
    )
    log.topics["payments"].topic_id = "made-anew"
    append_payment(log, "1-0", 62)
    run_joined_table(joined_table(left=more), context)
    assert notes.notes == [
        "topic payments was recreated: its id is now made-anew (the table also holds id-of-payments); reading starts at its log start"
    ]


def test_dagster_shows_both_topics_and_the_sensor_starts_for_either(
    tmp_path: Path, spark: Any
) -> None:
    orders_topic, payments_topic = topic_asset(ORDERS), topic_asset(PAYMENTS)
    module = ModuleType("assets.orders")
    vars(module).update(orders_topic=orders_topic, payments_topic=payments_topic, paid_orders=asset)
    definitions = assemble([module])
    graph = definitions.resolve_asset_graph()
    assert graph.get(KEY).parent_keys == {ORDERS.asset_key, PAYMENTS.asset_key}
    assert not graph.has(dg.AssetKey(["history", "paid_orders_by_day"]))
    with pytest.raises(ValueError, match=r"joins two topics, .* there is no replay"):
        replay("paid_orders", dead_letters=True)
    assert "replay_paid_orders" in {job.name for job in definitions.resolve_all_job_defs()}
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        world = World(tmp_path, spark, instance)

        def watched() -> Watch:
            clock = Clock(now_s=lambda: time.time() + 60)
            return Watch(
                log=world.log,
                lake=world.lake,
                instance=instance,
                feeds=topic_feeds([asset]),
                minimum_interval_s=5,
                clock=clock,
            )

        def started() -> tuple[str, ...]:
            return decide_runs(watched().states(watched().lags()), time.time() + 60).start

        assert not watched().lags(), "no topic is there yet"
        world.log.topics = two_topics().topics
        append_round(world.log, 0)
        assert started() == ("paid_orders",)
        lag = watched().lags()["paid_orders"]
        told = lag_event(topic_feeds([asset])[0], lag, 1.0).metadata
        lags = [told[name].value for name in ("lag", "lag of orders", "lag of payments")]
        assert lags == [20, 9, 11]
        marked = {watermark_event(one).asset_key for one in lag.each}
        assert marked == {ORDERS.asset_key, PAYMENTS.asset_key}
        assert lag_verdict(world.log, lag, 60, int(time.time() * 1000)).late == 20
        result = dg.materialize(
            [asset], resources=world.resources, instance=instance, raise_on_error=False
        )
        assert result.success, failure_of(result)
        values = world.values(KEY)
        names = "records rows dead_letters late_records kept_left kept_right lag dagster/row_count"
        assert [values[name] for name in names.split()] == [16, 4, 3, 0, 6, 7, 0, 4]
        assert values["kept_bytes"] > 0
        newest = [
            datetime.fromtimestamp(values[name], UTC)
            for name in ("newest_event_left", "newest_event_right", "watermark")
        ]
        assert newest == [START + timedelta(seconds=second) for second in (5, 95, -595)]
        assert values["watermark_seconds_behind"] > 0
        assert {row.data["topic"] for row in values["offsets"].records} == {"orders", "payments"}
        assert world.log.mirrored["tidelog.paid_orders"]
        assert started() == (), "the materialization told of both topics"
        append_payment(world.log, "0-3", 70)
        assert started() == ("paid_orders",), "the right topic has a record"
        assert dg.materialize(
            [asset], resources=world.resources, instance=instance, raise_on_error=False
        ).success
        assert world.values(KEY)["rows"] == 1
        run_retention(world.log, world.lake, consumers_of(topic_feeds([asset]), ["payments"]))
        assert world.log.topics["payments"].partitions[0].log_start_offset > 0
        assert world.log.topics["orders"].partitions[0].log_start_offset == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"right": ORDERS}, "joins the topic orders with itself"),
        ({"shape": shape(on="id")}, "the topic payments has no field id, on which"),
        ({"shape": shape(on={"id": "paid"})}, "string and decimal"),
        (
            {"shape": shape(event_time=("amount", "paid_at"))},
            "name a field of type TIMESTAMP, or _timestamp",
        ),
        ({"right": TopicSpec(name="payments")}, "the topic payments has no schema"),
        ({"shape": shape(how="outer")}, "a join is inner, left, right or full"),
        ({"shape": shape(on=())}, "needs columns to join on"),
        ({"rules": (quarantine("paid", "paid > 0"),)}, "make paid a warn or fail rule"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        joined_table(**changes)


def test_spans_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="lateness of a join is -1 day"):
        shape(lateness=timedelta(seconds=-1))
    with pytest.raises(ValueError, match="no right row is at least"):
        shape(within=(timedelta(seconds=-5), timedelta(seconds=4)))


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warm_server(tmp_path_factory.mktemp("server")) as (url, _):
        yield url


@pytest.mark.repeats("the same story as a run that ends at any step, with processes that die")
def test_each_pair_is_there_once_however_runs_are_killed(
    remote: str, log: MemoryLog, lake_root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "log"

    def exit_code(step: str, limit: int) -> int | None:
        path.write_bytes(pickle.dumps(log))
        return dying.start(
            joined.main, tmp_path, remote, str(path), str(limit), step, str(lake_root)
        ).finish()[0]

    assert exit_code("none", 1_000) == 0
    steps = [step for step in STEPS if "created" not in step]
    for number, step in enumerate(steps, start=1):
        append_round(log, number)
        before = held(lake_root)
        assert exit_code(step, 1_000) == KILLED, step
        assert (held(lake_root) != before) is (step in COMMITTED), step
        assert exit_code("none", 7) == 0, step
        assert held(lake_root) == expected(log), f"recovered from {step}"
