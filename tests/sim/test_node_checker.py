"""The checker holds its rules, one by one.

A history in which all is well passes, and each forbidden event is named.
"""

from collections.abc import Callable
from itertools import count

import pytest

from log_service.common.java_hashing import hashed_partition
from log_service.common.types import TopicPartition
from tests.sim.node_checker import check
from tests.sim.node_history import (
    Commit,
    Committed,
    Create,
    CreatePartitions,
    Delete,
    DeleteRecords,
    Described,
    Died,
    Final,
    History,
    Paused,
    Poll,
    Positioned,
    SeenRecord,
    Send,
    Superseded,
    TopicPlan,
)
from tests.sim.node_host import Death
from tests.sim.node_metadata_checker import check_metadata

SYNCED, CACHED, CUT, KEYED = (
    TopicPartition(name, 0) for name in ("synced", "cached", "cut", "keyed")
)
COPIED = TopicPartition("copied", 0)


class Told:
    """Builds a history; every entry has a time of its own."""

    def __init__(self) -> None:
        times = count()
        self.history = History(lambda: float(next(times)))
        self.history.topics = {
            "synced": TopicPlan(name="synced", partition_count=1, is_synced=True),
            "cached": TopicPlan(name="cached", partition_count=1, is_synced=False),
            "cut": TopicPlan(name="cut", partition_count=1, is_synced=True, is_trimmed=True),
            "copied": TopicPlan(
                name="copied",
                partition_count=1,
                is_synced=True,
                is_trimmed=True,
                replication_factor=3,
            ),
            "keyed": TopicPlan(name="keyed", partition_count=1, is_synced=True, is_compacted=True),
        }

    def send(
        self,
        value: str,
        offset: int | None,
        partition: TopicPartition = SYNCED,
        producer: str = "p",
        number: int = 0,
    ) -> None:
        """``offset`` None: the producer was never told."""
        number = number or len(list(self.history.of(Send))) + 1
        send = self.history.add(
            Send(producer=producer, partition=partition, number=number, value=value, timestamp_ms=0)
        )
        if offset is not None:
            send.offset = offset
            self.history.end(send)

    def poll(
        self,
        *records: tuple[int, str],
        partition: TopicPartition = SYNCED,
        consumer: str = "c",
        group: str = "",
        epoch: int = 0,
    ) -> None:
        seen = [SeenRecord(offset, epoch, value) for offset, value in records]
        self.history.add(Poll(consumer="c", group=group, partition=partition, records=seen))

    def begin(self, partition: TopicPartition = SYNCED) -> None:
        self.history.add(Positioned(consumer="c", partition=partition))

    def die(self, death: Death = Death.POWER) -> None:
        self.history.add(Died(death=death))

    def commit(
        self, offset: int, partition: TopicPartition = SYNCED, *, is_ok: bool = True
    ) -> None:
        commit = self.history.add(Commit(group="g", partition=partition, offset=offset))
        self.history.end(commit, None if is_ok else "no response")

    def committed(self, offset: int, partition: TopicPartition = SYNCED) -> None:
        self.history.end(self.history.add(Committed(group="g", partition=partition, offset=offset)))

    def final(
        self,
        *records: tuple[int, str],
        partition: TopicPartition = SYNCED,
        start: int = 0,
        epochs: tuple[int, ...] = (),
    ) -> None:
        seen = [
            SeenRecord(offset, epochs[i] if epochs else 0, value)
            for i, (offset, value) in enumerate(records)
        ]
        end = records[-1][0] + 1 if records else start
        self.history.add(
            Final(partition=partition, log_start_offset=start, high_watermark=end, records=seen)
        )

    def broken(self) -> set[str]:
        return {violation.rule for violation in check(self.history)}


Story = Callable[[Told], None]


def all_is_well(told: Told) -> None:
    told.send("a", 0)
    told.send("b", None)
    told.begin()
    told.poll((0, "a"), group="g")
    told.commit(1)
    told.die(Death.KILL)
    told.committed(1)
    told.send("c", 2)
    told.poll((1, "b"), (2, "c"), group="g")
    told.final((0, "a"), (1, "b"), (2, "c"))


def power_takes_what_was_not_synced(told: Told) -> None:
    told.send("a", 0, CACHED)
    told.send("b", 1, CACHED)
    told.begin(partition=CACHED)
    told.poll((0, "a"), (1, "b"), partition=CACHED, group="g")
    told.die(Death.POWER)
    told.send("c", 1, CACHED)
    told.poll((1, "c"), partition=CACHED, group="g", epoch=2)
    told.final((0, "a"), (1, "c"), partition=CACHED, epochs=(0, 2))


def records_are_deleted_on_purpose(told: Told) -> None:
    for offset, value in enumerate("abc"):
        told.send(value, offset, CUT)
    told.history.end(told.history.add(DeleteRecords(partition=CUT, before=2)))
    told.final((2, "c"), partition=CUT, start=2)


