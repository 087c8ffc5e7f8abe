"""The cleaner of a node cleans logs when they are due, and remembers across a start.

It runs on virtual time.
"""

import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from log_service.common.env import NodeEnv
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, TopicId, TopicPartition
from log_service.config.views import CleanerConfig, LogConfig, LogManagerConfig
from log_service.records.batch import HEADER_SIZE, compute_crc, iterate_headers, iterate_records
from log_service.records.builder import build_batch
from log_service.records.control import ControlType, build_end_transaction_marker
from log_service.storage.aborted_transactions import AbortedTransaction, pack_index
from log_service.storage.checkpoints import CLEANER_OFFSET_CHECKPOINT, read_offsets
from log_service.storage.cleaner.compaction import CompactionOutcome
from log_service.storage.log import Log
from log_service.storage.log_manager import LogManager
from tests.sim.clock import EPOCH_MS, VirtualClock
from tests.sim.files import MemoryFiles
from tests.sim.network import MemoryNetwork
from tests.unit.storage.context import validated

A, B, OFFSETS = (
    TopicPartition("a", 0),
    TopicPartition("b", 0),
    TopicPartition(GROUP_METADATA_TOPIC, 0),
)
ROOT = Path("/logs")
COMPACTED = LogConfig(is_compacted=True, is_deleted=False)
DAY_MS = 86_400_000


class Node:
    """A running manager on virtual time."""

    def __init__(self, files: MemoryFiles | None = None, **cleaner: Any) -> None:
        self.clock = VirtualClock()
        self.files = files or MemoryFiles(rng=Random(1), clock=self.clock)
        env = NodeEnv(
            clock=self.clock,
            rng=Random(2),
            network=MemoryNetwork(Random(4)).host("node"),
            files=self.files,
        )
        config = LogManagerConfig(
            log_dirs=(ROOT,), initial_task_delay_ms=0, cleaner=CleanerConfig(**cleaner)
        )
        self.manager = LogManager(env, config, LogConfig())

    def create(self, key: TopicPartition, config: LogConfig = COMPACTED) -> Log:
        return self.manager.create_log(key, TopicId(UUID(int=len(key.topic))), config)

    def fill(self, key: TopicPartition, segments: int = 4, *, timestamp: int = EPOCH_MS) -> None:
        """Write segments that each overwrite one key."""
        log = self.manager.logs[key]
        for number in range(segments):
            content = build_batch([(timestamp, b"key", b"%d" % number)])
            log.append_as_leader(validated(content), leader_epoch=0, now_ms=self.clock.wall_ms())
            log.roll()

    async def cleaned(self, key: TopicPartition) -> CompactionOutcome:
        """Ask for a pass and return what it did."""
        outcome = (await self.manager.cleaner.clean_now([key]))[key]
        assert outcome is not None
        return outcome

    def values(self, key: TopicPartition) -> list[bytes | None]:
        chunks = self.manager.logs[key].read_batches(0)
        return [
            record.value
            for chunk in chunks
            for position, _ in iterate_headers(chunk)
            for record in iterate_records(chunk, position)
        ]


def unreadable_batch() -> bytearray:
    """Return a batch that has a checksum and no records."""
    content = bytearray(build_batch([(EPOCH_MS, b"key", b"")]))
    content[HEADER_SIZE:] = b"\xff" * (len(content) - HEADER_SIZE)
    content[17:21] = compute_crc(content).to_bytes(4, "big")
    return content


Story = Callable[[Node], Awaitable[None]]


def play(story: Story, files: MemoryFiles | None = None, **cleaner: Any) -> Node:
    nodes: list[Node] = []

    async def main() -> None:
        node = Node(files, **cleaner)
        nodes.append(node)
        await node.manager.load()
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: node.manager.run(task_status=task_status))
            await story(node)
            nursery.cancel_scope.cancel()
        await node.manager.close()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return nodes[0]


def test_dirty_logs_are_cleaned_by_the_timer_the_dirtiest_first_and_others_left_alone() -> None:
    async def story(node: Node) -> None:
        node.create(A)
        node.create(B, LogConfig())
        node.fill(A)
        node.fill(B)
        await trio.sleep(14)
        assert len(node.values(A)) == 4
        await trio.sleep(2)
        assert node.values(A) == [b"3"]
        assert len(node.values(B)) == 4

    play(story)


