"""Ids, epochs and a few values that every package shares.

Ids are NewTypes so that a leader epoch cannot be passed where a producer epoch belongs. Special
values such as -1 are Kafka's.
"""

from typing import NamedTuple, NewType
from uuid import UUID

Buffer = bytes | bytearray | memoryview

NodeId = NewType("NodeId", int)
TopicId = NewType("TopicId", UUID)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)

NO_NODE = NodeId(-1)
NO_TOPIC_ID = TopicId(UUID(int=0))
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
GROUP_METADATA_TOPIC = "__consumer_offsets"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"


class TopicPartition(NamedTuple):
    """A partition by its topic's name and its index.

    It is a tuple for speed, because it is the key of frequently used dictionaries.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
