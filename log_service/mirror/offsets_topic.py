"""The topic of the target cluster that keeps a flow's progress. It is compacted and has one record
per partition of the source (KIP-618).

The transaction that writes mirrored records writes their partitions' progress, too. So whatever a reader of committed records sees of the
target, the last committed progress says exactly how far the source is in it. Decides nothing: ``progress`` does.
"""

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ItemsFailed, NewTopic
from log_service.client.consumer.range_reader import read_range
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.mirror.progress import Progress, decode
from log_service.records.batch import iterate_headers, iterate_records

CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""Small segments, so that compaction keeps what a start has to read below some tens of megabytes."""


async def create_offsets_topic(target: Admin, topic: str, replication_factor: int) -> None:
    """Create the topic where it is not there. Raises KafkaError: the cluster refuses it."""
    new = NewTopic(name=topic, partition_count=1, replication_factor=replication_factor, configs=CONFIGS)
    try:
        await target.create_topics([new])
    except ItemsFailed as failed:
        if failed.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_progress(target: Admin, topic: str, *, is_every_transaction_ended: bool) -> dict[TopicPartition, Progress]:
    """Return the committed progress by partition of the source. There is none without the topic, or
    behind a tombstone.

    With ``is_every_transaction_ended`` the caller has made sure of that, by fencing the flow's producer: then all of the topic is read, and
    a transaction that is open all the same is an error. Without it reading ends before the first open transaction.

    Raises:
        KafkaError: INVALID_RECORD, something else than a mirror wrote to the topic; or as ``read_range``.
    """
    where = TopicPartition(topic, 0)
    found: dict[TopicPartition, Progress] = {}
    if topic not in {each.name for each in await target.list_topics(is_internal_included=True)}:
        return found
    ends = (await target.describe_offsets([topic]))[where]
    end = ends.high_watermark if is_every_transaction_ended else ends.last_stable_offset
    async for chunk in read_range(target, where, ends.log_start_offset, end):
        for position, _ in iterate_headers(chunk.batches):
            for record in iterate_records(chunk.batches, position):
                partition, progress = decode(record.key, record.value)
                if progress is None:
                    found.pop(partition, None)
                else:
                    found[partition] = progress
    return found
