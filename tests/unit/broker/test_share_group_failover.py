"""Share groups on three nodes survive changes of coordinators, in virtual time (KIP-932)."""

from functools import partial
from typing import Any
from uuid import UUID

import trio

from log_service.common.errors import KafkaError
from log_service.common.types import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC
from log_service.coordinator.request_context import RequestClient
from log_service.coordinator.share.share_coordinator import ShareStateWrite
from log_service.coordinator.share.share_state import ShareKey, ShareState
from log_service.coordinator.share.window import StateBatch
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.helpers.cluster import Cluster, node_properties, tell_cluster

GROUP, MEMBER = "g", "a-member"
CLIENT = RequestClient(api_version=1, client_id="c", client_host="/h")
PROPERTIES = {
    "offsets_topic_num_partitions": "1",
    "share_coordinator_state_topic_num_partitions": "1",
    "group_share_assignment_interval_ms": "0",
}


async def told(ask: Any, *arguments: Any, named: str = "on_done", **said: Any) -> Any:
    """Return what a callback is told; a node that dies meanwhile tells nothing, which is told as
    None.
    """
    done, replies = trio.Event(), list[Any]()

    def on_told(reply: Any) -> None:
        replies.append(reply)
        done.set()

    ask(*arguments, **said, **{named: on_told})
    with trio.move_on_after(30):
        await done.wait()
    return replies[0] if replies else None


class Queue:
    """One member of a group, and the states of the group's partitions."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.epoch = 0
        self.partitions: list[int] = []

    def any_broker(self) -> Any:
        return next(iter(self.cluster.brokers.values()))

    def leader_of(self, topic: str) -> int:
        return int(self.any_broker().image.topics.by_name[topic].partitions[0].leader)

    async def create(self, name: str, partitions: int = 2) -> UUID:
        asked = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=3)],
            timeout_ms=10_000,
        )
        response = await self.any_broker().rooms.controller_channel.request(
            asked, CreateTopicsResponse
        )
        assert response.topics[0].error_code == 0, response
        await self.cluster.until(
            lambda: all(
                name in broker.image.topics.by_name for broker in self.cluster.brokers.values()
            )
        )
        return UUID(bytes=response.topics[0].topic_id.bytes)

    async def beat(self) -> None:
        """Have the member report until it is told that all is well."""
        names = ["orders"] if self.epoch == 0 else None
        with trio.fail_after(60):
            while True:
                broker = self.cluster.brokers.get(self.leader_of(GROUP_METADATA_TOPIC))
                if broker is not None:
                    request = ShareGroupHeartbeatRequest(
                        group_id=GROUP,
                        member_id=MEMBER,
                        member_epoch=self.epoch,
                        subscribed_topic_names=names,
                    )
                    reply = await told(
                        partial(broker.rooms.groups.share.heartbeat, request, CLIENT.context),
                        named="on_reply",
                    )
                    if reply is not None and reply.error_code == 0:
                        break
                await trio.sleep(0.2)
        self.epoch = reply.member_epoch
        if reply.assignment is not None:
            self.partitions = [
                index for topic in reply.assignment.topic_partitions for index in topic.partitions
            ]

    async def until_assigned(self, count: int) -> None:
        with trio.fail_after(120):
            while len(self.partitions) != count:
                await self.beat()
                await trio.sleep(0.5)


def story_of(tell: Any) -> None:
    async def story(cluster: Cluster) -> None:
        queue = Queue(cluster)
        await queue.any_broker().rooms.topic_creation.create([GROUP_METADATA_TOPIC])
        topic_id = await queue.create("orders")
        await queue.until_assigned(2)
        await tell(cluster, queue, ShareKey(group_id=GROUP, topic_id=topic_id, partition=0))

    tell_cluster(
        story, {each: node_properties(each, (1, 2, 3), **PROPERTIES) for each in (1, 2, 3)}
    )


def test_a_group_and_its_states_outlive_their_coordinators() -> None:
    async def tell(cluster: Cluster, queue: Queue, key: ShareKey) -> None:
        batch = StateBatch(first_offset=4, last_offset=6, delivery_state=2, delivery_count=1)
        write = ShareStateWrite(
            state_epoch=2,
            leader_epoch=5,
            start_offset=4,
            delivery_complete_count=3,
            batches=(batch,),
        )
        for node_id in list(cluster.brokers):
            assert isinstance(
                await told(
                    cluster.brokers[node_id].rooms.share_persister.read, key, leader_epoch=5
                ),
                ShareState,
            ), node_id
        assert await told(queue.any_broker().rooms.share_persister.write, key, write) is None
        epoch, killed = queue.epoch, queue.leader_of(SHARE_GROUP_STATE_TOPIC)
        cluster.kill(killed)
        read = await told(queue.any_broker().rooms.share_persister.read, key, leader_epoch=6)
        assert isinstance(read, ShareState), read
        assert (read.state_epoch, read.start_offset, read.batches) == (2, 4, (batch,))
        await queue.beat()
        assert (queue.epoch, len(queue.partitions)) == (epoch, 2)
        fenced = await told(queue.any_broker().rooms.share_persister.write, key, write)
        assert isinstance(fenced, KafkaError), "the leader of an older epoch writes no more"

    story_of(tell)


def test_states_that_were_being_begun_when_the_coordinator_died_are_begun_by_the_next() -> None:
    async def tell(cluster: Cluster, queue: Queue, _key: ShareKey) -> None:
        killed = queue.leader_of(GROUP_METADATA_TOPIC)
        await queue.create("bills", 1)
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=MEMBER,
            member_epoch=queue.epoch,
            subscribed_topic_names=["orders", "bills"],
        )
        heartbeat = cluster.brokers[killed].rooms.groups.share.heartbeat
        heartbeat(request, CLIENT.context, on_reply=lambda _reply: None)
        cluster.kill(killed)
        await cluster.until(lambda: queue.leader_of(GROUP_METADATA_TOPIC) not in {killed, -1})
        queue.epoch = 0
        names = ["orders", "bills"]
        with trio.fail_after(120):
            while len(queue.partitions) != 3:
                broker = cluster.brokers[queue.leader_of(GROUP_METADATA_TOPIC)]
                again = ShareGroupHeartbeatRequest(
                    group_id=GROUP,
                    member_id=MEMBER,
                    member_epoch=queue.epoch,
                    subscribed_topic_names=names,
                )
                reply = await told(
                    partial(broker.rooms.groups.share.heartbeat, again, CLIENT.context),
                    named="on_reply",
                )
                if reply is not None and reply.error_code == 0:
                    queue.epoch = reply.member_epoch
                    queue.partitions = [
                        index
                        for topic in reply.assignment.topic_partitions
                        for index in topic.partitions
                    ]
                await trio.sleep(1)

    story_of(tell)
