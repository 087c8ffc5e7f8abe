"""Writes a batch of this node's own to a leader on another node, as a producer with ``acks=all``.

Decides neither the partition nor the time of a retry. The topic is given by name, because its id
may be newer than the leader's metadata.
"""

from typing import TYPE_CHECKING, Final

from log_service.common.errors import ErrorCode, KafkaError
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from log_service.rpc.connection import Destination
    from log_service.rpc.pool import ConnectionPool

PRODUCE_TIMEOUT_MS: Final = 5_000
LAST_VERSION_BY_NAME: Final = 12
ACKS_ALL: Final = -1


async def produce_to_leader(
    pool: "ConnectionPool", destination: "Destination", topic: str, index: int, batch: bytearray
) -> None:
    """Write one batch. It is below the high watermark once this returns.

    Raises:
        KafkaError: the leader refused it, or cannot be reached.
    """
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=index, records=batch)]
    )
    request = ProduceRequest(acks=ACKS_ALL, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
    response = await pool.request(
        destination,
        request,
        ProduceResponse,
        max_version=LAST_VERSION_BY_NAME,
        waits_ms=PRODUCE_TIMEOUT_MS,
    )
    result = response.responses[0].partition_responses[0]
    if result.error_code:
        code = ErrorCode.of(result.error_code)
        raise KafkaError(
            code,
            result.error_message
            or f"the leader of {topic}-{index} refused the records: {code.name}",
        )
