"""Members of the consumer protocol (KIP-848) act in a story on tidelog and on Apache Kafka alike.

The story also tells the records that the group is stored as.

Members name the assignor ``range``, whose result does not depend on the order of hashes.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from log_service.common.java_hashing import hashed_partition
from log_service.coordinator.group.records import codec
from log_service.coordinator.group.records.consumer import LegacyTopicsRecord
from log_service.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.protocol.messages.list_groups import ListGroupsRequest
from log_service.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from log_service.records.batch import iterate_headers, iterate_records
from tests.integration.differential import normalise
from tests.integration.group_cast import Cast, Player

FETCH_BYTES = 1 << 20
TIMES = frozenset(
    {"computed_ms", "state_since_ms", "commit_timestamp_ms", "resolved_ms", "metadata_hash"}
)
"""Of these a transcript says only whether they are there; hashes contain ids."""
GROUPS_TOPIC = "__consumer_offsets"


class Member:
    """One member that reports by heartbeats; it makes its own id, and keeps the epoch that it was
    told.
    """

    def __init__(self, cast: Cast, name: str, instance: str | None = None) -> None:
        self.cast = cast
        self.player: Player = cast.member()
        self.player.member_id = name
        self.instance = instance
        self.epoch = 0

    def beat(
        self, owned: Mapping[str, list[int]] | None = None, version: int = 1, **said: Any
    ) -> Any:
        """Send a heartbeat and note the response; ``said`` are fields of the request."""
        named = None
        if owned is not None:
            named = [
                RequestTopicPartitions(topic_id=self.cast.cluster.topic_id(name), partitions=of)
                for name, of in owned.items()
            ]
        fields: dict[str, Any] = {
            "group_id": self.cast.group,
            "member_id": self.player.member_id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "topic_partitions": named,
        }
        response = self.cast.note(
            self.player.wire.ask(ConsumerGroupHeartbeatRequest(**{**fields, **said}), version)
        )
        if response.error_code == 0:
            self.epoch = response.member_epoch
        return response

    def join(self, *topics: str, **said: Any) -> Any:
        """Join."""
        fields: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(topics),
            "server_assignor": "range",
        }
        return self.beat({}, **{**fields, **said})

    def leave(self, epoch: int = -1) -> Any:
        """Leave."""
        return self.beat(member_epoch=epoch)

    def commit(
        self, topic: str, partition: int = 0, version: int = 9, epoch: int | None = None
    ) -> Any:
        """Commit a position."""
        return self.player.commit(
            5, topic, partition, version, generation_id=self.epoch if epoch is None else epoch
        )


def describe(cast: Cast) -> None:
    response = cast.cluster.wire.ask(
        ConsumerGroupDescribeRequest(group_ids=[cast.group, "nobody-is-in-it"]), 1
    )
    for member in (member for group in response.groups for member in group.members):
        for topic in (
            *member.assignment.topic_partitions,
            *member.target_assignment.topic_partitions,
        ):
            topic.partitions.sort()  # Kafka's are in the order of its hash sets
    cast.note(response)
    cast.describe()
    cast.describe(6)
    response = cast.cluster.wire.ask(ListGroupsRequest(types_filter=["consumer"]), 5)
    cast.note([group for group in response.groups if group.group_id == cast.group])


def stored(cast: Cast) -> None:
    """Note what the log holds of the group, times left out.

    Records of one type that follow each other are in the order of Kafka's hash maps there. Kafka
    also takes back what it stored before 4.1 whether it did or not (type 4).
    """
    found: list[tuple[int, Any]] = []
    for key, value in pairs_of(cast):
        decoded = codec.decode(key, value)
        if (
            decoded is not None
            and decoded.group_id == cast.group
            and not isinstance(decoded, LegacyTopicsRecord)
        ):
            found.append((int.from_bytes(key[:2]), plain(decoded)))
    for record_type, run in groupby(found, key=lambda each: each[0]):
        cast.note([str(record_type)])
        cast.note([content for _, content in run])


def pairs_of(cast: Cast) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and values of the partition that the group is in."""
    wire, topic = cast.cluster.wire, GROUPS_TOPIC
    count = len(
        wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        .topics[0]
        .partitions
    )
    partition = FetchPartition(
        partition=hashed_partition(cast.group, count),
        fetch_offset=0,
        partition_max_bytes=FETCH_BYTES,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    (data,) = wire.ask(request, 12).responses[0].partitions
    content = bytes(data.records or b"")
    for position, _ in iterate_headers(content, is_torn_tail_ok=True):
        for record in iterate_records(content, position):
            yield bytes(record.key or b""), None if record.value is None else bytes(record.value)


def plain(value: Any) -> Any:
    """Return a record as plain values, sets in order, and of times only whether there is one."""
    if dataclasses.is_dataclass(value):
        named = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
        return {name: bool(each) if name in TIMES else plain(each) for name, each in named.items()}
    if isinstance(value, Mapping):
        return sorted(([plain(key), plain(each)] for key, each in value.items()), key=str)
    if isinstance(value, tuple | frozenset):
        return [plain(each) for each in (value if isinstance(value, tuple) else sorted(value))]
    return normalise(value)