def sent_again_after_it_was_deleted(
    told: Told, partition: TopicPartition = COPIED, before: int = 1
) -> None:
    told.send("a", None, partition)
    told.send("b", 1, partition, producer="q")
    told.begin(partition)
    told.poll((0, "a"), partition=partition)
    told.history.end(told.history.add(DeleteRecords(partition=partition, before=before)))
    told.final((1, "b"), (2, "a"), partition=partition, start=1)


@pytest.mark.parametrize(
    "story",
    [
        all_is_well,
        power_takes_what_was_not_synced,
        records_are_deleted_on_purpose,
        sent_again_after_it_was_deleted,
    ],
    ids=lambda s: s.__name__,
)
def test_history_in_which_promises_are_kept_passes(story: Story) -> None:
    told = Told()
    story(told)
    assert check(told.history) == []


def lost(told: Told) -> None:
    told.send("a", 0)
    told.send("b", 1)
    told.final((0, "a"))


def lost_by_a_kill(told: Told) -> None:
    told.send("a", 0, CACHED)
    told.die(Death.KILL)
    told.final(partition=CACHED)


def lost_after_the_power_came_back(told: Told) -> None:
    told.die(Death.POWER)
    told.send("a", 0, CACHED)
    told.final(partition=CACHED)


def somewhere_else_than_told(told: Told) -> None:
    told.send("a", 1)
    told.send("b", 0)
    told.final((0, "a"), (1, "b"))


def phantom(told: Told) -> None:
    told.final((0, "a stranger's"))


def in_another_partition(told: Told) -> None:
    told.send("a", None, CACHED)
    told.final((0, "a"))


def duplicate(told: Told) -> None:
    told.send("a", None)
    told.final((0, "a"), (1, "a"))


