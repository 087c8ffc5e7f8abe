"""Tables of databases in Dagster have materializations, rejections, sensors and replays."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from orchestration.assembly import assemble
from orchestration.quality import quarantine
from orchestration.resources.database import open_engine
from orchestration.sensing.new_records import decide_runs
from orchestration.sensing.topic_sensor import Clock, Watch
from orchestration.topics.spec import topic_asset
from orchestration.transforms import spark_duckdb_table, spark_sql_table, table_key, topic_feeds
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.kinds import kinds_of
from orchestration.transforms.ledger import ledger
from orchestration.transforms.to_database.declarations import DatabaseTable
from tests.platform.accounts import ACCOUNTS, append_account, newest_accounts
from tests.platform.assets_world import World, failure_of
from tests.platform.history_jobs import output_of

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
RULES = (quarantine("balance_is_positive", "balance >= 0"),)


@spark_sql_table(
    topic=ACCOUNTS, key="id", deleted_when="status = 'CLOSED'", rules=RULES, table="accounts_now"
)
def accounts_sql(records: Any) -> Any:
    """Accounts for the service."""
    return newest_accounts(records)


@spark_duckdb_table(topic=ACCOUNTS)
def account_changes(records: Any) -> Any:
    """Every change of an account."""
    return newest_accounts(records)


accounts_topic = topic_asset(ACCOUNTS)
KEY = table_key("accounts_sql")


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        yield World(tmp_path, spark, instance)


def materialize(world: World, asset: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [asset], resources=world.resources, instance=world.instance, raise_on_error=False
    )


def accounts(world: World) -> list[tuple[Any, ...]]:
    engine = open_engine(world.database_url)
    with engine.begin() as connection:
        found = connection.execute(
            sa.text("SELECT id, balance, status FROM accounts_now ORDER BY id")
        ).all()
    engine.dispose()
    return [tuple(row) for row in found]


def test_a_run_tells_what_it_committed_and_where(world: World) -> None:
    assert materialize(world, accounts_topic).success
    append_account(world.log, 0, "a", 1)
    append_account(world.log, 0, "b", 2)
    append_account(world.log, 0, "x" * 300, 2)
    append_account(world.log, 1, "c", -1)
    assert materialize(world, accounts_sql).success
    append_account(world.log, 0, "a", 5)
    append_account(world.log, 0, "b", None)
    append_account(world.log, 1, "d", 7, "closed")
    result = materialize(world, accounts_sql)
    assert result.success, failure_of(result)
    assert accounts(world) == [("a", 5, "OPEN")]
    values = world.values(KEY)
    labels = (
        "records",
        "rows_inserted",
        "rows_updated",
        "rows_deleted",
        "rows_written",
        "dead_letters",
        "lag",
    )
    assert [values[name] for name in labels] == [3, 0, 1, 1, 1, 0, 0]
    assert values["target"].endswith("#accounts_now")
    assert world.warehouse.query(
        "SELECT rule, reason FROM dead_letters ORDER BY rule"
    ).to_pylist() == [
        {"rule": "balance_is_positive", "reason": "balance >= 0 does not hold"},
        {"rule": "storable", "reason": "id is a key and longer than 255 letters"},
    ]
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["tidelog/range"] == "0:[3,5) 1:[1,2)"
    count = len(world.instance.fetch_materializations(KEY, limit=10).records)
    assert materialize(world, accounts_sql).success
    assert len(world.instance.fetch_materializations(KEY, limit=10).records) == count


def test_a_tombstone_whose_key_no_row_can_have_is_a_dead_letter(world: World) -> None:
    """The driver, or the table of deleted keys, refused it, in each run at the same record."""
    materialize(world, accounts_topic)
    append_account(world.log, 0, "a", 1)
    append_account(world.log, 0, "y" * 300, None)
    result = materialize(world, accounts_sql)
    assert result.success, failure_of(result)
    assert accounts(world) == [("a", 1, "OPEN")]
    assert world.warehouse.query("SELECT _offset, rule, reason FROM dead_letters").to_pylist() == [
        {"_offset": 1, "rule": "storable", "reason": "id is a key and longer than 255 letters"}
    ]


def test_a_number_inside_a_value_that_json_has_none_for_is_a_dead_letter(world: World) -> None:
    @spark_sql_table(topic=ACCOUNTS, key="id", table="accounts_nested", name="accounts_nested")
    def nested(records: Any) -> Any:
        return newest_accounts(records).selectExpr(
            "*", "array(IF(balance = 1, double('NaN'), 1.0D)) AS shares"
        )

    materialize(world, accounts_topic)
    for identity, balance in [("good", 0), ("odd", 1)]:
        append_account(world.log, 0, identity, balance)
    result = materialize(world, nested)
    assert result.success, failure_of(result)
    assert world.warehouse.query("SELECT _offset, rule, reason FROM dead_letters").to_pylist() == [
        {
            "_offset": 1,
            "rule": "storable",
            "reason": "the column shares is NaN or infinite, which JSON has no number for",
        }
    ]


def test_a_far_time_that_the_function_computes_is_a_dead_letter_and_stops_nothing(
    world: World,
) -> None:
    """Python has no year 57971, and the driver no text for it: each run failed at the same record."""

    @spark_sql_table(topic=ACCOUNTS, key="id", table="accounts_seen", name="accounts_seen")
    def seen(records: Any) -> Any:
        at = "IF(balance = 1, timestamp_millis(1769860800000000), timestamp_millis(1769860800000)) AS at"
        return newest_accounts(records).selectExpr("*", at, "array(at) AS all_of_them")

    materialize(world, accounts_topic)
    for identity, balance in [("near", 0), ("far", 1)]:
        append_account(world.log, 0, identity, balance)
    result = materialize(world, seen)
    assert result.success, failure_of(result)
    engine = open_engine(world.database_url)
    with engine.begin() as connection:
        assert connection.execute(sa.text("SELECT id FROM accounts_seen")).all() == [("near",)]
    engine.dispose()
    assert world.warehouse.query("SELECT _offset, rule, reason FROM dead_letters").to_pylist() == [
        {"_offset": 1, "rule": "storable", "reason": "at is a time beyond the years 1 to 9999"}
    ]


def test_a_duckdb_table_is_asked_by_its_name_beside_tables_and_marts(world: World) -> None:
    materialize(world, accounts_topic)
    append_account(world.log, 0, "a", 1)
    append_account(world.log, 0, "a", 2)
    assert materialize(world, account_changes).success
    assert world.warehouse.query(
        "SELECT id, balance FROM account_changes ORDER BY balance"
    ).to_pylist() == [
        {"id": "a", "balance": 1},
        {"id": "a", "balance": 2},
    ]
    assert (
        world.warehouse.build("richest", "SELECT max(balance) AS most FROM account_changes").rows
        == 1
    )


def test_what_a_killed_run_could_not_tell_the_next_one_tells(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    materialize(world, accounts_topic)
    append_account(world.log, 0, "a", 1)
    with monkeypatch.context() as patched:
        patched.setattr(ledger, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert not materialize(world, accounts_sql).success
    assert world.values(KEY) == {}
    assert materialize(world, accounts_sql).success
    assert world.values(KEY)["kind"] == "recovered"
    assert accounts(world) == [("a", 1, "OPEN")]


def test_a_database_that_refuses_fails_the_run_and_nothing_is_lost(world: World) -> None:
    materialize(world, accounts_topic)
    append_account(world.log, 0, "a", 1)
    engine = open_engine(world.database_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE accounts_now (id TEXT)"))
    assert "lacks columns of the result: _topic_id" in failure_of(materialize(world, accounts_sql))
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE accounts_now"))
    engine.dispose()
    assert materialize(world, accounts_sql).success
    assert accounts(world) == [("a", 1, "OPEN")]


def run_job(world: World, table: str, **config: Any) -> dg.ExecuteInProcessResult:
    jobs = [
        job for kind in kinds_of([accounts_sql, account_changes]) for job in kind.definitions().jobs
    ]
    definitions = dg.Definitions(
        jobs=jobs, resources=world.resources, executor=dg.in_process_executor
    )
    resolved = definitions.resolve_job_def(f"replay_{table}")
    return resolved.execute_in_process(
        {"ops": {"replay": {"config": config}}}, instance=world.instance, raise_on_error=False
    )


def test_the_job_and_the_history_of_a_table_replay_into_the_database(world: World) -> None:
    materialize(world, accounts_topic)
    append_account(world.log, 0, "a", 1)
    append_account(world.log, 0, "b", -2)
    append_account(world.log, 1, "c", 3)
    assert materialize(world, accounts_sql).success
    assert materialize(world, account_changes).success
    planned = output_of(run_job(world, "accounts_sql", everything=True, dry_run=True))
    assert planned == {"offsets": "0:[0,2) 1:[0,1)", "offset_count": 3, "dry_run": True}
    fix = {"partition": 0, "offset": 1, "value": '{"id": "b", "balance": 2, "status": "open"}'}
    ran = run_job(world, "accounts_sql", fixes=[fix])
    assert ran.success, failure_of(ran)
    assert accounts(world) == [("a", 1, "OPEN"), ("b", 2, "OPEN"), ("c", 3, "OPEN")]
    values = world.values(KEY)
    assert [
        values[name]
        for name in ("kind", "records", "rows_inserted", "rows_updated", "dead_letters")
    ] == ["replay", 1, 1, 0, 0]
    assert values["tidelog/checkpoint"] == "id-of-accounts 0:2 1:1"
    (history,) = kinds_of([account_changes])[0].definitions().assets
    backfill = {
        "dagster/asset_partition_range_start": "2023-11-14",
        "dagster/asset_partition_range_end": "2023-11-15",
    }
    ran = dg.materialize(
        [account_changes, history],
        selection=[history.key],
        resources=world.resources,
        instance=world.instance,
        tags=backfill,
        raise_on_error=False,
    )
    assert ran.success, failure_of(ran)
    assert {name: world.values(history.key)[name] for name in ("records", "rows", "offsets")} == {
        "records": 3, "rows": 3, "offsets": "0:[0,2) 1:[0,1)",
    }  # fmt: skip
    assert world.warehouse.query("SELECT count(*) AS n FROM account_changes").to_pylist() == [
        {"n": 3}
    ]
    assert "reaches above the checkpoint 2" in failure_of(
        run_job(world, "accounts_sql", offsets=[{"partition": 0, "start": 1, "end": 9}])
    )


def test_the_sensor_starts_runs(world: World) -> None:
    module = ModuleType("assets.accounts")
    vars(module).update(
        accounts_topic=accounts_topic, accounts_sql=accounts_sql, account_changes=account_changes
    )
    definitions = assemble([module])
    graph = definitions.resolve_asset_graph()
    assert graph.get(KEY).parent_keys == {ACCOUNTS.asset_key}
    assert graph.get(dg.AssetKey(["lake", "dead_letters"])).parent_keys == {
        KEY,
        table_key("account_changes"),
    }
    assert graph.has(dg.AssetKey(["history", "accounts_sql_by_day"]))

    materialize(world, accounts_topic)
    append_account(world.log, 0, "a", 1)
    now_s = time.time()

    def started() -> tuple[str, ...]:
        clock = Clock(now_s=lambda: now_s)
        feeds = topic_feeds([accounts_sql])
        watch = Watch(
            log=world.log,
            lake=world.lake,
            instance=world.instance,
            feeds=feeds,
            minimum_interval_s=5,
            clock=clock,
        )
        return decide_runs(watch.states(watch.lags()), now_s).start

    assert started() == ("accounts_sql",)
    assert materialize(world, accounts_sql).success
    now_s += 60
    assert started() == ()


@pytest.mark.parametrize(
    ("changes", "table", "told"),
    [
        ({"unique_by": ("id",), "latest_by": ()}, "t", "no unique_by"),
        ({"is_evolving": True}, "t", "no is_evolving"),
        ({}, "tidelog_t", "cannot be a table's name"),
        ({}, "a-b", "cannot be a table's name"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_declared(
    changes: dict[str, Any], table: str, told: str
) -> None:
    declared = {
        "name": "t",
        "topic": ACCOUNTS,
        "function": newest_accounts,
        "latest_by": ("id",),
        **changes,
    }
    with pytest.raises(ValueError, match=told):
        DatabaseTable(follower=TopicTable(**declared), table=table, kind="sql")
