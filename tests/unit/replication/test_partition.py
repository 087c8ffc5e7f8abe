"""A partition as a leader serves it: epochs, high watermark, reads, offsets by time, trimming."""

import pytest
import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.config.views import LogConfig
from log_service.records.builder import BatchBuilder, build_batch
from log_service.records.validator import accept_own_batches
from log_service.replication.fetcher import Fetcher
from log_service.replication.followed_partition import Followed, is_as_requested
from log_service.replication.partition import OffsetSpec
from log_service.replication.partition_state import Isolation
from log_service.storage.unstable_transactions import UnstableTransactions
from tests.unit.replication.context import NODE, ReplicaContext, batch, run_story, running, sent


def code_of(caught: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return caught.value.code


def read(
    context: ReplicaContext,
    offset: int,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    max_bytes: int = 1 << 20,
    epoch: int = -1,
) -> bytes | None:
    found = context.partition().read(
        offset,
        isolation=isolation,
        max_bytes=max_bytes,
        current_leader_epoch=epoch,
        is_one_batch_guaranteed=True,
    )
    if found is None or found.file_slice is None:
        return None
    content = found.file_slice.read()
    found.file_slice.release()
    return content


def test_what_is_appended_can_be_read_at_once() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            assert context.produce(b"one", b"two") == 0
            assert context.produce(b"three") == 2
            assert context.partition().high_watermark == 3
            content = read(context, 0)
            assert content is not None
            assert b"one" in content
            assert b"three" in content

    run_story(main)


def test_a_read_at_the_high_watermark_finds_nothing() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one")
            assert read(context, 1) is None

    run_story(main)


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_a_read_outside_the_log_is_out_of_range(offset: int) -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one")
            with pytest.raises(KafkaError) as caught:
                read(context, offset)
            assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE

    run_story(main)


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_reader_of_another_leader_epoch_is_told(epoch: int, code: ErrorCode) -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.elect(1)
            assert context.partition().leader_epoch == 1
            with pytest.raises(KafkaError) as caught:
                read(context, 0, epoch=epoch)
            assert code_of(caught) is code
            assert read(context, 0, epoch=1) is None

    run_story(main)


def test_a_partition_without_leadership_serves_no_client() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.elect(-1)
            with pytest.raises(KafkaError) as caught:
                context.produce(b"one")
            assert code_of(caught) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_story(main)


def test_a_new_leader_epoch_is_stamped_and_found_again() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one", b"two")
            context.elect(1)
            context.produce(b"three")
            partition = context.partition()
            assert partition.end_offset_for_epoch(0, -1) == (0, 2)
            assert partition.end_offset_for_epoch(1, -1) == (1, 3)
            assert partition.end_offset_for_epoch(2, -1) == (-1, -1)
            assert partition.diverging_epoch(0, 2) is None
            assert partition.diverging_epoch(0, 3) == (0, 2)

    run_story(main)


def test_an_epoch_in_which_nothing_was_written_ends_where_the_one_before_it_ends() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one")
            context.elect(1)
            context.elect(1)
            partition = context.partition()
            assert partition.leader_epoch == 2
            assert partition.end_offset_for_epoch(1, -1) == (0, 1)
            assert partition.end_offset_for_epoch(2, -1) == (2, 1)

    run_story(main)


def test_with_flush_messages_1_nothing_is_visible_before_the_sync() -> None:
    async def main() -> None:
        async with running(config=LogConfig(flush_messages=1)) as context:
            context.files.sync_seconds = (0.010, 0.010)
            context.create_topic()
            context.produce(b"one")
            partition = context.partition()
            assert partition.high_watermark == 0
            assert read(context, 0) is None
            assert read(context, 1) is None
            await trio.sleep(0.020)
            assert partition.high_watermark == 1
            assert read(context, 0) is not None

    run_story(main)


def test_a_leader_names_no_end_before_what_its_epoch_began_with_is_safe() -> None:
    """A reader that had been told a larger one would take it for a loss (KIP-207)."""

    async def main() -> None:
        config = LogConfig(flush_messages=1)
        async with running(config=config) as killed:
            killed.create_topic()
            killed.produce(b"one", timestamp_ms=1_000)
            await trio.sleep(1)
            assert killed.partition().find_offset(OffsetSpec.LATEST, -1).offset == 1
        killed.files.sync_seconds = (0.010, 0.010)
        async with running(killed.files, config) as context:
            context.create_topic()
            partition = context.partition()
            for timestamp in (OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP, 1_000):
                with pytest.raises(KafkaError) as caught:
                    partition.find_offset(timestamp, -1)
                assert code_of(caught) is ErrorCode.OFFSET_NOT_AVAILABLE
            assert partition.find_offset(OffsetSpec.EARLIEST, -1).offset == 0
            await context.replicas.syncs.settle_end(partition)
            assert partition.find_offset(OffsetSpec.LATEST, -1).offset == 1
            assert partition.find_offset(1_000, -1).offset == 0

    run_story(main)


def test_a_leader_that_appends_knows_its_end_while_it_syncs() -> None:
    async def main() -> None:
        async with running(config=LogConfig(flush_messages=1)) as context:
            context.create_topic()
            context.files.sync_seconds = (0.010, 0.010)
            context.produce(b"one")
            assert context.partition().find_offset(OffsetSpec.LATEST, -1).offset == 0
            context.elect(1)
            with pytest.raises(KafkaError) as caught:
                context.partition().find_offset(OffsetSpec.LATEST, -1)
            assert code_of(caught) is ErrorCode.OFFSET_NOT_AVAILABLE
            await context.replicas.syncs.settle_end(context.partition())
            assert context.partition().find_offset(OffsetSpec.LATEST, -1).offset == 1

    run_story(main)


def test_a_request_that_waits_for_an_end_goes_on_when_the_sync_fails() -> None:
    async def main() -> None:
        config = LogConfig(flush_messages=1)
        async with running(config=config) as killed:
            killed.create_topic()
            killed.produce(b"one")
            await trio.sleep(1)
        async with running(killed.files, config) as context:
            context.files.sync_seconds = (0.010, 0.010)
            context.create_topic()
            context.files.fail_next("sync")
            await context.replicas.syncs.settle_end(context.partition())
            with pytest.raises(KafkaError) as caught:
                context.partition().find_offset(OffsetSpec.LATEST, -1)
            assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR

    run_story(main)


def test_appends_during_a_sync_share_the_next_one() -> None:
    async def main() -> None:
        async with running(config=LogConfig(flush_messages=1)) as context:
            context.create_topic()
            context.produce(b"zero")
            await trio.sleep(1)
            context.files.sync_seconds = (0.010, 0.010)
            context.produce(b"one")
            await trio.sleep(0.005)
            before = context.files.sync_count
            for _ in range(20):
                context.produce(b"more")
            await trio.sleep(0.1)
            assert context.partition().high_watermark == 22
            assert context.files.sync_count - before <= 2

    run_story(main)


def test_a_failed_sync_takes_the_partition_offline() -> None:
    async def main() -> None:
        async with running(config=LogConfig(flush_messages=1)) as context:
            context.create_topic()
            context.files.fail_next("sync")
            context.produce(b"one")
            await trio.sleep(1)
            partition = context.partition()
            assert partition.is_offline
            assert partition.high_watermark == 0
            with pytest.raises(KafkaError) as caught:
                context.produce(b"two")
            assert code_of(caught) is ErrorCode.KAFKA_STORAGE_ERROR

    run_story(main)


def test_acks_all_needs_the_in_sync_replicas_that_the_topic_asks_for() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic(replicas=(NODE, NodeId(2)), min_insync_replicas="2")
            with pytest.raises(KafkaError) as caught:
                context.produce(b"one", acks=-1)
            assert code_of(caught) is ErrorCode.NOT_ENOUGH_REPLICAS
            assert context.produce(b"one", acks=1) == 0

    run_story(main)


def test_what_this_node_appends_itself_needs_the_in_sync_replicas_too() -> None:
    """A coordinator's records are as safe as a producer's with acks=all."""

    async def main() -> None:
        async with running() as context:
            context.create_topic(replicas=(NODE, NodeId(2)), min_insync_replicas="2")
            with pytest.raises(KafkaError) as caught:
                context.replicas.append_own(context.partition(), accept_own_batches(batch(b"one")))
            assert code_of(caught) is ErrorCode.NOT_ENOUGH_REPLICAS
            context.configure("min.insync.replicas", "1")
            assert (
                context.replicas.append_own(
                    context.partition(), accept_own_batches(batch(b"one"))
                ).base_offset
                == 0
            )

    run_story(main)


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one", timestamp_ms=1_000)
            context.produce(b"two", timestamp_ms=2_000)
            partition, committed = context.partition(), Isolation.READ_COMMITTED
            unstable = UnstableTransactions()
            unstable.begin(7, 1)
            partition.state.hold_stable_by(unstable)
            content = read(context, 0, isolation=committed)
            assert content is not None
            assert b"two" not in content
            assert read(context, 1, isolation=committed) is None
            assert read(context, 2, isolation=committed) is None
            assert b"two" in (read(context, 1) or b"")
            assert partition.find_offset(OffsetSpec.LATEST, -1, committed).offset == 1
            assert partition.find_offset(OffsetSpec.LATEST, -1).offset == 2
            assert partition.find_offset(2_000, -1, committed).offset == -1
            assert partition.find_offset(2_000, -1).offset == 1

    run_story(main)


def test_a_partition_is_not_asked_for_more_in_sync_replicas_than_it_has_replicas() -> None:
    """As Apache Kafka 4.3 behaves: the effective minimum is bounded by the number of replicas."""

    async def main() -> None:
        async with running() as context:
            context.create_topic(min_insync_replicas="2")
            assert context.produce(b"one", acks=-1) == 0

    run_story(main)


def test_transactional_batches_are_refused_until_there_are_transactions() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            builder = BatchBuilder()
            builder.append(1_000, None, b"one")
            content = builder.build(
                producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
            )
            with pytest.raises(KafkaError) as caught:
                context.partition().append_as_leader(content, 1_000)
            assert code_of(caught) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert context.partition().high_watermark == 0

    run_story(main)


def test_special_timestamps_are_found() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one", timestamp_ms=1_000)
            context.produce(b"two", timestamp_ms=9_000)
            context.produce(b"three", timestamp_ms=2_000)
            partition = context.partition()
            partition.delete_records(1)
            found = {spec: partition.find_offset(spec, -1).offset for spec in OffsetSpec}
            assert found == {
                OffsetSpec.LATEST: 3,
                OffsetSpec.EARLIEST: 1,
                OffsetSpec.MAX_TIMESTAMP: 1,
                OffsetSpec.EARLIEST_LOCAL: 1,
                OffsetSpec.LATEST_TIERED: -1,
                OffsetSpec.EARLIEST_PENDING_UPLOAD: -1,
            }

    run_story(main)


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(0, 0), (1_000, 0), (1_001, 1), (2_000, 1), (2_001, -1)]
)
def test_a_time_finds_the_first_record_at_or_after_it(timestamp: int, offset: int) -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one", timestamp_ms=1_000)
            context.produce(b"two", timestamp_ms=2_000)
            assert context.partition().find_offset(timestamp, -1).offset == offset

    run_story(main)


