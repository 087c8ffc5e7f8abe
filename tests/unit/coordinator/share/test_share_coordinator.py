"""The share coordinator decides who may write a state, stores it in the log, and loads it
(KIP-932).
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_service.common.errors import ErrorCode
from log_service.common.types import TopicId
from log_service.config.views import ShareStateConfig
from log_service.coordinator.share.share_coordinator import (
    CLEAN_UP_PAUSE_MS,
    CLEAN_UP_TIMER,
    COLD_TIMER,
    MAX_CLEAN_UP_RECORDS,
    PRUNE_TIMER,
    NeedlessRecords,
    ShareCoordinatorShard,
    ShareStateWrite,
    StateRefusal,
)
from log_service.coordinator.share.share_state import ShareKey, ShareState, combined
from log_service.coordinator.share.state_records import (
    ShareRecord,
    SnapshotRecord,
    UpdateRecord,
    decode,
    encode,
)
from log_service.coordinator.share.window import StateBatch
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.image import MetadataImage, TopicImage, TopicsById, TopicsImage
from log_service.protocol.stored.metadata_records import RemoveTopicRecord
from log_service.protocol.stored.serde import encode_key
from log_service.protocol.stored.share_state_records import ShareUpdateKey
from log_service.state_machine.decision import Decision, ReplayContext, SetTimer

TOPIC, OTHER_TOPIC = UUID(int=7), UUID(int=9)
INTERVAL_MS = ShareStateConfig().cold_snapshot_interval_ms
KEY = ShareKey(group_id="g", topic_id=TOPIC, partition=0)


def batches(*several: tuple[int, int, int, int]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(first_offset=a, last_offset=b, delivery_state=s, delivery_count=c)
        for a, b, s, c in several
    )


class Story:
    """A shard whose records go to a list, and from there back into another shard."""

    def __init__(
        self, updates_per_snapshot: int = 500, log: list[tuple[bytes, bytes | None]] | None = None
    ) -> None:
        self.topics = {TOPIC: 3, OTHER_TOPIC: 1}
        self.config = ShareStateConfig(snapshot_update_records=updates_per_snapshot)
        self.shard = ShareCoordinatorShard(
            self.config, lambda topic_id, partition: partition < self.topics.get(topic_id, 0)
        )
        self.log: list[tuple[bytes, bytes | None]] = []
        self.wall_ms = 1_000
        for key, value in log or []:
            self._append(key, value)

    def decide(self, decide: Callable[[Decision[ShareRecord]], None]) -> Decision[ShareRecord]:
        decision: Decision[ShareRecord] = Decision(self.wall_ms, self.wall_ms)
        decide(decision)
        for record in decision.records:
            self._append(*encode(record))
        return decision

    def _append(self, key: bytes, value: bytes | None) -> None:
        record = decode(key, value)
        assert record is not None
        self.shard.replay(record, ReplayContext(len(self.log)))
        self.log.append((key, value))

    def ask(self, handle: Callable[[Hashable, Decision[ShareRecord]], None]) -> Any:
        (reply,) = self.decide(partial(handle, "token")).replies
        return reply.response

    def initialize(self, state_epoch: int = 0, start_offset: int = -1, key: ShareKey = KEY) -> Any:
        return self.ask(partial(self.shard.handle_initialize, key, state_epoch, start_offset))

    def read(self, leader_epoch: int = -1, key: ShareKey = KEY) -> Any:
        return self.ask(partial(self.shard.handle_read, key, leader_epoch))

    def write(
        self,
        *several: tuple[int, int, int, int],
        start: int = -1,
        leader_epoch: int = -1,
        state_epoch: int = -1,
        done: int = -1,
    ) -> Any:
        write = ShareStateWrite(
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=done,
            batches=batches(*several),
        )
        return self.ask(partial(self.shard.handle_write, KEY, write))

    def delete(self, key: ShareKey = KEY) -> Any:
        return self.ask(partial(self.shard.handle_delete, key))

    def summary(self, key: ShareKey = KEY) -> Any:
        return self.ask(partial(self.shard.handle_read_summary, key))

    def state(self) -> ShareState:
        state = self.shard.state_of(KEY)
        assert state is not None
        return state

    def last_record(self) -> ShareRecord | None:
        return decode(*self.log[-1])


def code(reply: Any) -> ErrorCode:
    assert isinstance(reply, StateRefusal)
    assert reply.error_message
    return reply.error_code


def test_a_state_begins_without_an_offset_and_without_a_leader() -> None:
    story = Story()
    assert story.initialize() is None
    expected = ShareState(
        snapshot_epoch=0,
        state_epoch=0,
        leader_epoch=0,
        start_offset=-1,
        create_timestamp_ms=1_000,
        write_timestamp_ms=1_000,
    )
    assert story.last_record() == SnapshotRecord(key=KEY, state=expected)
    assert story.read() == expected


def test_a_state_that_begins_at_an_offset_counts_what_is_done_with() -> None:
    """KIP-1226: the lag is known from there on."""
    story = Story()
    story.initialize(3, 100)
    assert (story.state().start_offset, story.state().delivery_complete_count) == (100, 0)


def test_a_write_is_an_update_of_the_snapshot_and_joins_the_state() -> None:
    story = Story()
    story.initialize(start_offset=0)
    assert story.write((0, 4, 0, 1), (5, 9, 2, 1), start=0, done=5) is None
    assert story.last_record() == UpdateRecord(
        key=KEY,
        snapshot_epoch=0,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=5,
        batches=batches((0, 4, 0, 1), (5, 9, 2, 1)),
    )
    assert story.write((0, 2, 2, 2), start=3, done=5) is None
    assert story.state().batches == batches((3, 4, 0, 1), (5, 9, 2, 1))
    assert story.state().start_offset == 3


def test_after_so_many_updates_comes_a_snapshot() -> None:
    story = Story(updates_per_snapshot=2)
    story.initialize(start_offset=0)
    for offset in range(3):
        story.wall_ms += 10
        story.write((offset, offset, 2, 1), start=offset, done=offset + 1)
    record = story.last_record()
    assert isinstance(record, SnapshotRecord)
    assert record.state == replace(
        story.state(),
        snapshot_epoch=1,
        start_offset=2,
        delivery_complete_count=3,
        batches=batches((2, 2, 2, 1)),
        create_timestamp_ms=1_030,
        write_timestamp_ms=1_030,
    )
    assert story.shard.needed_offset == len(story.log) - 1
    story.write((3, 3, 2, 1))
    assert isinstance(story.last_record(), UpdateRecord)


def test_without_updates_every_write_is_a_snapshot() -> None:
    story = Story(updates_per_snapshot=0)
    story.initialize(start_offset=0)
    story.write((0, 0, 2, 1))
    assert isinstance(story.last_record(), SnapshotRecord)
    assert story.state().snapshot_epoch == 1
    story.read(leader_epoch=7)
    assert isinstance(story.last_record(), SnapshotRecord)
    assert code(story.write((1, 1, 2, 1), leader_epoch=6)) is ErrorCode.FENCED_LEADER_EPOCH
    assert (story.state().snapshot_epoch, story.state().leader_epoch) == (2, 7)


def test_a_load_brings_back_what_was_written() -> None:
    story = Story(updates_per_snapshot=3)
    story.initialize(start_offset=0)
    story.read(leader_epoch=4)
    for offset in range(10):
        story.write((offset, offset + 2, offset % 2 * 2, 1 + offset // 3), start=offset // 2)
    loaded = Story(log=story.log)
    assert loaded.state() == story.state()
    assert code(loaded.read(leader_epoch=3)) is ErrorCode.FENCED_LEADER_EPOCH
    pruned = Story(log=story.log[story.shard.needed_offset :])
    assert pruned.state() == story.state()


# Who may


def test_a_leader_that_reads_is_stored_and_fences_older_ones() -> None:
    story = Story()
    story.initialize(start_offset=0)
    assert story.read(leader_epoch=5).leader_epoch == 0
    assert story.state().leader_epoch == 5
    count = len(story.log)
    story.read(leader_epoch=5)
    assert len(story.log) == count
    assert code(story.read(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(story.write((0, 0, 2, 1), leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert story.write((0, 0, 2, 1), leader_epoch=5) is None


def test_a_state_that_begins_anew_fences_writes_of_the_old_one_and_older_leaders() -> None:
    """After AlterShareGroupOffsets the offsets must not jump back."""
    story = Story()
    story.initialize(1, 0)
    story.read(leader_epoch=5)
    story.write((0, 9, 2, 1), state_epoch=1)
    assert story.initialize(2, 50) is None
    assert (story.state().start_offset, story.state().batches, story.state().snapshot_epoch) == (
        50,
        (),
        1,
    )
    assert code(story.write((0, 9, 2, 1), state_epoch=1)) is ErrorCode.FENCED_STATE_EPOCH
    assert code(story.initialize(1)) is ErrorCode.FENCED_STATE_EPOCH
    assert code(story.write(leader_epoch=4, state_epoch=1)) is ErrorCode.FENCED_LEADER_EPOCH
    assert story.write((50, 59, 2, 1), leader_epoch=5, state_epoch=2) is None


@pytest.mark.parametrize("asked", ["read", "write"])
def test_what_was_not_initialized_is_neither_read_nor_written(asked: str) -> None:
    story = Story()
    assert code(story.read() if asked == "read" else story.write()) is ErrorCode.INVALID_REQUEST
    assert story.log == []


@pytest.mark.parametrize("asked", ["initialize", "delete", "summary"])
def test_partitions_must_exist(asked: str) -> None:
    story = Story()
    for key, expected in (
        (replace(KEY, partition=-1), ErrorCode.INVALID_REQUEST),
        (replace(KEY, partition=3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (replace(KEY, topic_id=UUID(int=8)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        assert code(getattr(story, asked)(key=key)) is expected
    assert story.log == []


def test_what_is_refused_is_not_stored() -> None:
    story = Story()
    story.initialize(2, 0)
    story.read(leader_epoch=5)
    before, count = story.state(), len(story.log)
    assert code(story.write((0, 0, 2, 1), leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(story.write((0, 0, 2, 1), state_epoch=1)) is ErrorCode.FENCED_STATE_EPOCH
    assert code(story.read(leader_epoch=4)) is ErrorCode.FENCED_LEADER_EPOCH
    assert code(story.initialize(1, 7)) is ErrorCode.FENCED_STATE_EPOCH
    del story.topics[TOPIC]
    for reply in (
        story.read(leader_epoch=6),
        story.write((0, 0, 2, 1), leader_epoch=5),
        story.initialize(3),
        story.delete(),
        story.summary(),
    ):
        assert code(reply) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "its topic was deleted"
    assert (story.state(), len(story.log)) == (before, count)


def test_a_new_leader_that_reads_changes_nothing_but_who_leads() -> None:
    story = Story()
    story.initialize(2, 0)
    story.write((3, 4, 2, 1), start=3, done=1)
    before = story.state()
    assert story.read(leader_epoch=5) == before
    assert story.state() == replace(before, leader_epoch=5)


def test_a_deleted_state_is_gone_and_its_epochs_are_forgotten() -> None:
    story = Story()
    story.initialize(5, 0)
    assert story.delete() is None
    assert story.log[-1][1] is None
    assert story.summary() is None
    assert story.shard.needed_offset == 2
    assert story.delete() is None
    assert len(story.log) == 2
    assert story.initialize(0) is None


def test_a_summary_fences_nobody() -> None:
    story = Story()
    story.initialize(start_offset=9)
    assert story.summary().start_offset == 9
    assert len(story.log) == 1


# Time and metadata


def test_records_that_no_state_needs_are_told_of_from_time_to_time() -> None:
    story = Story(updates_per_snapshot=0)
    story.initialize(start_offset=0)
    story.write((0, 0, 2, 1))
    due = SetTimer(PRUNE_TIMER, story.wall_ms + story.config.prune_interval_ms)
    assert due in story.decide(story.shard.on_loaded).timers
    decision = story.decide(partial(story.shard.on_timer, PRUNE_TIMER))
    assert (decision.timers, decision.announcements) == ([due], [NeedlessRecords(1)])


def test_states_that_are_not_written_are_stored_anew_once() -> None:
    story = Story()
    story.initialize(start_offset=0)
    story.wall_ms += INTERVAL_MS
    decision = story.decide(partial(story.shard.on_timer, COLD_TIMER))
    assert decision.timers == [SetTimer(COLD_TIMER, story.wall_ms + INTERVAL_MS)]
    assert (story.state().snapshot_epoch, story.state().create_timestamp_ms, len(story.log)) == (
        1,
        1_000,
        2,
    )
    story.wall_ms += INTERVAL_MS
    story.decide(partial(story.shard.on_timer, COLD_TIMER))
    assert len(story.log) == 2


def test_a_state_that_was_stored_anew_keeps_no_other_one_from_it() -> None:
    """Else the log before the oldest state could never be deleted."""
    story, other = Story(), replace(KEY, topic_id=OTHER_TOPIC)
    for key in (KEY, other):
        story.initialize(start_offset=0, key=key)
        story.wall_ms += INTERVAL_MS
        story.decide(partial(story.shard.on_timer, COLD_TIMER))
    stored = story.shard.state_of(other)
    assert stored is not None
    assert stored.snapshot_epoch == 1


def test_the_states_of_a_deleted_topic_go_and_those_of_an_unknown_one_stay() -> None:
    story = Story()
    story.initialize()
    topic = TopicImage(name="t", topic_id=TopicId(TOPIC), partitions={})
    before = MetadataImage(
        topics=TopicsImage(by_name={"t": topic}, by_id=TopicsById({TOPIC.int: "t"}, {"t": topic}))
    )
    story.topics.clear()
    assert story.decide(partial(story.shard.on_image, MetadataDelta(before), before)).timers == []
    delta = MetadataDelta(before)
    delta.replay(RemoveTopicRecord(topic_id=TOPIC))
    assert story.decide(partial(story.shard.on_image, delta, MetadataImage())).timers == [
        SetTimer(CLEAN_UP_TIMER, story.wall_ms)
    ]
    story.decide(partial(story.shard.on_timer, CLEAN_UP_TIMER))
    assert story.shard.state_of(KEY) is None


def test_the_states_of_a_topic_that_went_while_no_shard_was_loaded_go_once_one_is() -> None:
    """Apache Kafka 4.3 keeps the states for ever, and the log from their snapshots on.

    Only a shard that hears of the deletion deletes them.
    """
    story = Story()
    story.initialize()
    story.initialize(key=replace(KEY, topic_id=OTHER_TOPIC))
    loaded = Story(log=story.log)
    del loaded.topics[TOPIC]
    assert SetTimer(CLEAN_UP_TIMER, loaded.wall_ms) in loaded.decide(loaded.shard.on_loaded).timers
    loaded.decide(partial(loaded.shard.on_timer, CLEAN_UP_TIMER))
    assert loaded.shard.state_of(KEY) is None
    assert loaded.shard.state_of(replace(KEY, topic_id=OTHER_TOPIC)) is not None
    assert loaded.shard.needed_offset == 1
    again = Story(log=loaded.log)
    assert CLEAN_UP_TIMER not in {timer.key for timer in again.decide(again.shard.on_loaded).timers}


def test_many_states_of_topics_that_went_go_in_bounded_steps() -> None:
    """They went in one batch, however many years of topics had left them, and requests waited
    meanwhile.
    """
    story = Story()
    story.topics[TOPIC] = MAX_CLEAN_UP_RECORDS + 1
    for partition in range(MAX_CLEAN_UP_RECORDS + 1):
        story.initialize(key=replace(KEY, partition=partition))
    loaded = Story(log=story.log)
    del loaded.topics[TOPIC]
    loaded.decide(loaded.shard.on_loaded)
    first = loaded.decide(partial(loaded.shard.on_timer, CLEAN_UP_TIMER))
    assert len(first.records) == MAX_CLEAN_UP_RECORDS
    assert first.timers == [SetTimer(CLEAN_UP_TIMER, loaded.wall_ms + CLEAN_UP_PAUSE_MS)]
    second = loaded.decide(partial(loaded.shard.on_timer, CLEAN_UP_TIMER))
    assert (len(second.records), second.timers) == (1, [])
    assert loaded.shard.needed_offset == len(loaded.log)


def test_an_update_without_a_value_or_a_snapshot_says_nothing() -> None:
    assert (
        decode(encode_key(ShareUpdateKey(group_id="g", topic_id=TOPIC, partition=0)), None) is None
    )
    story = Story()
    update = UpdateRecord(
        key=KEY,
        snapshot_epoch=0,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=0,
        batches=(),
    )
    story.shard.replay(update, ReplayContext(0))
    assert story.shard.state_of(KEY) is None


# What several batches say together


@pytest.mark.parametrize(
    ("several", "start", "expected"),
    [
        ([], 0, []),
        ([(0, 9, 0, 1)], 10, []),
        ([(0, 9, 0, 1)], 4, [(4, 9, 0, 1)]),
        ([(0, 4, 0, 1), (5, 9, 0, 1)], 0, [(0, 9, 0, 1)]),
        ([(0, 4, 0, 1), (6, 9, 0, 1)], 0, [(0, 4, 0, 1), (6, 9, 0, 1)]),
        ([(0, 9, 0, 1), (3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 9, 2, 1), (3, 5, 0, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 9, 2, 1), (3, 5, 0, 2)], 0, [(0, 2, 2, 1), (3, 5, 0, 2), (6, 9, 2, 1)]),
        ([(5, 9, 0, 2), (0, 6, 2, 1)], 0, [(0, 4, 2, 1), (5, 9, 0, 2)]),
    ],
)
def test_what_batches_say_together(
    several: list[tuple[int, int, int, int]], start: int, expected: list[tuple[int, int, int, int]]
) -> None:
    assert combined(batches(*several), start) == batches(*expected)


some_batches = st.lists(
    st.builds(
        lambda first, count, state, delivered: (first, first + count, state, delivered),
        st.integers(0, 30),
        st.integers(0, 10),
        st.sampled_from([0, 2, 4]),
        st.integers(1, 4),
    ),
    max_size=12,
)


@given(some_batches, st.integers(-1, 35))
def test_each_offset_has_the_highest_count_and_then_the_highest_state(
    several: list[tuple[int, int, int, int]], start: int
) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for first, last, state, count in several:
        for offset in range(max(first, start), last + 1):
            expected[offset] = max(expected.get(offset, (0, 0)), (count, state))
    result = combined(batches(*several), start)
    told = {
        offset: (each.delivery_count, each.delivery_state)
        for each in result
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    assert told == expected
    for one, two in pairwise(result):
        says_the_same = (one.delivery_state, one.delivery_count) == (
            two.delivery_state,
            two.delivery_count,
        )
        assert one.last_offset + says_the_same < two.first_offset, (
            "neighbours that say the same are one batch"
        )
