"""The topic of the target cluster that holds a flow's progress (KIP-618).

It is compacted, with one record per partition of the source. The transaction that writes mirrored
records also writes their progress. So the last committed progress matches exactly the mirrored
records that a reader of committed records sees. ``progress`` decides its content.
"""

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ItemsFailed, NewTopic
from log_service.client.consumer.range_reader import read_range
from log_service.common.errors import ErrorCode
from log_service.common.types import TopicPartition
from log_service.mirror.progress import Progress, decode
from log_service.records.batch import iterate_headers, iterate_records

CONFIGS = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
"""The segments are small, so that compaction limits a start to reading some tens of megabytes."""


async def create_offsets_topic(target: Admin, topic: str, replication_factor: int) -> None:
    """Create the topic if it does not exist.

    Raises:
        KafkaError: the cluster refuses to create the topic.
    """
    new = NewTopic(
        name=topic, partition_count=1, replication_factor=replication_factor, configs=CONFIGS
    )
    try:
        await target.create_topics([new])
    except ItemsFailed as failed:
        if failed.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_progress(
    target: Admin, topic: str, *, is_every_transaction_ended: bool
) -> dict[TopicPartition, Progress]:
    """Return the committed progress by partition of the source.

    A partition whose last record is a tombstone is left out. The result is empty if the topic does
    not exist. With ``is_every_transaction_ended`` the caller has fenced the flow's producer, so no
    transaction can be open. The topic is then read to its end, and an open transaction is an error.
    Otherwise reading ends before the first open transaction.

    Raises:
        KafkaError: INVALID_RECORD, a record was not written by a mirror; or as ``read_range``.
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
