"""Each shape and sink goes on as if the log still held unread records.

Retention took them, and the archive holds them. What neither holds is in ``test_accepted_loss``;
tables that keep all rows, kills, and a real broker are in ``test_replay_from_archive``.
"""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from orchestration.dead_letters.table import DeadLetters
from orchestration.lake.tables import Lake
from orchestration.offsets.planning import ProgressError
from orchestration.transforms.joining.run import run_joined_table
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform import killed_storing
from tests.platform.accounts import append_account
from tests.platform.databases import database
from tests.platform.good_orders import GROUP, expected_records, orders_transform, sending_of
from tests.platform.grouped import append_orders, grouped_table, groups_of, held_groups
from tests.platform.joined import append_end, append_round, expected, held, joined_table, two_topics
from tests.platform.pipeline import Notes, letters_of, order, run_context
from tests.unit.orchestration.archived import archive
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
READ_FROM_ARCHIVE = "are no longer in the log and are read from its archive"


class Overtaken:
    """Retention takes records of a log before a table has read them.

    The table in the lake reads them from the archive.
    """

    def __init__(self, log: MemoryLog, lake_root: Path, spark: Any) -> None:
        self.log, self.lake_root, self.spark = log, lake_root, spark
        self.whole = log
        self.notes = Notes()

    def context(self, **more: Any) -> RunContext:
        return run_context(self.log, self.lake_root, self.spark, reporter=self.notes, **more)

    def take(self, *topics: str, left: int = 1) -> None:
        """Archive all of ``topics``, and take all but the ``left`` newest offsets of each
        partition.

        ``whole`` is the log as it was.
        """
        self.whole = deepcopy(self.log)
        for topic in topics:
            archive(self.log, Lake(self.lake_root), topic)
            ends = {one.partition: one.high_watermark for one in self.log.partition_offsets(topic)}
            self.log.delete_records(
                topic, {partition: end - left for partition, end in ends.items()}
            )

    def told(self, topic: str) -> list[str]:
        """Return what runs told of reading the archive of a topic."""
        return [
            one
            for one in self.notes.notes
            if one.startswith(f"{topic}-") and one.endswith(READ_FROM_ARCHIVE)
        ]


def topic(name: str) -> MemoryLog:
    log = MemoryLog()
    log.add_topic(name, 2)
    return log


@pytest.fixture(params=[1_000, 3], ids=["at once", "in pieces"])
def limit(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize(
    "taken", [("orders",), ("payments",), ("orders", "payments")], ids="-".join
)
def test_a_join_goes_on(lake_root: Path, spark: Any, taken: Sequence[str], limit: int) -> None:
    world = Overtaken(two_topics(), lake_root, spark)
    append_round(world.log, 0)
    run_joined_table(joined_table(), world.context())
    append_round(world.log, 1)
    append_round(world.log, 2)
    append_end(world.log)
    world.take(*taken, left=2)
    while (
        run_joined_table(joined_table(), world.context(records_per_run=limit)).version is not None
    ):
        pass
    assert held(lake_root) == expected(world.whole)
    assert {name for name in ("orders", "payments") if world.told(name)} == set(taken)
    assert DeadLetters(Lake(lake_root)).pending().count_rows() == 0


def test_a_join_refuses_what_neither_archive_nor_log_holds(lake_root: Path, spark: Any) -> None:
    world = Overtaken(two_topics(), lake_root, spark)
    append_round(world.log, 0)
    run_joined_table(joined_table(), world.context())
    archive(world.log, Lake(lake_root), "payments")
    append_round(world.log, 1)
    before = held(lake_root)
    ends = {one.partition: one.high_watermark for one in world.log.partition_offsets("payments")}
    world.log.delete_records("payments", ends)
    with pytest.raises(
        ProgressError,
        match=r"payments-0: the offsets \[\d+, \d+\) were removed from the log before the table read them",
    ):
        run_joined_table(joined_table(), world.context())
    assert held(lake_root) == before


def test_groups_go_on(lake_root: Path, spark: Any, limit: int) -> None:
    world = Overtaken(topic("orders"), lake_root, spark)
    append_orders(world.log, 0)
    run_topic_table(grouped_table(), world.context())
    append_orders(world.log, 1)
    append_orders(world.log, 2)
    world.take("orders")
    while (
        run_topic_table(grouped_table(), world.context(records_per_run=limit)).version is not None
    ):
        pass
    assert (held_groups(lake_root), len(letters_of(lake_root))) == groups_of(world.whole)
    assert world.told("orders")


def test_a_transform_to_a_topic_goes_on(lake_root: Path, spark: Any, limit: int) -> None:
    world = Overtaken(topic("orders"), lake_root, spark)

    def run() -> bool:
        with world.log.open_sender(GROUP) as sender:
            table, work = sending_of(orders_transform(), sender)
            return work.run(table, world.context(records_per_run=limit)).version is not None

    append_sent(world.log, 0)
    run()
    append_sent(world.log, 1)
    world.take("orders")
    while run():
        pass
    values = [
        value
        for one in world.whole.topics["orders"].partitions
        for _, _, _, value in one.records.values()
        if value is not None
    ]
    assert Counter(
        (one.key, one.value) for _, records in world.log.sent for one in records
    ) == expected_records(values)
    assert {
        number: one.next_offset for number, one in world.log.groups[GROUP, "orders"].items()
    } == {0: 12, 1: 12}
    assert len(letters_of(lake_root)) == 8
    assert world.told("orders")


def append_sent(log: MemoryLog, number: int) -> None:
    """Append six offsets to each partition, two of them records that are rejected, and one of none."""
    for place, partition in enumerate(log.topics["orders"].partitions):
        for position in range(4):
            partition.append(order(f"{number}-{place}-{position}", position))
        partition.append(b"nonsense")
        partition.skip(1)


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_table_of_a_database_goes_on(
    lake_root: Path, spark: Any, tmp_path: Path, kind: str, *, is_keyed: bool
) -> None:
    name = "accounts" if is_keyed else "orders"
    world = Overtaken(topic(name), lake_root, spark)
    table = killed_storing.follower("mine", is_keyed=is_keyed)

    def append(identity: str, amount: int) -> None:
        if is_keyed:
            append_account(world.log, 0, identity, amount)
        else:
            world.log.topics["orders"].partitions[0].append(order(identity, amount))

    with database(kind, tmp_path) as place, place.store("mine", table.latest_by) as store:
        work = Storing(declared=killed_storing.declared(place, table), store=store)
        append("a", 1)
        append("b", 2)
        work.run(table, world.context())
        for position, identity in enumerate("acadab"):
            append(identity, 10 + position)
        world.take(name)
        while work.run(table, world.context(records_per_run=2)).version is not None:
            pass
        kept = {6: "a", 3: "c", 5: "d", 7: "b"} if is_keyed else dict(enumerate("abacadab"))
        assert place.rows("mine", "_offset", "id") == sorted(kept.items())
    assert world.told(name)
    assert Lake(lake_root).existing("mine").checkpoints(f"id-of-{name}", [0])[0].next_offset == 8
