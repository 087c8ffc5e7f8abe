"""Runs stop where they have opened enough, and some records are too large.

Nothing is lost, nothing is there twice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from log_service.client import BlockingProducer
from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.log_client.connection import connect
from orchestration.log_client.protocol import RangeReader
from orchestration.offsets.byte_limits import KEPT_VALUE_BYTES, ByteLimits
from orchestration.offsets.ranges import OffsetRange
from orchestration.topics.spec import TopicSpec
from orchestration.transforms.declarations import TopicTable
from orchestration.transforms.replay.plan import ReplayRequest
from orchestration.transforms.run.following import follow
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_lake.replay import run_replay
from orchestration.transforms.to_lake.run import run_topic_table
from orchestration.transforms.to_topic.replay import run_letters_replay
from tests.helpers.broker_process import BrokerProcess
from tests.platform import killed_storing
from tests.platform.accounts import accounts_table, append_account
from tests.platform.databases import database
from tests.platform.good_orders import GROUP, expected_records, orders_transform, sending_of
from tests.platform.grouped import grouped_table
from tests.platform.joined import append_end, append_round, expected, held, run_all, two_topics
from tests.platform.pipeline import (
    append_order,
    clean_orders,
    letters_of,
    order,
    orders_table,
    rows_of,
    run_context,
)
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class OneByOne:
    """Reads a record at a time, as if each were a batch of its own."""

    reader: RangeReader

    def __call__(
        self, topic: str, wanted: OffsetRange, *, topic_id: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        for batch in self.reader(topic, wanted, topic_id=topic_id):
            yield from (batch.slice(row, 1) for row in range(batch.num_rows))


class CompressedLog(MemoryLog):
    """A log whose batches hold a record each."""

    def range_reader(self, *, is_tolerant: bool = False) -> RangeReader:
        return OneByOne(super().range_reader(is_tolerant=is_tolerant))


def log_of(topic: str) -> MemoryLog:
    log = CompressedLog()
    log.add_topic(topic, 2)
    return log


def test_a_run_that_follows_goes_on_behind_what_it_has_opened(lake_root: Path, spark: Any) -> None:
    log = log_of("orders")
    for number in range(10):
        log.topics["orders"].partitions[number % 2].append(order(f"o{number}", note="n" * 1_000))
    context = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=4_000))
    found = list(
        follow(
            orders_table(),
            context,
            run=run_topic_table,
            follow_s=0.01,
            now_s=iter(range(0, 100, 1)).__next__,
        )
    )
    assert [(one.ranges.count, one.backlog) for one in found][:1] == [(4, 6)]
    context = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=4_000))
    while run_topic_table(orders_table(), context).version is not None:
        pass
    assert [one[2] for one in rows_of(lake_root)] == [
        f"o{number}" for number in (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    ]
    assert context.reporter.pinned == [  # type: ignore[attr-defined]
        ("batch", "0:[2,5) 1:[2,5)"),
        ("batch", "0:[2,4) 1:[2,4)"),
        ("batch", "0:[4,5) 1:[4,5)"),
    ]
    assert context.reporter.notes == [  # type: ignore[attr-defined]
        "4 of 6 offsets of topic orders were read: they have the bytes that a run opens at most, 4000 (TIDELOG_BYTES_PER_RUN). "
        "The next run goes on behind them"
    ]


def test_a_run_that_accepts_a_loss_may_leave_a_partition_with_a_loss_to_the_next_range(
    lake_root: Path, spark: Any
) -> None:
    """Reading ahead refused the loss in a partition that the budget had left out.

    The run ended before its commit.
    """
    log = log_of("orders")
    partitions = log.topics["orders"].partitions
    for number, partition in enumerate(partitions):
        partition.append(order(f"a{number}"))
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    for number, partition in enumerate(partitions):
        for name in ("lost", "b", "c"):
            partition.append(order(f"{name}{number}"))
    log.delete_records("orders", {0: 2, 1: 2})
    context = run_context(
        log, lake_root, spark, is_loss_accepted=True, byte_limits=ByteLimits(run_bytes=1)
    )
    found = list(
        follow(
            orders_table(),
            context,
            run=run_topic_table,
            follow_s=50,
            now_s=iter(range(1_000)).__next__,
            sleep=lambda _: None,
        )
    )
    assert len(found) > 2
    assert [row[2] for row in rows_of(lake_root)] == ["a0", "b0", "c0", "a1", "b1", "c1"]


def test_a_table_of_newest_rows_forgets_no_deletion_while_older_records_wait(
    lake_root: Path, spark: Any
) -> None:
    """Partition 1 deletes a key of which partition 0 has an older record.

    A run with a small budget has not read that yet.
    """
    log = log_of("accounts")
    for number in range(8):
        append_account(log, number % 2, f"a{number // 4}", number)
    append_account(log, 1, "a0", None)
    context = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=1))
    table: TopicTable = accounts_table()
    while run_topic_table(table, context).version is not None:
        pass
    cut = rows_of(lake_root, table.name, columns=("id", "balance", "_partition", "_offset"))
    whole = run_context(log, lake_root / "whole", spark)
    run_topic_table(table, whole)
    assert len(cut) == 1
    assert cut == rows_of(
        lake_root / "whole", table.name, columns=("id", "balance", "_partition", "_offset")
    )


def test_a_replay_replaces_a_part_at_a_time(lake_root: Path, spark: Any) -> None:
    log = log_of("orders")
    for number in range(6):
        append_order(log, f"o{number}")
    run_topic_table(orders_table(), run_context(log, lake_root, spark))
    small = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=80))
    shouting = orders_table(
        function=lambda records: clean_orders(
            records.selectExpr("* EXCEPT (id)", "upper(id) AS id")
        )
    )
    replayed = list(run_replay(shouting, small, ReplayRequest(is_everything=True)))
    assert [str(one.ranges) for one in replayed] == ["0:[0,3)", "0:[3,6)"]
    assert [one[1:] for one in rows_of(lake_root)] == [
        (number, f"O{number}") for number in range(6)
    ]


def test_groups_are_made_anew_of_all_records_however_little_a_run_opens(
    lake_root: Path, spark: Any
) -> None:
    log = log_of("orders")
    for number in range(6):
        append_order(log, "abc"[number % 3])
    run_topic_table(grouped_table(), run_context(log, lake_root, spark))
    before = rows_of(lake_root, "by_kind", columns=("kind", "orders"))
    small = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=80))
    (rebuilt,) = run_replay(grouped_table(), small, ReplayRequest(is_everything=True))
    assert rebuilt.statistics is not None
    assert rebuilt.statistics.records == 6
    assert (
        rows_of(lake_root, "by_kind", columns=("kind", "orders"))
        == before
        == [("a", 2), ("b", 2), ("c", 2)]
    )


@pytest.mark.parametrize("schema", ["id STRING NOT NULL, amount INT NOT NULL, note STRING", None])
@pytest.mark.parametrize("arrow_records", [10_000, 0])
def test_a_large_record_is_a_dead_letter_whoever_reads_it(
    lake_root: Path, spark: Any, schema: str | None, arrow_records: int
) -> None:
    log = log_of("orders")
    large = order("large", note="n" * 200_000)
    for value in (order("a"), large, order("b")):
        log.topics["orders"].partitions[0].append(value)
    table = TopicTable(
        name="plain",
        topic=TopicSpec(name="orders", schema=schema),
        function=lambda records: records,
    )
    limits = ByteLimits(record_bytes=100_000)
    context = run_context(log, lake_root, spark, arrow_records=arrow_records, byte_limits=limits)
    assert run_topic_table(table, context).version is not None
    assert [one[1] for one in rows_of(lake_root, "plain", columns=("_partition", "_offset"))] == [
        0,
        2,
    ]
    (letter,) = DeadLetters(Lake(lake_root)).of_target("plain")
    assert letter["value"] == large[:KEPT_VALUE_BYTES]
    assert letter["reason"].startswith(
        f"the record has {len(large)} bytes, and a run takes at most 100000 of one (TIDELOG_RECORD_BYTES)"
    )
    assert letter["reason"].endswith("the whole one is in topic orders, partition 0, offset 1")


def test_a_few_kilobytes_of_a_real_topic_are_opened_a_part_at_a_time(
    lake_root: Path, spark: Any, tmp_path: Path
) -> None:
    """Each batch of some kilobytes holds one record of many megabytes."""
    size = 12 << 20
    with BrokerProcess(tmp_path) as broker:
        with BlockingProducer(
            broker.bootstrap, compression="zstd", max_request_size=1 << 28, batch_size=1
        ) as producer:
            for number in range(5):
                producer.send(
                    "orders",
                    value=order(f"o{number}", note="n" * (size if number != 3 else 2 * size)),
                ).wait()
        with connect(broker.bootstrap) as log:
            limits = ByteLimits(run_bytes=20 << 20, record_bytes=16 << 20)
            context = run_context(log, lake_root, spark, byte_limits=limits)  # type: ignore[arg-type]
            found = []
            while (
                result := run_topic_table(orders_table(rules=(), unique_by=()), context)
            ).version is not None:
                found.append((str(result.ranges), result.backlog))
    assert found == [("0:[0,2)", 3), ("0:[2,4)", 1), ("0:[4,5)", 0)]
    assert [one[1:] for one in rows_of(lake_root)] == [(0, "o0"), (1, "o1"), (2, "o2"), (4, "o4")]
    (letter,) = DeadLetters(Lake(lake_root)).of_target("clean_orders")
    assert (letter["_offset"], len(letter["value"])) == (3, KEPT_VALUE_BYTES)


def test_a_join_gives_the_same_however_little_a_run_opens(lake_root: Path, spark: Any) -> None:
    log = two_topics()
    small = CompressedLog()
    small.topics = log.topics
    for number in range(2):
        append_round(log, number)
    append_end(log)
    context = run_context(small, lake_root, spark, byte_limits=ByteLimits(run_bytes=400))
    results = run_all(context)
    assert len(results) > 2
    assert held(lake_root) == expected(log)


def test_a_transform_to_a_topic_sends_the_same_however_little_a_run_opens(
    lake_root: Path, spark: Any
) -> None:
    log = log_of("orders")
    values = [order(f"o{number}", number) for number in range(6)]
    for number, value in enumerate(values):
        log.topics["orders"].partitions[number % 2].append(value)
    context = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=80))
    for _ in values:
        with log.open_sender(GROUP) as sender:
            table, work = sending_of(orders_transform(), sender)
            work.run(table, context)
    sent = [
        (one.key, one.value)
        for topic, records in log.sent
        for one in records
        if topic == "good_orders"
    ]
    assert sorted(sent) == sorted(expected_records(values).elements())
    assert context.reporter.notes[-1].startswith("3 of 6 offsets")  # type: ignore[attr-defined]


@pytest.mark.parametrize("run_bytes", [1, 80, 10_000])
def test_a_replay_to_a_topic_opens_a_part_at_a_time(
    lake_root: Path, spark: Any, run_bytes: int
) -> None:
    log = log_of("orders")
    values = [order(f"o{number}", -1 if number % 3 else 1) for number in range(12)]
    for number, value in enumerate(values):
        log.topics["orders"].partitions[number % 2].append(value)
    with log.open_sender(GROUP) as sender:
        table, work = sending_of(orders_transform(), sender)
        work.run(table, run_context(log, lake_root, spark))
        log.sent.clear()
        context = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=run_bytes))
        table, work = sending_of(orders_transform(rules=()), sender)
        results = list(
            run_letters_replay(work, table, context, ReplayRequest(is_of_dead_letters=True))
        )
    assert (len(results) == 1) is (run_bytes == 10_000)
    assert max(result.statistics.bytes for result in results if result.statistics) <= max(
        run_bytes + 100, 100
    )
    sent = [(one.key, one.value) for _, records in log.sent for one in records]
    assert sorted(sent) == sorted(
        expected_records([value for value in values if b"-1" in value], -1).elements()
    )
    assert letters_of(lake_root) == []


def test_a_table_of_a_database_gets_the_same_however_little_a_run_opens(
    lake_root: Path, spark: Any, tmp_path: Path
) -> None:
    log = log_of("orders")
    for number in range(4):
        append_order(log, f"o{number}")
    table = killed_storing.follower("mine", is_keyed=False)
    context = run_context(log, lake_root, spark, byte_limits=ByteLimits(run_bytes=80))
    with database("sqlite", tmp_path) as place, place.store("mine", table.latest_by) as store:
        work = Storing(declared=killed_storing.declared(place, table), store=store)
        counts = []
        while (result := work.run(table, context)).version is not None:
            counts.append(result.ranges.count)
        assert place.rows("mine", "_offset", "id") == [
            (number, f"o{number}") for number in range(4)
        ]
    assert len(counts) > 1
