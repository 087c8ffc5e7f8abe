"""Members of share groups ask a node of handlers.

It has real logs, the real path of a request, and a share coordinator in memory.

    def test_something() -> None:
        async def story(node: ShareNode) -> None:
            await node.share("orders")
            await node.produce("orders", batch(b"one"))
            member = node.member()
            assert (await member.fetch()).acquired == [(0, 0, 1)]

        tell_shares(story)
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import trio

from log_service.broker.timer_task import TimerTask
from log_service.common.features import SHARE_VERSION
from log_service.coordinator.share.record_states import AcknowledgeType
from log_service.coordinator.share.share_state import ShareKey, ShareState
from log_service.metadata.image import ResourceType
from log_service.network.server import ConnectionContext
from log_service.protocol.messages import share_acknowledge as acknowledging
from log_service.protocol.messages import share_fetch as fetching
from log_service.protocol.stored.metadata_records import ConfigRecord, FeatureLevelRecord
from tests.helpers.handler_node import LISTENER, HandlerNode, tell_handlers
from tests.unit.broker.context import HOST, batch, values_of

GROUP = "g"
ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
    AcknowledgeType.RENEW,
)
_numbers = count(100)

__all__ = [
    "ACCEPT",
    "GAP",
    "GROUP",
    "REJECT",
    "RELEASE",
    "RENEW",
    "Ack",
    "Got",
    "Member",
    "ShareNode",
    "batch",
    "tell_shares",
]

Ack = tuple[int, int, Sequence[int]]
"""First offset, last offset (inclusive), types."""


@dataclass
class Got:
    """This is one partition of a response to ShareFetch."""

    error: int = 0
    acquired: list[tuple[int, int, int]] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    acknowledged: int = 0
    leader: int = 0
    is_told: bool = True


class Member:
    """A member of a share group with a connection of its own."""

    def __init__(self, node: "ShareNode", group: str, version: int) -> None:
        self.node = node
        self.group = group
        self.version = version
        self.member_id = f"member-{next(_numbers)}"
        self.epoch = 0
        self.connection = ConnectionContext(next(_numbers), "client", HOST, LISTENER)

    def request(self, topics: Sequence[str] = ("a",), **wanted: Any) -> fetching.ShareFetchRequest:
        acks: dict[tuple[str, int], Sequence[Ack]] = wanted.pop("acks", {})
        partitions = wanted.pop("partitions", 1)
        named = (
            {}
            if self.epoch
            else {(topic, index): () for topic in topics for index in range(partitions)}
        )
        asked = [
            fetching.FetchTopic(
                topic_id=self.node.topic_ids.get(topic)
                or self.node.image.topics.by_name[topic].topic_id,
                partitions=[
                    fetching.FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            fetching.AcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=list(types)
                            )
                            for first, last, types in batches
                        ],
                    )
                ],
            )
            for (topic, index), batches in {**named, **acks}.items()
        ]
        filled = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **wanted,
        }
        return fetching.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            topics=asked,
            **filled,
        )

    async def send(
        self, topics: Sequence[str] = ("a",), **wanted: Any
    ) -> fetching.ShareFetchResponse:
        request = self.request(topics, **wanted)
        response: fetching.ShareFetchResponse = await self.node.ask(
            request, self.version, self.connection
        )
        if response.error_code == 0 and self.epoch >= 0:
            self.epoch += 1
        return response

    async def fetch_into(self, got: list[Got]) -> None:
        """Fetch, waiting for a minute at most, and add what came to ``got``: for a task beside the
        test's.
        """
        got.append(await self.fetch(max_wait_ms=60_000))

    async def fetch(self, topics: Sequence[str] = ("a",), **wanted: Any) -> Got:
        """Fetch from one partition; a partition that the response does not name is not ``is_told``."""
        response = await self.send(topics, **wanted)
        if response.error_code:
            return Got(error=response.error_code, is_told=False)
        told = [partition for topic in response.responses for partition in topic.partitions]
        if not told:
            return Got(is_told=False)
        (one,) = told
        return Got(
            error=one.error_code,
            acquired=[
                (each.first_offset, each.last_offset, each.delivery_count)
                for each in one.acquired_records
            ],
            values=values_of(one.records),
            acknowledged=one.acknowledge_error_code,
            leader=one.current_leader.leader_id,
        )

    async def acknowledge(
        self, *acks: Ack, topic: str = "a", is_renewing: bool = False, epoch: int | None = None
    ) -> int:
        """Acknowledge in one partition and return its error, or that of the whole request."""
        batches = [
            acknowledging.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=list(types)
            )
            for first, last, types in acks
        ]
        partition = acknowledging.AcknowledgePartition(
            partition_index=0, acknowledgement_batches=batches
        )
        topics = (
            [
                acknowledging.AcknowledgeTopic(
                    topic_id=self.node.topic_ids[topic], partitions=[partition]
                )
            ]
            if acks
            else []
        )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            is_renew_ack=is_renewing,
            topics=topics,
        )
        response: acknowledging.ShareAcknowledgeResponse = await self.node.ask(
            request, self.version, self.connection
        )
        if response.error_code:
            return response.error_code
        self.epoch = 0 if epoch == -1 else self.epoch + 1
        told = [partition for each in response.responses for partition in each.partitions]
        return told[0].error_code if told else 0

    async def leave(self) -> None:
        assert await self.acknowledge(epoch=-1) == 0

    def vanish(self) -> None:
        """The connection is gone."""
        self.node.pipeline.connection_closed(self.connection)
        self.epoch = 0


class ShareNode(HandlerNode):
    """A node that serves share groups."""

    topic_ids: dict[str, Any]

    async def share(
        self,
        topic: str = "a",
        *,
        group: str = GROUP,
        start: int = 0,
        partitions: int = 1,
        **configs: str,
    ) -> None:
        """Create a topic and begin the group's states of it."""
        if topic not in self.image.topics.by_name:
            self.topic_ids[topic] = await self.create_topic(topic, partitions, **configs)
        for index in range(partitions):
            self.share_states.states[self.key(topic, group=group, index=index)] = ShareState(
                snapshot_epoch=0, state_epoch=1, leader_epoch=0, start_offset=start
            )

    async def share_record(self) -> None:
        """Share a topic that has one record."""
        await self.share()
        await self.produce("a", batch(b"one"))

    def key(self, topic: str = "a", *, group: str = GROUP, index: int = 0) -> ShareKey:
        return ShareKey(group_id=group, topic_id=self.topic_ids[topic], partition=index)

    def state(self, topic: str = "a", *, group: str = GROUP) -> ShareState:
        return self.share_states.states[self.key(topic, group=group)]

    def stored(self, topic: str = "a") -> tuple[int, list[tuple[int, int, int, int]]]:
        """Return the stored state.

        It has the start offset, and batches of first and last offset, state and delivery
        count.
        """
        state = self.state(topic)
        return state.start_offset, [
            (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in state.batches
        ]

    def member(self, group: str = GROUP, *, version: int = 2) -> Member:
        return Member(self, group, version)

    def configure_group(self, name: str, value: str | None, group: str = GROUP) -> None:
        self.publish(
            ConfigRecord(
                resource_type=ResourceType.GROUP, resource_name=group, name=name, value=value
            )
        )

    def set_share_version(self, level: int) -> None:
        self.publish(FeatureLevelRecord(name=SHARE_VERSION, feature_level=level))
        self.node.shares.on_image(Any, self.image)  # type: ignore[arg-type]  # it does not look at what changed


def tell_shares(story: Callable[[ShareNode], Awaitable[None]], **properties: str) -> None:
    """Run one story on virtual time. Property names are given with underscores."""

    async def whole(handlers: HandlerNode) -> None:
        handlers.__class__ = ShareNode
        assert isinstance(handlers, ShareNode)
        handlers.topic_ids = {}
        async with trio.open_nursery() as nursery:
            await nursery.start(TimerTask(handlers.context.timers, handlers.context.env.clock).run)
            handlers.set_share_version(1)
            await story(handlers)
            nursery.cancel_scope.cancel()

    tell_handlers(whole, **properties)