def test_records_are_deleted_up_to_the_high_watermark_and_no_further() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one", b"two", b"three")
            partition = context.partition()
            assert partition.delete_records(1) == 1
            assert partition.delete_records(0) == 1
            assert partition.delete_records(-1) == 3
            with pytest.raises(KafkaError) as caught:
                partition.delete_records(4)
            assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE
            with pytest.raises(KafkaError) as caught:
                read(context, 0)
            assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE

    run_story(main)


def test_an_offset_that_is_deleted_is_out_of_range_whatever_its_epoch() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            context.produce(b"one", b"two", b"three")
            partition = context.partition()
            partition.delete_records(2)
            assert partition.diverging_epoch(0, 2) is None
            with pytest.raises(KafkaError) as caught:
                partition.diverging_epoch(0, 1)
            assert code_of(caught) is ErrorCode.OFFSET_OUT_OF_RANGE

    run_story(main)


def test_a_compacted_topic_keeps_its_records() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic(cleanup_policy="compact")
            with pytest.raises(KafkaError) as caught:
                context.partition().delete_records(0)
            assert code_of(caught) is ErrorCode.POLICY_VIOLATION

    run_story(main)


def test_a_damaged_batch_is_refused_and_leaves_no_trace() -> None:
    async def main() -> None:
        async with running() as context:
            context.create_topic()
            damaged = sent(b"one")
            damaged[-2] ^= 1
            partition = context.partition()
            with pytest.raises(KafkaError) as caught:
                context.replicas.append(partition, damaged, acks=1, now_ms=0)
            assert code_of(caught) is ErrorCode.CORRUPT_MESSAGE
            assert partition.high_watermark == 0
            assert partition.appended_bytes == 0

    run_story(main)


