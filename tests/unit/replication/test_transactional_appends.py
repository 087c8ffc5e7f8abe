"""A leader checks batches and markers of a producer's transaction before it appends them.

Readers see the results.
"""

from collections.abc import Awaitable, Callable

import pytest

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import NodeId
from log_service.records.builder import BatchBuilder
from log_service.records.control import EndOfTransaction
from log_service.records.validator import accept_own_batches
from log_service.replication.partition import Partition
from log_service.storage.append_result import AppendResult
from log_service.storage.verifications import Verification
from tests.unit.replication.context import NODE, ReplicaContext, run_story, running

PRODUCER_ID, NOW_MS = 7, 1_000
ABORT = EndOfTransaction(
    producer_id=PRODUCER_ID, producer_epoch=0, is_abort=True, coordinator_epoch=1
)
Append = Callable[[Partition, Verification], AppendResult]


def transactional(*, base_sequence: int) -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"one")
    return builder.build(
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        base_sequence=base_sequence,
        is_transactional=True,
    )


def append_of_client(partition: Partition, shown: Verification) -> AppendResult:
    return partition.append_in_transaction(
        transactional(base_sequence=0), shown, NOW_MS, needs_all=True
    )


def append_of_coordinator(partition: Partition, shown: Verification) -> AppendResult:
    return partition.append_own(accept_own_batches(transactional(base_sequence=-1)), NOW_MS, shown)


EITHER = pytest.mark.parametrize("append", [append_of_client, append_of_coordinator])


def verified(partition: Partition) -> Verification:
    return partition.begin_verification(PRODUCER_ID, 0, 0, is_version_2=False, now_ms=NOW_MS)


def tell(story: Callable[[ReplicaContext], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running() as context:
            await story(context)

    run_story(main)


@EITHER
def test_readers_of_committed_records_wait_from_the_first_batch_of_a_transaction_to_its_marker(
    append: Append,
) -> None:
    async def story(context: ReplicaContext) -> None:
        context.create_topic()
        context.produce(b"before")
        partition = context.partition()
        assert append(partition, verified(partition)).base_offset == 1
        assert (partition.high_watermark, partition.state.last_stable_offset) == (2, 1)
        assert partition.append_marker(ABORT, NOW_MS).base_offset == 2
        assert (partition.high_watermark, partition.state.last_stable_offset) == (3, 3)

    tell(story)


@EITHER
def test_a_batch_that_comes_after_its_transaction_has_ended_is_refused(append: Append) -> None:
    """It would begin a transaction that no coordinator knows of, and that none ends."""

    async def story(context: ReplicaContext) -> None:
        context.create_topic()
        partition = context.partition()
        shown = verified(partition)
        partition.append_marker(ABORT, NOW_MS)
        with pytest.raises(KafkaError) as caught:
            append(partition, shown)
        assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        assert (partition.high_watermark, partition.state.last_stable_offset) == (1, 1)

    tell(story)


@EITHER
def test_batches_and_markers_need_the_in_sync_replicas_that_the_topic_asks_for(
    append: Append,
) -> None:
    async def story(context: ReplicaContext) -> None:
        context.create_topic(replicas=(NODE, NodeId(2)), min_insync_replicas="2")
        partition = context.partition()
        with pytest.raises(KafkaError) as caught:
            append(partition, verified(partition))
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        with pytest.raises(KafkaError) as caught:
            partition.append_marker(ABORT, NOW_MS)
        assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    tell(story)
