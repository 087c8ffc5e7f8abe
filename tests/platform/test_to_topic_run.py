"""Runs of a transform to a topic send records, put some aside, and go on later.

The log is in memory.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.schemas import SchemaConflictError
from orchestration.lake.tables import Lake
from orchestration.log_client.protocol import CommittedOffset, SenderFencedError
from orchestration.offsets.planning import ProgressError
from orchestration.quality import Suite, expect
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.errors import TransformError
from orchestration.transforms.run.context import TopicRunResult
from orchestration.transforms.to_topic.declarations import TopicTransform
from tests.platform.good_orders import (
    GROUP,
    expected_records,
    good_orders,
    orders_transform,
    sending_of,
)
from tests.platform.pipeline import letters_of, order, run_context
from tests.unit.orchestration.memory_log import MemoryLog, MemorySender

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.add_topic("orders", 2)
    return log


class Runner:
    """Runs a transform as often as a test wants, each time with another sender."""

    def __init__(self, log: MemoryLog, lake_root: Path, spark: Any) -> None:
        self.log, self.lake_root, self.spark = log, lake_root, spark
        self.notes: list[str] = []

    def run(
        self,
        transform: TopicTransform | None = None,
        *,
        trusted: bool = False,
        size: int = 1 << 20,
        **context: Any,
    ) -> TopicRunResult:
        made = run_context(self.log, self.lake_root, self.spark, **context)
        with self.log.open_sender(GROUP) as sender:
            table, work = sending_of(
                transform or orders_transform(),
                sender,
                is_memory_trusted=trusted,
                transaction_bytes=size,
            )
            try:
                return work.run(table, made)
            finally:
                self.notes = made.reporter.notes  # type: ignore[attr-defined]

    def values(self) -> list[bytes]:
        return [
            one[3]
            for part in self.log.topics["orders"].partitions
            for one in part.records.values()
            if one[3] is not None
        ]

    def sent(self) -> Counter[tuple[Any, Any]]:
        return Counter(
            (one.key, one.value)
            for topic, records in self.log.sent
            for one in records
            if topic == "good_orders"
        )

    def offsets(self) -> dict[int, int]:
        return {
            partition: one.next_offset
            for partition, one in self.log.groups[GROUP, "orders"].items()
        }

    def ledger(self, *columns: str) -> list[tuple[Any, ...]]:
        rows = (
            Lake(self.lake_root)
            .existing("good_orders")
            .dataset()
            .to_table(columns=list(columns))
            .to_pylist()
        )
        return sorted((tuple(row.values()) for row in rows), key=str)


@pytest.fixture
def runner(log: MemoryLog, lake_root: Path, spark: Any) -> Runner:
    return Runner(log, lake_root, spark)


def append(log: MemoryLog) -> None:
    for number, partition in enumerate(log.topics["orders"].partitions):
        for position in range(4):
            partition.append(order(f"{number}-{position}", position))
        partition.append(b"nonsense")
        partition.append(order("skipped", 3))
        partition.skip(2)


def test_each_record_becomes_its_records_or_a_dead_letter_in_one_transaction(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    append(log)
    result = runner.run()
    assert len(log.sent) == 1
    assert runner.sent() == expected_records(runner.values())
    assert runner.offsets() == {0: 8, 1: 8}
    assert [(one[0], one[1], one[2]) for one in letters_of(lake_root)] == [
        (number, offset, rule)
        for number in (0, 1)
        for offset, rule in [(0, "amount_is_positive"), (4, "schema")]
    ]
    assert result.batch is not None
    assert (
        result.batch.rows.num_rows,
        result.batch.filtered,
        result.batch.rows.column_names[-1],
    ) == (8, 2, "copy")
    assert result.sent == {
        "records_sent": 8,
        "tombstones": 0,
        "transactions": 1,
        "target": "good_orders",
    }
    assert log.topics["good_orders"].partitions[0].records
    assert len(log.topics["good_orders"].partitions) == 2
    places = runner.ledger("_partition", "start_offset", "end_offset", "records_sent", "target")
    assert places == [(0, None, 8, 4, "good_orders"), (1, None, 8, 4, "good_orders")]
    assert runner.run().version is None
    assert len(log.sent) == 1


def test_a_large_result_takes_several_transactions_each_with_just_its_offsets(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    append(log)
    result = runner.run(size=100)
    assert result.sent is not None
    assert result.sent["transactions"] == len(log.sent) == 4
    assert runner.sent() == expected_records(runner.values())
    assert runner.offsets() == {0: 8, 1: 8}
    assert len(letters_of(lake_root)) == 4


def test_limits_cut_a_backlog_into_runs(runner: Runner, log: MemoryLog) -> None:
    append(log)
    backlogs = [runner.run(records_per_run=6).backlog for _ in range(3)]
    assert backlogs == [10, 4, 0]
    assert runner.sent() == expected_records(runner.values())


def test_a_fail_rule_or_a_blocking_expectation_sends_nothing(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    log.topics["orders"].partitions[0].append(order("x" * 30))
    assert runner.run().failures == ("rule id_is_short: 1 row violates length(id) < 20",)
    suite = Suite(expect("expect_table_column_count_to_equal", value=3, is_blocking=True))
    assert (
        "table_column_count_to_equal"
        in runner.run(orders_transform(rules=(), suite=suite)).failures[0]
    )
    assert log.sent == []
    assert letters_of(lake_root) == []
    seen = Suite(expect("expect_table_column_count_to_equal", value=7, is_blocking=True))
    assert runner.run(orders_transform(rules=(), suite=seen)).failures == ()


def test_a_run_that_another_one_overtook_sends_nothing(
    runner: Runner, log: MemoryLog, lake_root: Path, spark: Any
) -> None:
    append(log)
    with log.open_sender(GROUP) as sender:
        table, slow = sending_of(orders_transform(), sender)
        runner.run()
        before = list(log.sent)
        log.topics["orders"].partitions[0].append(order("late", -1))
        with pytest.raises(SenderFencedError):
            slow.run(table, run_context(log, lake_root, spark))
    assert log.sent == before
    assert len(letters_of(lake_root)) == 4
    runner.run()
    assert len(letters_of(lake_root)) == 5


def test_what_a_killed_run_could_not_tell_the_ledger_is_made_up_for(
    runner: Runner, log: MemoryLog, lake_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log)
    with monkeypatch.context() as patched:
        patched.setattr(
            "orchestration.transforms.ledger.ledger.write",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            runner.run()
    assert letters_of(lake_root) == []
    result = runner.run()
    assert (result.version, result.batch) == (None, None)
    assert len(log.sent) == 1
    assert len(letters_of(lake_root)) == 4
    assert runner.ledger("_partition", "end_offset", "records_sent", "run_id") == [
        (0, 8, None, "run-1"),
        (1, 8, None, "run-1"),
    ]


def test_offsets_that_the_cluster_forgot_stop_a_run_and_a_person_may_trust_the_ledger(
    runner: Runner, log: MemoryLog
) -> None:
    append(log)
    runner.run()
    log.groups.clear()
    with pytest.raises(ProgressError, match="everything before 0:8 1:8 was sent"):
        runner.run()
    log.topics["orders"].partitions[0].append(order("later"))
    runner.run(trusted=True)
    assert runner.offsets() == {0: 9, 1: 8}
    assert runner.sent() == expected_records(runner.values())


def test_a_group_is_reminded_of_its_offsets_once_a_day(runner: Runner, log: MemoryLog) -> None:
    append(log)
    runner.run()
    tomorrow = datetime.now(UTC) + timedelta(days=1, minutes=1)
    runner.run()
    assert len(log.sent) == 1
    runner.run(now=lambda: tomorrow)
    assert log.sent[1:] == [("good_orders", [])]
    assert runner.offsets() == {0: 8, 1: 8}
    assert "reminded the group" in runner.notes[0]


def test_a_person_may_set_the_group_back_and_the_records_are_sent_again(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    append(log)
    runner.run()
    log.groups[GROUP, "orders"][1] = CommittedOffset(next_offset=2)
    runner.run()
    assert len(log.sent) == 2
    assert Counter(one.key for one in log.sent[1][1]) == {b"1-2": 2, b"1-3": 1}
    assert len(letters_of(lake_root)) == 4


def test_a_target_that_was_made_anew_is_built_anew(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    append(log)
    runner.run()
    log.add_topic("good_orders", 2, topic_id="another")
    log.sent.clear()
    runner.run()
    assert runner.sent() == expected_records(runner.values())
    assert runner.notes[0].startswith("topic good_orders was recreated")
    assert len(letters_of(lake_root)) == 4


def test_a_table_of_the_same_name_is_no_ledger(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:

    Lake(lake_root).create("good_orders", pa.schema([pa.field("id", pa.string())]))
    append(log)
    with pytest.raises(SchemaConflictError, match="is not a ledger"):
        runner.run()
    assert log.sent == []


def free_transform(function: Any, **changes: Any) -> TopicTransform:
    return orders_transform(
        **{
            "function": function,
            "target": TopicSpec(name="good_orders", partitions=1),
            "key": None,
            "rules": (),
            **changes,
        }
    )


def test_columns_become_key_headers_time_and_json(runner: Runner, log: MemoryLog) -> None:
    log.topics["orders"].partitions[0].append(
        order("a", 5, note="n"), key=b"k", timestamp_ms=1_700_000_000_123
    )

    def described(records: Any) -> Any:
        return records.selectExpr(
            "_topic_id", "_partition", "_offset", "_timestamp", "_key", "map('note', note, 'none', CAST(NULL AS STRING)) AS _headers",
            "id", "CAST(amount AS DECIMAL(5,2)) AS amount", "CAST(NULL AS STRING) AS nothing", "_timestamp AS at",
            "named_struct('list', array(1, 2), 'day', DATE'2026-01-31') AS inner", "CAST('bytes' AS BINARY) AS data",
        )  # fmt: skip

    runner.run(free_transform(described))
    sent = log.sent[0][1][0]
    assert (sent.key, sent.headers, sent.timestamp_ms) == (
        b"k",
        (("note", b"n"), ("none", None)),
        1_700_000_000_123,
    )
    assert json.loads(sent.value or b"") == {
        "id": "a",
        "amount": 5.0,
        "nothing": None,
        "at": "2023-11-14T22:13:20.123000Z",
        "inner": {"list": [1, 2], "day": "2026-01-31"},
        "data": "Ynl0ZXM=",
    }


def test_rows_that_are_deleted_and_tombstones_that_are_forwarded_have_no_value(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a", 1), key=b"a")
    partition.append(None, key=b"b")
    partition.append(order("c", 0), key=b"c")
    partition.append(None)
    partition.append(order("d", 1), key=b"d")
    result = runner.run(
        orders_transform(rules=(), deleted_when="amount = 0", is_forwarding_tombstones=True)
    )
    sent = [(one.key, one.value is None) for one in log.sent[0][1]]
    assert sent == [(b"a", False), (b"b", True), (b"c", True), (b"c", True), (b"d", False)]
    assert result.sent is not None
    assert result.sent["tombstones"] == 3
    assert [(offset, rule) for _, offset, rule, _ in letters_of(lake_root)] == [(3, "tombstone")]


def test_headers_go_on_as_they_came_also_those_of_tombstones(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    trace = (("trace", b"1"), ("span", None), ("trace", b"\xff2"))
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a", 1), key=b"a", headers=trace)
    partition.append(None, key=b"b", headers=trace)
    partition.append(order("c", 1), key=b"c")
    partition.append(order("d", 0), key=b"d", headers=trace)

    def passed_on(records: Any) -> Any:
        return records.select(
            "_topic_id",
            "_partition",
            "_offset",
            "_headers",
            "id",
            "amount",
            sql.lit(0).alias("copy"),
        )

    runner.run(
        orders_transform(function=passed_on, has_headers=True, is_forwarding_tombstones=True)
    )
    assert [(one.key, one.headers) for one in log.sent[0][1]] == [
        (b"a", trace),
        (b"b", trace),
        (b"c", ()),
    ]
    (letter,) = DeadLetters(Lake(lake_root)).of_target("good_orders")
    assert [tuple(one.values()) for one in letter["headers"]] == list(trace)


def test_a_record_with_a_header_without_name_is_a_dead_letter(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    log.topics["orders"].partitions[0].append(order("a", 1))

    def nameless(records: Any) -> Any:
        named = "array(named_struct('key', CAST(NULL AS STRING), 'value', 'x')) AS _headers"
        return records.selectExpr("_topic_id", "_partition", "_offset", "id", named)

    runner.run(free_transform(nameless))
    assert log.sent[0][1] == []
    assert [one[:3] for one in letters_of(lake_root)] == [(0, 0, "header_name")]


def test_a_result_with_values_of_its_own_sends_just_these(runner: Runner, log: MemoryLog) -> None:
    log.topics["orders"].partitions[0].append(order("a", 1), key=b"k")
    own = free_transform(
        lambda records: records.selectExpr(
            "_topic_id", "_partition", "_offset", "_key", "id", "upper(id) AS _value"
        )
    )
    runner.run(own)
    assert [(one.key, one.value) for one in log.sent[0][1]] == [(b"k", b"A")]


def test_a_record_that_no_broker_would_take_is_a_dead_letter_and_stops_nothing(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    for name in ("a", "b"):
        log.topics["orders"].partitions[0].append(order(name, 1))
    swollen = free_transform(
        lambda records: records.selectExpr(
            "* EXCEPT (note)", "if(id = 'a', repeat('x', 1000000), '') AS note"
        )
    )
    result = runner.run(swollen)
    assert [(offset, rule) for _, offset, rule, _ in letters_of(lake_root)] == [(0, "record_size")]
    assert len(log.sent[0][1]) == 1
    assert result.batch is not None
    assert result.batch.rows.num_rows == 1


def test_a_tombstone_that_the_target_does_not_take_is_a_dead_letter(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    partition = log.topics["orders"].partitions[0]
    partition.append(None, key=b"k" * 1_100_000)
    partition.append(None, key=b"b", headers=[("h", b"x" * 1_100_000)])
    partition.append(None, key=b"c")
    result = runner.run(orders_transform(rules=(), is_forwarding_tombstones=True))
    assert [one.key for one in log.sent[0][1]] == [b"c"]
    assert [(offset, rule) for _, offset, rule, _ in letters_of(lake_root)] == [
        (0, "record_size"),
        (1, "record_size"),
    ]
    assert result.sent is not None
    assert result.sent["tombstones"] == 1


@pytest.mark.parametrize("limited", ["topic", "producer"])
def test_a_record_above_a_lower_limit_of_the_target_or_the_producer_is_a_dead_letter(
    runner: Runner, log: MemoryLog, lake_root: Path, monkeypatch: pytest.MonkeyPatch, limited: str
) -> None:
    if limited == "topic":
        log.add_topic("good_orders").configs["max.message.bytes"] = "5000"
    else:
        monkeypatch.setattr(MemorySender, "max_record_bytes", 5_000)
    partition = log.topics["orders"].partitions[0]
    partition.append(order("a", 1))
    partition.append(order("b", 1))
    partition.append(None, key=b"k" * 6_000)
    swollen = free_transform(
        lambda records: records.selectExpr(
            "* EXCEPT (note)", "if(id = 'a', repeat('x', 6000), '') AS note"
        ),
        is_forwarding_tombstones=True,
    )
    runner.run(swollen)
    assert len(log.sent[0][1]) == 1
    setting = "max.message.bytes 5000" if limited == "topic" else "max_request_size 5000"
    found = letters_of(lake_root)
    assert [(offset, rule) for _, offset, rule, _ in found] == [
        (0, "record_size"),
        (2, "record_size"),
    ]
    assert all("the topic good_orders" in reason for *_, reason in found)
    assert all(setting in reason for *_, reason in found)


def test_a_record_without_key_or_required_field_is_a_dead_letter(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    for name in ("a", "b"):
        log.topics["orders"].partitions[0].append(order(name, 1))
    lacking = orders_transform(
        function=lambda records: good_orders(records).selectExpr(
            "* EXCEPT (id)", "nullif(id, 'a') AS id"
        ),
        rules=(),
    )
    runner.run(lacking)
    assert [(offset, rule, reason) for _, offset, rule, reason in letters_of(lake_root)] == [
        (0, "has_id", "id is null, and the record's key requires it")
    ]
    assert [one.key for one in log.sent[0][1]] == [b"b"]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("CAST(amount AS STRING) AS amount", "amount is declared INT and is STRING"),
        (
            "amount AS total",
            "amount is declared and not in the result; total is in the result and not declared",
        ),
    ],
)
def test_a_result_that_does_not_fit_the_schema_of_the_target_is_refused(
    runner: Runner, log: MemoryLog, expression: str, text: str
) -> None:
    append(log)

    def other(records: Any) -> Any:
        return good_orders(records).selectExpr("* EXCEPT (amount)", expression)

    with pytest.raises(TransformError, match=text):
        runner.run(orders_transform(function=other, rules=()))
    assert log.sent == []


def test_a_number_that_json_cannot_write_is_a_dead_letter_and_not_a_text(
    runner: Runner, log: MemoryLog, lake_root: Path
) -> None:
    """Spark writes "NaN", and the table that follows the target refused each of these records."""
    for amount in range(3):
        log.topics["orders"].partitions[0].append(order(str(amount), amount))

    def shares(records: Any) -> Any:
        share = "IF(amount = 1, double('NaN'), amount / 2) AS share"
        return records.selectExpr("_topic_id", "_partition", "_offset", "id", share)

    result = runner.run(free_transform(shares))
    assert [
        json.loads(one.value)["share"] for _, records in log.sent for one in records if one.value
    ] == [0.0, 1.0]
    assert [(*one[:3], one[3].partition(" column ")[2]) for one in letters_of(lake_root)] == [
        (0, 1, "json_value", "share is NaN or infinite, which JSON has no number for")
    ]
    assert result.batch is not None
    assert result.batch.rows.num_rows == 2


@pytest.mark.parametrize(
    ("columns", "changes", "text"),
    [
        ("id", {"key": "customer"}, "key names the column customer"),
        ("id, array(id) AS parts", {"key": "parts"}, "make it a text, a number or BINARY"),
        (
            "id, id AS _headers",
            {},
            "_headers of good_orders is string: it has to be ARRAY<STRUCT<key: STRING, value: BINARY>>",
        ),
        ("id, map(1, id) AS _headers", {}, "_headers of good_orders is map<int,string>"),
        (
            "id, array(struct(id)) AS _headers",
            {},
            "_headers of good_orders is array<struct<id:string>>",
        ),
        ("id, id AS _timestamp", {}, "_timestamp of good_orders is string"),
        ("amount AS _value", {}, "_value of good_orders is int"),
        ("_key", {}, "has no column to send"),
    ],
)
def test_a_column_that_cannot_be_what_it_is_named_is_refused(
    runner: Runner, log: MemoryLog, columns: str, changes: dict[str, Any], text: str
) -> None:
    append(log)

    def other(records: Any) -> Any:
        return records.selectExpr(
            "_topic_id", "_partition", "_offset", *columns.split(", ", 1 if "(1" in columns else -1)
        )

    with pytest.raises(TransformError, match=text):
        runner.run(free_transform(other, **changes))


def test_a_result_without_provenance_is_refused(runner: Runner, log: MemoryLog) -> None:
    append(log)
    with pytest.raises(TransformError, match="lacks _topic_id, _partition, _offset"):
        runner.run(free_transform(lambda records: records.select("id")))
    with pytest.raises(
        TransformError, match="the transform of table good_orders raised ZeroDivisionError"
    ):
        runner.run(free_transform(lambda _: 1 / 0))
