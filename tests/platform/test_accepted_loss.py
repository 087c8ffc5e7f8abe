"""Each shape and sink refuses a loss, and goes on from the log start once it is accepted.

Retention took all records that a table had not read. Tables that keep all rows are in
``test_topic_run``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestration.lake.tables import Lake
from orchestration.offsets.planning import ProgressError
from orchestration.transforms.joining.run import run_joined_table
from orchestration.transforms.run.context import RunContext
from orchestration.transforms.to_database.run import Storing
from orchestration.transforms.to_lake.run import run_topic_table
from tests.platform import killed_storing
from tests.platform.accounts import accounts_table, append_account
from tests.platform.databases import database
from tests.platform.good_orders import GROUP, orders_transform, sending_of
from tests.platform.grouped import grouped_table, held_groups
from tests.platform.joined import append_order as append_timed_order
from tests.platform.joined import append_payment, joined_table, two_topics
from tests.platform.pipeline import Notes, order, rows_of, run_context
from tests.unit.orchestration.memory_log import MemoryLog

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
Run = Callable[[RunContext], Any]
Accept = Callable[..., RunContext]


class Accepting:
    """The runs of one table read a record, lose one to retention, and accept the loss."""

    def __init__(self, log: MemoryLog, topic: str, lake_root: Path, spark: Any) -> None:
        self.log, self.topic, self.lake_root, self.spark = log, topic, lake_root, spark

    def context(self, **more: Any) -> RunContext:
        return run_context(self.log, self.lake_root, self.spark, **more)

    def lose(self, run: Run, append: Callable[[str], object]) -> None:
        """Have "a" read, "b" lost and the loss accepted; then "c" is read."""
        append("a")
        run(self.context())
        append("b")
        self.log.delete_records(self.topic, {0: 2})
        with pytest.raises(ProgressError, match=r"\[1, 2\) were removed"):
            run(self.context())
        notes = Notes()
        run(self.context(is_loss_accepted=True, reporter=notes))
        assert any("going on without them" in one for one in notes.notes)
        run(self.context())
        append("c")
        run(self.context())

    def next_offset(self, table: str) -> int:
        found = Lake(self.lake_root).existing(table).checkpoints(f"id-of-{self.topic}", [0])
        return found[0].next_offset


def topic(name: str) -> MemoryLog:
    log = MemoryLog()
    log.add_topic(name, 2)
    return log


def test_a_table_of_newest_rows_goes_on(lake_root: Path, spark: Any) -> None:
    world = Accepting(topic("accounts"), "accounts", lake_root, spark)
    world.lose(
        lambda context: run_topic_table(accounts_table(), context),
        lambda name: append_account(world.log, 0, name, 1),
    )
    assert rows_of(lake_root, "accounts") == [(0, 0, "a"), (0, 2, "c")]
    assert world.next_offset("accounts") == 3


def test_groups_go_on(lake_root: Path, spark: Any) -> None:
    world = Accepting(topic("orders"), "orders", lake_root, spark)
    world.lose(
        lambda context: run_topic_table(grouped_table(), context),
        lambda name: world.log.topics["orders"].partitions[0].append(order(name, 1)),
    )
    assert held_groups(lake_root) == {"a": (1, 1, 1), "c": (1, 1, 1)}
    assert world.next_offset("by_kind") == 3


@pytest.mark.parametrize("side", ["orders", "payments"])
def test_a_join_goes_on(lake_root: Path, spark: Any, side: str) -> None:
    world = Accepting(two_topics(), side, lake_root, spark)
    other: Callable[..., object] = append_payment if side == "orders" else append_timed_order
    for name in ("a", "b", "c"):
        other(world.log, name, 1, partition=1)
    own: Callable[..., object] = append_timed_order if side == "orders" else append_payment
    world.lose(
        lambda context: run_joined_table(joined_table(), context),
        lambda name: own(world.log, name, 0),
    )
    assert sorted(row[0] for row in rows_of(lake_root, "paid_orders", columns=("id",))) == [
        "a",
        "c",
    ]
    assert world.next_offset("paid_orders") == 3


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("is_keyed", [False, True])
def test_a_table_of_a_database_goes_on(
    lake_root: Path, spark: Any, tmp_path: Path, kind: str, *, is_keyed: bool
) -> None:
    name = "accounts" if is_keyed else "orders"
    world = Accepting(topic(name), name, lake_root, spark)
    table = killed_storing.follower("mine", is_keyed=is_keyed)
    with database(kind, tmp_path) as place, place.store("mine", table.latest_by) as store:
        work = Storing(declared=killed_storing.declared(place, table), store=store)

        def append(one: str) -> None:
            if is_keyed:
                append_account(world.log, 0, one, 1)
            else:
                world.log.topics["orders"].partitions[0].append(order(one))

        world.lose(lambda context: work.run(table, context), append)
        assert place.rows("mine", "_offset", "id") == [(0, "a"), (2, "c")]
    assert world.next_offset("mine") == 3


def test_a_transform_to_a_topic_goes_on(lake_root: Path, spark: Any) -> None:
    world = Accepting(topic("orders"), "orders", lake_root, spark)

    def run(context: RunContext) -> None:
        with world.log.open_sender(GROUP) as sender:
            table, work = sending_of(orders_transform(), sender)
            work.run(table, context)

    world.lose(run, lambda name: world.log.topics["orders"].partitions[0].append(order(name)))
    assert [
        one.key
        for topic_name, records in world.log.sent
        for one in records
        if topic_name == "good_orders"
    ] == [b"a", b"c"]
    assert world.log.groups[GROUP, "orders"][0].next_offset == 3