def test_a_log_below_its_dirty_ratio_waits_and_one_with_an_old_record_does_not() -> None:
    async def story(node: Node) -> None:
        patient = LogConfig(is_compacted=True, is_deleted=False, min_cleanable_dirty_ratio=0.9)
        hasty = LogConfig(
            is_compacted=True,
            is_deleted=False,
            min_cleanable_dirty_ratio=0.9,
            max_compaction_lag_ms=60_000,
        )
        for key, config in ((A, patient), (B, hasty)):
            node.create(key, config)
            node.fill(key)
        await trio.sleep(16)
        node.fill(A, 1, timestamp=node.clock.wall_ms())
        node.fill(B, 1, timestamp=node.clock.wall_ms())
        await trio.sleep(30)
        assert node.values(A) == node.values(B) == [b"3", b"0"]
        await trio.sleep(60)
        assert (node.values(A), node.values(B)) == ([b"3", b"0"], [b"0"])

    play(story)


def test_young_segments_wait_for_the_shortest_lag() -> None:
    async def story(node: Node) -> None:
        node.create(
            A, LogConfig(is_compacted=True, is_deleted=False, min_compaction_lag_ms=100_000)
        )
        node.fill(A, 2)
        node.fill(A, 2, timestamp=EPOCH_MS + 50_000)
        await trio.sleep(99)
        assert len(node.values(A)) == 4
        await trio.sleep(17)
        assert len(node.values(A)) == 3
        await trio.sleep(50)
        assert node.values(A) == [b"1"]

    play(story)


def test_internal_topics_are_looked_at_even_where_the_timer_is_a_backstop() -> None:
    async def story(node: Node) -> None:
        for key in (A, OFFSETS):
            node.create(key)
            node.fill(key)
        await trio.sleep(16)
        assert (len(node.values(A)), len(node.values(OFFSETS))) == (4, 1)
        await trio.sleep(DAY_MS / 1000)
        assert len(node.values(A)) == 1

    play(story, backoff_ms=DAY_MS)


def test_who_asks_gets_the_figures() -> None:
    async def story(node: Node) -> None:
        log = node.create(A)
        node.create(B, LogConfig())
        node.fill(A)
        size_bytes = log.size_bytes
        outcomes = await node.manager.cleaner.clean_now([A, B, TopicPartition("unknown", 0)])
        assert list(outcomes) == [A]
        one = outcomes[A]
        assert one is not None
        assert (one.pass_count, one.segments_before, one.segments_after, one.cleaned_offset) == (
            1,
            4,
            1,
            4,
        )
        assert (one.records_before, one.records_after) == (4, 1)
        assert (one.bytes_before, one.bytes_after) == (size_bytes, size_bytes // 4)
        assert (one.dirty_ratio_before, one.dirty_ratio_after) == (1.0, 0.0)
        again = await node.cleaned(A)
        assert (again.pass_count, again.reason) == (0, None)

    play(story, backoff_ms=DAY_MS)


def test_who_stops_waiting_stops_nothing() -> None:
    async def story(node: Node) -> None:
        node.files.pool_seconds = (1.0, 1.0)
        node.create(A)
        node.fill(A)
        with trio.move_on_after(0.5) as scope:
            await node.manager.cleaner.clean_now([A])
        assert scope.cancelled_caught
        await trio.sleep(60)
        assert node.values(A) == [b"3"]

    play(story, backoff_ms=DAY_MS)


@pytest.mark.parametrize("cleaner", [{"is_enabled": False}, {"thread_count": 0}])
def test_a_disabled_cleaner_cleans_nothing_and_says_so(cleaner: dict[str, Any]) -> None:
    async def story(node: Node) -> None:
        node.create(OFFSETS)
        node.fill(OFFSETS)
        await trio.sleep(100)
        assert len(node.values(OFFSETS)) == 4
        with pytest.raises(KafkaError) as refused:
            await node.manager.cleaner.clean_now([OFFSETS])
        assert refused.value.code == ErrorCode.POLICY_VIOLATION
        node.manager.cleaner.reconfigure(CleanerConfig())
        await trio.sleep(100)
        assert len(node.values(OFFSETS)) == 1

    play(story, **cleaner)


def test_how_far_a_log_is_clean_outlives_a_stop_and_not_the_log() -> None:
    async def first(node: Node) -> None:
        for key in (A, OFFSETS):
            node.create(key)
            node.fill(key)
        await trio.sleep(16)
        assert read_offsets(node.files, ROOT / CLEANER_OFFSET_CHECKPOINT) == {A: 4, OFFSETS: 4}

    async def second(node: Node) -> None:
        assert node.manager.logs[A].cleaned_offset == 4
        node.manager.delete_log(A)
        await trio.sleep(61)
        assert read_offsets(node.files, ROOT / CLEANER_OFFSET_CHECKPOINT) == {OFFSETS: 4}
        node.create(A)
        assert node.manager.logs[A].cleaned_offset is None

    play(second, play(first).files)


def test_a_damaged_log_is_named_once_and_the_others_are_cleaned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: Node) -> None:
        for key in (A, B):
            node.create(key)
            node.fill(key)
        node.files.open(ROOT / "a-0" / "00000000000000000001.log").write_at(65, b"\xff")
        await trio.sleep(200)
        assert len(node.values(B)) == 1
        assert list(node.manager.cleaner.uncleanable) == [A]
        outcome = await node.cleaned(A)
        assert outcome.reason is not None
        assert "checksum" in outcome.reason
        with pytest.raises(KafkaError):
            node.values(A)

    play(story)
    assert (
        len(
            [record for record in caplog.records if "not compacted any more" in record.getMessage()]
        )
        == 1
    )


