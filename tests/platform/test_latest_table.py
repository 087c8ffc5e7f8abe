"""A table that keeps the newest row of each key: records in, rows and dead letters out."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import Lake
from orchestration.offsets.planning import ProgressError
from orchestration.offsets.ranges import OffsetRange
from orchestration.rows.upserts import remembered_deletions
from orchestration.topics.spec import TopicSpec
from orchestration.transforms import spark_table
from orchestration.transforms.dagster_views.events import topic_materialization
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.errors import TransformError
from orchestration.transforms.replay.plan import ReplayRequest, plan
from orchestration.transforms.run.context import RunContext, TopicRunResult
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.warehouse.store import Warehouse
from tests.platform.accounts import (
    accounts_of,
    accounts_table,
    append_account,
    append_round,
    corrected,
    held_accounts,
    newest_accounts,
)
from tests.platform.pipeline import letters_of, rows_of, run_context
from tests.unit.orchestration.archived import archive
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = pytest.mark.platform
EVERYTHING = ReplayRequest(is_everything=True)


@pytest.fixture
def log() -> MemoryLog:
    made = MemoryLog()
    made.add_topic("accounts", 2)
    return made


def replay(table: TopicTable, context: RunContext, request: ReplayRequest) -> TopicRunResult:
    """Replay, which is one commit for such a table."""
    (result,) = run_replay(table, context, request)
    return result


def correcting(records: Any) -> Any:
    return newest_accounts(records.selectExpr("* EXCEPT (balance)", "3 - balance AS balance"))


@pytest.mark.parametrize("arrow_records", [10_000, 3], ids=["the run reads", "workers read"])
def test_the_newest_row_of_each_key_stays_and_deleted_ones_go(
    log: MemoryLog, lake_root: Path, spark: Any, arrow_records: int
) -> None:
    append_round(log, 1)
    run_topic_table(
        accounts_table(), run_context(log, lake_root, spark, arrow_records=arrow_records)
    )
    assert held_accounts(lake_root) == accounts_of(log)
    append_round(log, 2)
    result = run_topic_table(
        accounts_table(), run_context(log, lake_root, spark, arrow_records=arrow_records)
    )
    assert held_accounts(lake_root) == accounts_of(log)

    assert [(one[0], one[2]) for one in letters_of(lake_root)] == [
        (partition, rule)
        for partition in (0, 1)
        for rule in ("balance_is_positive", "schema", "balance_is_positive", "schema")
    ]
    told = topic_materialization(dg.AssetKey("accounts"), result, datetime.now(UTC)).metadata or {}
    counts = {
        name: told[name]
        for name in (
            "rows_inserted",
            "rows_updated",
            "rows_deleted",
            "dagster/row_count",
            "records",
        )
    }
    assert counts == {
        "rows_inserted": 8,
        "rows_updated": 2,
        "rows_deleted": 4,
        "dagster/row_count": len(accounts_of(log)),
        "records": 22,
    }
    warehouse = Warehouse(lake_root.parent / "warehouse", Lake(lake_root))
    assert warehouse.query("SELECT _offset FROM accounts WHERE id = '1-1'").to_pylist() == [
        {"_offset": 8}
    ]
    found = warehouse.query("SELECT count(*) AS n, sum(balance) AS s FROM accounts")
    assert found.to_pylist() == [{"n": len(accounts_of(log)), "s": sum(accounts_of(log).values())}]


def test_any_number_of_records_a_run_gives_the_same_table(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_round(log, 1)
    append_round(log, 2)
    table = accounts_table(
        rules=(),
        deleted_when=None,
        function=lambda records: records.select(
            "_topic_id", "_partition", "_offset", "_timestamp", "id", "balance"
        ),
    )
    while run_topic_table(table, run_context(log, lake_root, spark, records_per_run=5)).backlog:
        pass
    run_topic_table(table, run_context(log, lake_root / "at-once", spark))
    assert held_accounts(lake_root) == held_accounts(lake_root / "at-once")


def test_a_deletion_counts_until_the_rest_of_the_log_is_read_though_retention_has_removed_it(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    """The deletion was forgotten with the next run.

    The older record of the other partition brought the row back.
    """
    append_account(log, 1, "gone", None)
    for identity in ("x", "y", "z", "gone"):
        append_account(log, 0, identity, 1)
    context = run_context(log, lake_root, spark, records_per_run=2)
    assert run_topic_table(accounts_table(), context).backlog == 3
    log.topics["accounts"].partitions[1].log_start_offset = 1
    while run_topic_table(accounts_table(), context).backlog:
        pass
    assert held_accounts(lake_root) == {"x": 1, "y": 1, "z": 1}
    remembered = remembered_deletions(Lake(lake_root).existing("accounts"))
    assert remembered is None, "all that it could outdate is read"


def test_records_that_can_change_no_key_are_dead_letters(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_account(log, 0, "a", 1)
    log.topics["accounts"].partitions[0].append(None)
    log.topics["accounts"].partitions[0].append(None, key=b"\xff")
    append_account(log, 0, "b", 2)
    append_account(log, 0, "none", 4)

    def keyed(records: Any) -> Any:
        twice = newest_accounts(records).selectExpr(
            "* EXCEPT (id)", "nullif(id, 'none') AS id", "explode(sequence(1, balance)) AS n"
        )
        return twice.where("n < 3").drop("n")

    run_topic_table(accounts_table(function=keyed), run_context(log, lake_root, spark))
    assert held_accounts(lake_root) == {"a": 1}
    assert letters_of(lake_root) == [
        (0, 1, "latest_by", "the value is null, and the key is null: nothing says what to delete"),
        (
            0,
            2,
            "latest_by",
            "the value is null, and the key is not STRING: nothing says what to delete",
        ),
        (0, 3, "latest_by", "the record makes several rows with the same id"),
        (0, 4, "latest_by", "the key column id is null"),
    ]


def test_numbers_are_read_from_the_records_key_and_a_text_names_no_several_columns(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    def numbered(records: Any) -> Any:
        return (
            newest_accounts(records)
            .selectExpr("*", "CAST(substr(id, 2) AS BIGINT) AS number")
            .drop("id")
        )

    for key, balance in [(b"#7", 1), (b"#8", 2)]:
        append_account(log, 0, key.decode(), balance)
    for key in (b"7", b"eight"):
        log.topics["accounts"].partitions[0].append(None, key=key)
    table = accounts_table(function=numbered, latest_by=("number",), name="by_number")
    run_topic_table(table, run_context(log, lake_root, spark))
    assert rows_of(lake_root, "by_number", ("number",)) == [(8,)]
    assert [one[1:] for one in letters_of(lake_root)] == [
        (
            3,
            "latest_by",
            "the value is null, and the key is not BIGINT: nothing says what to delete",
        )
    ]
    several = accounts_table(latest_by=("id", "status"), name="by_two")
    run_topic_table(several, run_context(log, lake_root, spark))
    assert [one[1:3] for one in letters_of(lake_root)] == [
        (2, "latest_by"),
        (3, "latest_by"),
        (3, "latest_by"),
    ]


@pytest.mark.parametrize("arrow_records", [10_000, 1], ids=["the run reads", "workers read"])
@pytest.mark.parametrize("is_declared", [False, True])
def test_deletions_as_debezium_sends_them(
    lake_root: Path, spark: Any, arrow_records: int, is_declared: bool
) -> None:
    """Each delete is followed by a tombstone with the row's key in JSON; those were dead letters.
    Keys of several columns delete, too.
    """
    schema = "before STRUCT<region: STRING, id: INT>, after STRUCT<region: STRING, id: INT, name: STRING>, op STRING"
    topic = TopicSpec(
        name="rows", schema=schema, key_schema="region STRING, id INT" if is_declared else None
    )
    log = MemoryLog()
    partition = log.add_topic("rows").partitions[0]
    for number, name in [(1, "Ada"), (2, "Edsger"), (1, None)]:
        key = {"region": "eu", "id": number}
        envelope = {"schema": {"type": "struct"}, "payload": key} if number == 1 else key
        value = (
            {"before": None, "after": {**key, "name": name}, "op": "c"}
            if name
            else {"before": key, "after": None, "op": "d"}
        )
        partition.append(json.dumps(value).encode(), key=json.dumps(envelope).encode())
        if name is None:
            partition.append(None, key=json.dumps(envelope).encode())
    partition.append(None, key=b"eu/2")

    def rows(records: Any) -> Any:
        return records.where("op <> 'd'").select(
            "after.*", "_topic_id", "_partition", "_offset", "_timestamp"
        )

    table = TopicTable(name="rows", topic=topic, function=rows, latest_by=("region", "id"))
    run_topic_table(table, run_context(log, lake_root, spark, arrow_records=arrow_records))
    assert rows_of(lake_root, "rows", ("region", "id", "name")) == [("eu", 2, "Edsger")]
    told = (
        "the key is not JSON"
        if is_declared
        else "the key is neither a JSON object with region, id nor an array of them, and no key_schema is declared"
    )
    assert letters_of(lake_root) == [
        (0, 4, "latest_by", f"the value is null, and {told}: nothing says what to delete")
    ]


def test_bytes_without_schema_are_kept_by_the_records_key(lake_root: Path, spark: Any) -> None:
    topic = TopicSpec(name="blobs")
    log = MemoryLog()
    partition = log.add_topic("blobs").partitions[0]
    for key, value in [(b"\xff", b"1"), (b"b", b"2"), (b"\xff", b"3"), (b"b", None), (b"c", b"4")]:
        partition.append(value, key=key)
    table = TopicTable(
        name="blobs", topic=topic, function=lambda records: records, latest_by=("_key",)
    )
    run_topic_table(table, run_context(log, lake_root, spark, records_per_run=3))
    run_topic_table(table, run_context(log, lake_root, spark))
    assert rows_of(lake_root, "blobs", ("_key", "_value", "_offset")) == [
        (b"c", b"4", 4),
        (b"\xff", b"3", 2),
    ]


def test_a_replay_of_what_did_not_change_leaves_the_table_as_it_is(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_round(log, 1)
    append_round(log, 2)
    run_topic_table(accounts_table(), run_context(log, lake_root, spark))
    for partition, start, end in [(0, 3, 9), (1, 0, 26), (0, 20, 21)]:
        request = ReplayRequest(ranges=(OffsetRange(partition=partition, start=start, end=end),))
        replay(accounts_table(), run_context(log, lake_root, spark), request)
        assert held_accounts(lake_root) == accounts_of(log)
    replay(accounts_table(), run_context(log, lake_root, spark), EVERYTHING)
    assert held_accounts(lake_root) == accounts_of(log)


def test_a_replay_of_everything_is_as_if_the_records_had_come_once(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_round(log, 1)
    append_round(log, 2)
    run_topic_table(accounts_table(), run_context(log, lake_root, spark))
    letters = letters_of(lake_root)
    result = replay(
        accounts_table(function=correcting),
        run_context(log, lake_root, spark, records_per_run=7),
        EVERYTHING,
    )
    assert held_accounts(lake_root) == accounts_of(log, corrected) != accounts_of(log)
    assert letters_of(lake_root) != letters
    assert result.version == Lake(lake_root).existing("accounts").version


def test_a_replay_that_cannot_know_what_a_row_was_before_is_refused_and_changes_nothing(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    for balance in (1, 2, 5):
        append_account(log, 0, "a", balance)
    run_topic_table(accounts_table(), run_context(log, lake_root, spark))
    request = ReplayRequest(ranges=(OffsetRange(partition=0, start=2, end=3),))
    with pytest.raises(
        ProgressError,
        match=r"1 keys of topic accounts .* 0:2 \(a\)\. Nothing was committed. Replay everything",
    ):
        replay(accounts_table(function=correcting), run_context(log, lake_root, spark), request)
    assert (held_accounts(lake_root), letters_of(lake_root)) == ({"a": 5}, [])
    replay(accounts_table(function=correcting), run_context(log, lake_root, spark), EVERYTHING)
    assert held_accounts(lake_root) == {"a": 1}


def test_dead_letters_are_replayed_and_do_not_outdate_newer_rows(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    for identity, balance in [("a", -1), ("b", -2), ("b", 7), ("c", -3), ("c", None)]:
        append_account(log, 0, identity, balance)
    run_topic_table(accounts_table(), run_context(log, lake_root, spark))
    assert held_accounts(lake_root) == {"b": 7}
    replay(
        accounts_table(rules=()),
        run_context(log, lake_root, spark),
        ReplayRequest(is_of_dead_letters=True),
    )
    assert held_accounts(lake_root) == {"a": -1, "b": 7}
    assert letters_of(lake_root) == []


def test_columns_may_come_where_the_table_may_evolve(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    def more(records: Any) -> Any:
        return newest_accounts(records).selectExpr("*", "balance * 2 AS twice")

    for balance in (1, 2):
        append_account(log, 0, "a", balance)
        append_account(log, 0, f"b{balance}", balance)
        function = more if balance == 2 else newest_accounts
        run_topic_table(
            accounts_table(is_evolving=True, function=function), run_context(log, lake_root, spark)
        )
    assert rows_of(lake_root, "accounts", ("id", "balance", "twice")) == [
        ("a", 2, 4),
        ("b1", 1, None),
        ("b2", 2, 4),
    ]
    append_account(log, 0, "a", 3)
    with pytest.raises(SchemaConflictError, match="twice"):
        run_topic_table(accounts_table(), run_context(log, lake_root, spark))


def test_fields_of_a_struct_may_come_where_the_table_may_evolve(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    def nested(fields: str) -> Any:
        return lambda records: newest_accounts(records).selectExpr(
            "*", f"named_struct({fields}) AS more"
        )

    for balance, fields in ((1, "'n', balance"), (2, "'n', balance, 'twice', balance * 2")):
        append_account(log, 0, "a", balance)
        append_account(log, 0, f"b{balance}", balance)
        run_topic_table(
            accounts_table(is_evolving=True, function=nested(fields)),
            run_context(log, lake_root, spark),
        )
    assert rows_of(lake_root, "accounts", ("id", "more")) == [
        ("a", {"n": 2, "twice": 4}),
        ("b1", {"n": 1, "twice": None}),
        ("b2", {"n": 2, "twice": 4}),
    ]


def test_a_table_stays_what_it_was_declared_as(log: MemoryLog, lake_root: Path, spark: Any) -> None:
    append_account(log, 0, "a", 1)
    run_topic_table(accounts_table(), run_context(log, lake_root, spark))
    others: list[tuple[dict[str, Any], str]] = [
        ({"latest_by": (), "deleted_when": None}, "all rows"),
        ({"latest_by": ("status",)}, "one row by status"),
    ]
    for changes, kept in others:
        with pytest.raises(
            SchemaConflictError,
            match=f"accounts keeps one row by id, and its declaration keeps {kept}",
        ):
            run_topic_table(accounts_table(**changes), run_context(log, lake_root, spark))


def test_a_result_without_key_or_time_is_refused(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_account(log, 0, "a", 1)
    table = accounts_table(
        function=lambda records: records.select(
            "_topic_id", "_partition", "_offset", "balance", "status"
        )
    )
    with pytest.raises(TransformError, match="lacks id, _timestamp: a table with latest_by needs"):
        run_topic_table(table, run_context(log, lake_root, spark))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"latest_by": ("id",), "unique_by": ("id",)}, "cannot have both"),
        ({"deleted_when": "balance < 0"}, "needs latest_by"),
        ({"latest_by": ("id", "id")}, "each once"),
        ({"latest_by": ("_offset",)}, "other columns than a record's place"),
        ({"latest_by": ("id",), "deleted_when": " "}, "has no condition"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        accounts_table(**{"latest_by": (), "deleted_when": None, **declared})


def test_only_a_table_from_a_topic_keeps_the_newest_rows() -> None:
    with pytest.raises(
        ValueError, match=r"latest_by, .* need a topic; newest_accounts comes from tables"
    ):
        spark_table(tables=["accounts"], latest_by=["id"])(newest_accounts)


def test_everything_is_read_from_the_archive_and_a_part_below_the_log_start_is_refused(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    """A deletion that retention removed is forgotten.

    Only a replay that reads it again knows that its key is gone.
    """
    append_account(log, 0, "a", 1)
    append_account(log, 0, "b", 2)
    append_account(log, 0, "a", None)
    context = run_context(log, lake_root, spark)
    run_topic_table(accounts_table(), context)
    archive(log, Lake(lake_root), "accounts")
    whole = accounts_of(log)
    log.delete_records("accounts", {0: 3})
    append_account(log, 0, "c", 3)
    run_topic_table(accounts_table(), context)  # forgets that a was deleted
    assert held_accounts(lake_root) == {**whole, "c": 3} == {"b": 2, "c": 3}

    with pytest.raises(
        ProgressError, match=r"0:\[0,1\) reach below the log start, .* Replay everything instead"
    ):
        replay(
            accounts_table(),
            context,
            ReplayRequest(ranges=(OffsetRange(partition=0, start=0, end=1),)),
        )
    assert (
        "is read only where everything is replayed"
        in plan(accounts_table(), context, ReplayRequest(to_ms=1_700_000_000_001)).lost
    )
    assert held_accounts(lake_root) == {"b": 2, "c": 3}
    result = replay(accounts_table(function=correcting), context, EVERYTHING)
    assert str(result.ranges) == "0:[0,4)"
    assert held_accounts(lake_root) == {"b": 1, "c": 0}


def test_what_lies_before_a_gap_is_left_alone_by_a_replay_of_everything(
    log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append_account(log, 0, "a", 1)
    archive(log, Lake(lake_root), "accounts")
    append_account(log, 0, "a", None)
    context = run_context(log, lake_root, spark)
    run_topic_table(accounts_table(), context)
    log.delete_records("accounts", {0: 2})
    append_account(log, 0, "b", 2)
    run_topic_table(accounts_table(), context)
    result = replay(accounts_table(), context, EVERYTHING)
    assert str(result.ranges) == "0:[2,3)"
    assert held_accounts(lake_root) == {"b": 2}