def duplicate_that_only_a_reader_saw(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.begin()
    told.poll((0, "b"), (1, "a"))
    told.final((0, "a"), (1, "b"))


def sent_again_where_one_log_has_all(told: Told) -> None:
    sent_again_after_it_was_deleted(told, CUT)


def sent_again_though_it_was_not_deleted(told: Told) -> None:
    sent_again_after_it_was_deleted(told, before=0)


def deleted_after_it_was_there_twice(told: Told) -> None:
    told.send("a", None, COPIED)
    told.send("b", 1, COPIED, producer="q")
    told.begin(COPIED)
    told.poll((0, "a"), (1, "b"), (2, "a"), partition=COPIED)
    told.history.end(told.history.add(DeleteRecords(partition=COPIED, before=1)))
    told.final((1, "b"), (2, "a"), partition=COPIED, start=1)


def reordered(told: Told) -> None:
    told.send("a", None, number=1)
    told.send("b", None, number=2)
    told.final((0, "b"), (1, "a"))


def hole(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.final((0, "a"), (2, "b"))


def epochs_that_fall(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.final((0, "a"), (1, "b"), epochs=(2, 1))


def start_that_moved_by_itself(told: Told) -> None:
    told.final((3, "a"), start=3)


def start_that_moved_further_than_asked(told: Told) -> None:
    told.send("a", None, CUT)
    told.history.end(told.history.add(DeleteRecords(partition=CUT, before=1)))
    told.final((3, "a"), partition=CUT, start=3)


def two_values_in_one_epoch(told: Told) -> None:
    told.send("a", None, CACHED)
    told.send("b", None, CACHED)
    told.begin(partition=CACHED)
    told.poll((0, "a"), partition=CACHED)
    told.die(Death.POWER)
    told.final((0, "b"), partition=CACHED)


def two_values_at_an_offset(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.begin()
    told.poll((0, "a"))
    told.final((0, "b"), epochs=(2,))


def gap_between_polls(told: Told) -> None:
    for value in "abc":
        told.send(value, None)
    told.begin()
    told.poll((0, "a"))
    told.poll((2, "c"))
    told.final((0, "a"), (1, "b"), (2, "c"))


def step_back(told: Told) -> None:
    told.send("a", None)
    told.begin()
    told.poll((0, "a"))
    told.poll((0, "a"))
    told.final((0, "a"))


def never_read_by_the_group(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.begin()
    told.poll((0, "a"), group="g")
    told.final((0, "a"), (1, "b"))


def commit_that_went_back(told: Told) -> None:
    told.commit(3)
    told.commit(5)
    told.committed(3)


def commit_that_no_member_made(told: Told) -> None:
    told.commit(3)
    told.committed(4)


def commit_that_power_took(told: Told) -> None:
    told.commit(3)
    told.die(Death.POWER)
    told.committed(-1)


def group_that_skips(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.begin()
    told.poll((1, "b"), group="g")
    told.final((0, "a"), (1, "b"))


def group_that_begins_before_what_it_committed(told: Told) -> None:
    told.send("a", None)
    told.send("b", None)
    told.begin()
    told.poll((0, "a"), (1, "b"), group="g")
    told.commit(2)
    told.begin()
    told.poll((0, "a"), (1, "b"), group="g")
    told.final((0, "a"), (1, "b"))


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        (lost, "acknowledged is there"),
        (lost_by_a_kill, "acknowledged is there"),
        (lost_after_the_power_came_back, "acknowledged is there"),
        (somewhere_else_than_told, "acknowledged is there"),
        (phantom, "nothing from nowhere"),
        (in_another_partition, "nothing from nowhere"),
        (duplicate, "no duplicate"),
        (duplicate_that_only_a_reader_saw, "no duplicate"),
        (sent_again_where_one_log_has_all, "no duplicate"),
        (sent_again_though_it_was_not_deleted, "no duplicate"),
        (deleted_after_it_was_there_twice, "no duplicate"),
        (reordered, "order is kept"),
        (hole, "log is whole"),
        (epochs_that_fall, "log is whole"),
        (start_that_moved_by_itself, "log is whole"),
        (start_that_moved_further_than_asked, "deleted stays within bounds"),
        (two_values_in_one_epoch, "one value per offset"),
        (two_values_at_an_offset, "one value per offset"),
        (gap_between_polls, "reading goes on"),
        (step_back, "reading goes on"),
        (never_read_by_the_group, "group reads everything"),
        (commit_that_went_back, "commits stay"),
        (commit_that_no_member_made, "commits stay"),
        (commit_that_power_took, "commits stay"),
        (group_that_skips, "group goes on"),
        (group_that_begins_before_what_it_committed, "group goes on"),
    ],
    ids=lambda part: part.__name__ if callable(part) else "",
)
def test_broken_promise_is_named(story: Story, rule: str) -> None:
    told = Told()
    story(told)
    assert rule in told.broken()


class TestSupersededCoordinator:
    """A group has committed 1, and a successor begins, which alone hears of 2.

    Then a client asks, or a member begins.
    """

    def broken(
        self, offset: int, *, partition: int = hashed_partition("g", 2), has_heard: bool = False
    ) -> set[str]:
        """Return the violations of a response with that offset.

        ``has_heard``: the coordinator knows of its successor by then.
        """
        broken = set()
        for is_member in (False, True):
            told = Told()
            told.send("a", 0)
            told.send("b", 1)
            told.begin()
            told.poll((0, "a"), (1, "b"), group="g")
            told.commit(1)
            late = Superseded(
                node="n",
                groups_partition=partition,
                groups_partition_count=2,
                since=told.history.place + 1,
            )
            told.history.add(late)
            told.commit(2)
            if has_heard:
                told.history.end(late)
            if is_member:
                told.begin()
                told.poll(*((0, "a"), (1, "b"))[offset:], group="g")
            else:
                told.committed(offset or -1)
            broken |= told.broken()
        return broken

    def test_that_has_not_heard_tells_what_was_acknowledged_before(self) -> None:
        assert self.broken(1) == set()
        assert self.broken(0) == {"commits stay", "group goes on"}

    def test_that_hears_before_it_is_asked_is_no_excuse(self) -> None:
        assert self.broken(1, has_heard=True) == {"commits stay", "group goes on"}

    def test_of_other_groups_is_no_excuse(self) -> None:
        assert self.broken(1, partition=1 - hashed_partition("g", 2)) == {
            "commits stay",
            "group goes on",
        }

    def test_that_begins_late_is_no_excuse_for_what_was_told_before(self) -> None:
        told = Told()
        told.commit(1)
        told.commit(2)
        told.committed(1)
        told.history.add(
            Superseded(node="n", groups_partition=0, groups_partition_count=1, since=1)
        )
        assert told.broken() == {"commits stay"}


class TestMetadata:
    def told(
        self, *changes: Create | Delete | CreatePartitions | Described, failed: int = -1
    ) -> list[str]:
        history = Told().history
        for index, change in enumerate(changes):
            history.add(change)
            history.end(change, "no response" if index == failed else None)
        return [violation.rule for violation in check_metadata(history)]

    def created(self) -> Create:
        return Create(topic="t", partition_count=1, retention_ms="5", topic_id="x")

    def described(
        self, topic_id: str = "x", partition_count: int = 1, retention_ms: str = "5"
    ) -> Described:
        return Described(
            topic="t", topic_id=topic_id, partition_count=partition_count, retention_ms=retention_ms
        )

    def test_topic_that_is_what_was_acknowledged_passes(self) -> None:
        grown = CreatePartitions(topic="t", partition_count=2)
        assert (
            self.told(
                self.created(),
                self.described(),
                grown,
                self.described(partition_count=2),
                Delete(topic="t"),
                self.described(""),
            )
            == []
        )

    def test_lost_topic_is_named(self) -> None:
        assert self.told(self.created(), self.described("")) == ["metadata stays"]

    def test_topic_of_another_id_is_named(self) -> None:
        assert self.told(self.created(), self.described("y")) == ["metadata stays"]

    def test_lost_partitions_and_configuration_are_named(self) -> None:
        assert self.told(
            self.created(), CreatePartitions(topic="t", partition_count=2), self.described()
        ) == ["metadata stays"]
        assert self.told(self.created(), self.described(retention_ms="7")) == ["metadata stays"]

    def test_topic_that_came_back_is_named(self) -> None:
        assert self.told(self.created(), Delete(topic="t"), self.described()) == ["metadata stays"]

    def test_change_without_a_response_may_have_happened_or_not(self) -> None:
        assert self.told(self.created(), Delete(topic="t"), self.described(), failed=1) == []
        assert self.told(self.created(), Delete(topic="t"), self.described(""), failed=1) == []

    def test_request_that_was_given_up_may_be_done_after_later_changes(self) -> None:
        """A link that is cut held it back; the client asked again meanwhile."""
        for seconds, named in ((4.0, ["metadata stays"]), (5.0, [])):
            history, created = Told().history, self.created()
            for change in (created, Delete(topic="t"), self.described()):
                history.add(change)
                history.end(change)
            created.ended_time = created.time + seconds
            assert [violation.rule for violation in check_metadata(history)] == named

    @pytest.mark.parametrize(
        ("seconds", "is_beside", "named"),
        [(0.5, True, []), (0.4, True, ["metadata stays"]), (0.5, False, ["metadata stays"])],
    )
    def test_request_to_a_paused_node_may_be_done_after_later_changes(
        self, seconds: float, is_beside: bool, named: list[str]
    ) -> None:
        """The client had heard that the node was gone, and asked another one."""
        history, created = Told().history, self.created()
        paused = history.add(Paused(node="node2"))
        if not is_beside:
            history.end(paused)
        for change in (created, Delete(topic="t"), self.described()):
            history.add(change)
            history.end(change)
            change.ended_time = change.time
        created.ended_time = created.time + seconds
        assert [violation.rule for violation in check_metadata(history)] == named


# Compaction


def keyed(*sends: tuple[str, int, bytes, bool]) -> Told:
    """A history of records of a compacted topic: (value, offset, key, whether it is a tombstone)."""
    told = Told()
    for number, (value, offset, key, is_tombstone) in enumerate(sends, 1):
        send = told.history.add(
            Send(producer="p", partition=KEYED, number=number, value=value, timestamp_ms=0, key=key)
        )
        send.offset, send.is_tombstone = offset, is_tombstone
        told.history.end(send)
    return told


def test_what_has_a_later_record_of_its_key_may_go() -> None:
    told = keyed(("a1", 0, b"a", False), ("b1", 1, b"b", False), ("a2", 2, b"a", False))
    told.final((1, "b1"), (2, "a2"), partition=KEYED)
    assert not told.broken()


def test_of_what_was_written_twice_the_second_may_go_before_the_first() -> None:
    """Compaction goes on while a log is read.

    The reader got the first before it, and came to the second after it.
    """
    told = keyed(("a1", 1, b"a", False), ("a2", 2, b"a", False))
    told.final((0, "a1"), (2, "a2"), partition=KEYED)
    assert not told.broken()


def test_the_latest_of_a_key_stays() -> None:
    told = keyed(
        ("a1", 0, b"a", False),
        ("b1", 1, b"b", False),
        ("a2", 2, b"a", False),
        ("c1", 3, b"c", False),
    )
    told.final((0, "a1"), (1, "b1"), (3, "c1"), partition=KEYED)
    assert told.broken() == {"acknowledged is there"}


def test_a_tombstone_takes_what_was_before_it_and_may_go_itself() -> None:
    told = keyed(("a1", 0, b"a", False), ("a2", 1, b"a", True), ("b1", 2, b"b", False))
    told.final((2, "b1"), partition=KEYED)
    assert not told.broken()
    told = keyed(("a1", 0, b"a", True), ("a2", 1, b"a", False), ("b1", 2, b"b", False))
    told.final((2, "b1"), partition=KEYED)
    assert told.broken() == {"acknowledged is there"}


def test_a_compacted_log_has_gaps_and_an_order() -> None:
    told = keyed(("a1", 0, b"a", False), ("a2", 5, b"a", False))
    told.begin(KEYED)
    told.poll((5, "a2"), partition=KEYED)
    told.final((5, "a2"), partition=KEYED)
    assert not told.broken()
    told.final((5, "a2"), (0, "a1"), partition=KEYED)
    assert "log is whole" in told.broken()