def test_a_log_with_a_batch_that_cannot_be_read_is_cleaned_and_the_batch_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(node: Node) -> None:
        log = node.create(A)
        node.fill(A)
        log.append_as_leader(
            validated(unreadable_batch()), leader_epoch=0, now_ms=node.clock.wall_ms()
        )
        for _ in range(2):
            node.fill(A)
            outcome = await node.cleaned(A)
            assert outcome.reason is None
            log.cleaned_offset = None
        assert node.manager.cleaner.uncleanable == {}
        offsets = [
            header.base_offset for segment in log.segments for _, header in segment.headers(0)
        ]
        assert offsets == [4, 12], "the batch, and the latest record of the only key"

    play(story)
    (warning,) = [
        record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()
    ]
    assert warning.startswith("a-0: compaction keeps the batch at offsets 4 to 4")


def test_a_topic_of_the_same_name_does_not_inherit_the_damage() -> None:
    async def story(node: Node) -> None:
        node.create(A)
        node.fill(A)
        node.files.open(ROOT / "a-0" / "00000000000000000001.log").write_at(65, b"\xff")
        await trio.sleep(20)
        assert list(node.manager.cleaner.uncleanable) == [A]
        node.manager.delete_log(A)
        assert node.manager.cleaner.uncleanable == {}
        node.create(A)
        node.fill(A)
        await trio.sleep(20)
        assert node.values(A) == [b"3"]

    play(story)


def test_a_full_disk_puts_a_pass_off() -> None:
    async def story(node: Node) -> None:
        node.create(A)
        node.fill(A)
        await node.manager.logs[A].sync()
        node.files.fail_next("append", error=28, containing=".cleaned")
        outcome = await node.cleaned(A)
        assert "make room" in (outcome.reason or "")
        assert len(node.values(A)) == 4
        await trio.sleep(40)
        assert node.values(A) == [b"3"]

    play(story)


def test_a_log_that_is_deleted_in_the_middle_of_a_pass_is_gone() -> None:
    async def story(node: Node) -> None:
        node.files.pool_seconds = (0.1, 0.1)
        node.create(A)
        node.fill(A, 20)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.manager.cleaner.clean_now, [A])
            await trio.sleep(2)
            assert node.manager.delete_log(A)
        node.create(A)
        node.fill(A)
        await node.manager.cleaner.clean_now([A])
        assert node.values(A) == [b"3"]

    play(story, io_buffer_bytes=1, backoff_ms=DAY_MS)


def test_retention_goes_on_for_logs_that_are_compacted_and_deleted() -> None:
    async def story(node: Node) -> None:
        node.create(A, LogConfig(is_compacted=True, is_deleted=True, retention_ms=100_000))
        node.fill(A, 2)
        await trio.sleep(20)
        assert node.values(A) == [b"1"]
        await trio.sleep(90)
        await node.manager.apply_retention()
        assert node.values(A) == []
        assert node.manager.logs[A].log_start_offset == 2
        node.fill(A, 3, timestamp=node.clock.wall_ms())
        await trio.sleep(20)
        assert node.values(A) == [b"2"]

    play(story)


def test_as_many_logs_are_cleaned_at_once_as_there_are_threads() -> None:
    seconds: list[float] = []

    async def story(node: Node) -> None:
        node.files.pool_seconds = (1.0, 1.0)
        for key in (A, B):
            node.create(key)
            node.fill(key)
            await node.manager.logs[key].sync()
        started = trio.current_time()
        await node.manager.cleaner.clean_now([A, B])
        seconds.append(trio.current_time() - started)
        assert node.values(A) == node.values(B) == [b"3"]

    for thread_count in (1, 2):
        play(story, thread_count=thread_count, backoff_ms=DAY_MS)
    one, two = seconds
    assert two < 0.6 * one