# Following


def led_elsewhere(base_offset: int, leader_epoch: int) -> bytes:
    return build_batch(
        [(1_000, None, b"value")], base_offset=base_offset, leader_epoch=leader_epoch
    )


def test_a_follower_leaves_out_a_last_batch_that_is_cut_off() -> None:
    """Either product sends a slice of its file, which may end anywhere.

    It is no damage, and is fetched again.
    """

    async def main() -> None:
        async with running() as context:
            context.create_topic(replicas=(NODE, NodeId(2)), isr=(NODE, NodeId(2)))
            context.elect(2)
            partition = context.partition()
            partition.append_as_follower(led_elsewhere(0, 1) + led_elsewhere(1, 1)[:-1])
            assert partition.state.log_end_offset == 1
            partition.append_as_follower(led_elsewhere(1, 1)[:40])
            assert partition.state.log_end_offset == 1
            partition.append_as_follower(led_elsewhere(1, 1))
            assert partition.state.log_end_offset == 2

    run_story(main)


def test_a_follower_leaves_out_a_batch_of_a_later_epoch_than_it_follows_with_all_behind_it() -> (
    None
):
    """KAFKA-18723: the log would hold an epoch before this replica knows its leader."""

    async def main() -> None:
        async with running() as context:
            context.create_topic(replicas=(NODE, NodeId(2)), isr=(NODE, NodeId(2)))
            context.elect(2)
            partition = context.partition()
            partition.append_as_follower(
                led_elsewhere(0, 1) + led_elsewhere(1, 2) + led_elsewhere(2, 1)
            )
            assert partition.state.log_end_offset == 1
            context.elect(2)
            partition.append_as_follower(led_elsewhere(1, 2))
            assert partition.state.log_end_offset == 2

    run_story(main)


def test_a_response_counts_for_the_leader_epoch_and_the_log_end_that_it_was_asked_for_with() -> (
    None
):
    async def main() -> None:
        async with running() as context:
            context.create_topic(
                replicas=(NODE, NodeId(2), NodeId(3)), isr=(NODE, NodeId(2), NodeId(3))
            )
            context.elect(2)
            followed = Followed(context.partition())
            Fetcher.next_parameters(followed)
            assert is_as_requested(followed)
            context.elect(3)
            assert not is_as_requested(followed), (
                "another leader: what the one before sent may be no part of its log"
            )
            Fetcher.next_parameters(followed)
            followed.partition.append_as_follower(led_elsewhere(0, 2))
            assert not is_as_requested(followed), "what comes next was asked for already"

    run_story(main)