def test_the_rate_of_reading_is_bounded() -> None:
    async def story(node: Node) -> None:
        log = node.create(A)
        node.fill(A, 50)
        started = trio.current_time()
        size_bytes = log.size_bytes
        await node.manager.cleaner.clean_now([A])
        seconds = trio.current_time() - started
        assert math.isclose(seconds, 2 * size_bytes / 1_000, rel_tol=0.1)  # each byte is read twice

    play(story, io_max_bytes_per_second=1_000.0, backoff_ms=DAY_MS)


def test_a_pass_that_takes_longer_than_the_timer_is_waited_for_in_peace() -> None:
    """The cleaner asked without a pause whether the next look is due.

    That kept a processor busy, and on virtual time had no end.
    """

    class Turns(trio.abc.Instrument):
        def __init__(self, scope: trio.CancelScope) -> None:
            self.scope = scope
            self.count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += 1
            if self.count > 10_000:
                self.scope.cancel()

    async def story(node: Node) -> None:
        node.files.pool_seconds = (5.0, 5.0)
        node.create(A)
        node.fill(A)
        with trio.CancelScope() as scope:
            trio.lowlevel.add_instrument(Turns(scope))
            await trio.sleep(600)
        assert not scope.cancelled_caught, "a caller asks again and again"
        assert node.values(A) == [b"3"]

    play(story, backoff_ms=100)


def filled_by_kafka(node: Node, *markers: ControlType | None) -> None:
    """Write transactions into A, each in a segment of its own.

    Each has the key's next value, and how it ended (None: it did not).
    """
    log = node.create(A)
    for number, marker in enumerate(markers):
        header: dict[str, Any] = {
            "producer_id": 7,
            "producer_epoch": 0,
            "base_offset": log.log_end_offset,
        }
        rows = [(EPOCH_MS, b"key", b"%d" % number)]
        log.append_as_follower(
            build_batch(rows, base_sequence=number, is_transactional=True, **header)
        )
        if marker is not None:
            header["base_offset"] += 1
            log.append_as_follower(
                build_end_transaction_marker(
                    marker, coordinator_epoch=0, timestamp_ms=EPOCH_MS, **header
                )
            )
        log.roll()


def put_index(node: Node, base_offset: int, first_offset: int) -> None:
    """Write the index that Kafka would leave beside a segment.

    It has one transaction, whose marker follows its record.
    """
    entry = AbortedTransaction(7, first_offset, first_offset + 1, first_offset)
    file = node.files.open(ROOT / "a-0" / f"{base_offset:020d}.txnindex")
    file.append_gathered([pack_index([entry])])
    file.sync_nowait()
    node.files.sync_directory(ROOT / "a-0")


def test_a_value_of_an_aborted_transaction_is_not_the_latest() -> None:
    async def story(node: Node) -> None:
        filled_by_kafka(node, ControlType.COMMIT, ControlType.ABORT)
        put_index(node, 2, 2)

    async def restarted(node: Node) -> None:
        node.create(A)
        outcome = await node.cleaned(A)
        assert (outcome.reason, outcome.records_before, outcome.records_after) == (None, 4, 3)
        assert node.manager.cleaner.uncleanable == {}
        assert node.values(A) == [b"0", b"\0\0\0\0\0\0", b"\0\0\0\0\0\0"], (
            "the value that was committed, and both markers"
        )

    play(restarted, play(story).files)


def test_what_follows_an_open_transaction_stays_and_who_asks_is_told_why() -> None:
    async def story(node: Node) -> None:
        filled_by_kafka(node, ControlType.COMMIT, ControlType.COMMIT, None)

    async def restarted(node: Node) -> None:
        log = node.create(A)
        node.fill(A)
        first = await node.cleaned(A)
        assert (first.pass_count, first.cleaned_offset, first.reason) == (1, 4, None)
        values = node.values(A)
        again = await node.cleaned(A)
        assert (again.pass_count, again.dirty_ratio_after) == (0, 0.0)
        assert "nothing from offset 4 on" in (again.reason or "")
        assert node.values(A) == values
        assert log.producer_state.first_open_offset == 4
        assert node.manager.cleaner.uncleanable == {}

    play(restarted, play(story).files)
