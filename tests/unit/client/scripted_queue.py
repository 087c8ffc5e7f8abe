"""A queue does as a test tells it: a coordinator of a share group, and leaders with share sessions.

It runs over the scripted broker.  Each fetch that finds something gets one delivery of each
partition; what was said of offsets is noted, and so are the epochs of sessions.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import trio

from log_service.client import ShareConsumer
from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages import share_acknowledge, share_fetch
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from log_service.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from log_service.records.builder import build_batch
from tests.sim import World, sim_run
from tests.unit.client.scripted_broker import TOPIC_ID, ScriptedBroker, clustered

LOCK_MS = 15_000


class Coordination:
    """A coordinator with one member; ``beats`` holds errors of the next heartbeats."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.requests: list[Any] = []
        self.beats: deque[ErrorCode] = deque()
        self.assigned = list(range(broker.partition_count))
        self.empty_count = (
            1  # a new member gets nothing at first, as the group initializes its partitions
        )
        self.epoch = 1
        self._told: list[int] | None = None

    async def find(self, request: Any, version: int) -> FindCoordinatorResponse:
        await trio.lowlevel.checkpoint()
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host="broker", port=9092)
                for key in request.coordinator_keys
            ]
        )

    async def beat(self, request: Any, version: int) -> ShareGroupHeartbeatResponse:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        if self.beats:
            return ShareGroupHeartbeatResponse(error_code=self.beats.popleft())
        if request.member_epoch < 0:
            return ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=-1)
        if request.member_epoch == 0:
            self._told = None
        wanted = [] if self.empty_count else self.assigned
        self.empty_count = max(self.empty_count - 1, 0)
        self.epoch += wanted != self._told
        topics = [TopicPartitions(topic_id=TOPIC_ID, partitions=list(wanted))] if wanted else []
        assignment = None if wanted == self._told else Assignment(topic_partitions=topics)
        self._told = list(wanted)
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=5_000,
            assignment=assignment,
        )


class Queue:
    """One leader responds to share fetches of topic t, per partition in order.

    Nothing new comes once a script has ended.
    """

    def __init__(self, broker: ScriptedBroker, coordination: Coordination) -> None:
        self.broker = broker
        self.coordination = coordination
        self.scripts: list[deque[share_fetch.PartitionData]] = [
            deque() for _ in range(broker.partition_count)
        ]
        self.fetches: list[Any] = []
        self.acknowledges: list[Any] = []
        self.epochs: list[int] = []
        self.said: list[tuple[int, int, int, tuple[int, ...]]] = []
        self.session_errors: deque[ErrorCode] = deque()
        self.refusals: deque[ErrorCode] = deque()
        self.session: set[int] = set()
        broker.other |= {
            ApiKey.FIND_COORDINATOR: coordination.find,
            ApiKey.SHARE_GROUP_HEARTBEAT: coordination.beat,
            ApiKey.SHARE_FETCH: self._fetch,
            ApiKey.SHARE_ACKNOWLEDGE: self._acknowledge,
        }

    def deliver(
        self,
        base_offset: int,
        values: Iterable[bytes],
        acquired: Sequence[tuple[int, int, int]] | None = None,
        *,
        partition: int = 0,
        is_damaged: bool = False,
    ) -> None:
        """Respond with one batch, of which ``acquired`` (default: all, for the first time) is the
        member's.
        """
        rows = [(0, None, value) for value in values]
        records = bytearray(build_batch(rows, base_offset=base_offset, leader_epoch=0))
        if is_damaged:
            records[-1] ^= 0xFF
        ranges = acquired or [(base_offset, base_offset + len(rows) - 1, 1)]
        data = share_fetch.PartitionData(
            records=bytes(records),
            acquired_records=[
                share_fetch.AcquiredRecords(first_offset=a, last_offset=b, delivery_count=n)
                for a, b, n in ranges
            ],
        )
        self.scripts[partition].append(data)

    def error(self, code: ErrorCode, *, partition: int = 0) -> None:
        """Respond with an error."""
        self.scripts[partition].append(share_fetch.PartitionData(error_code=code, records=b""))

    async def _fetch(self, request: Any, version: int) -> share_fetch.ShareFetchResponse:
        self.fetches.append(request)
        self.epochs.append(request.share_session_epoch)
        if self.session_errors:
            return share_fetch.ShareFetchResponse(error_code=self.session_errors.popleft())
        if request.share_session_epoch == 0:
            self.session = set()
            assert not any(
                each.acknowledgement_batches
                for topic in request.topics
                for each in topic.partitions
            )
        codes: dict[int, ErrorCode] = {}
        for topic in request.topics:
            self.session |= {each.partition_index for each in topic.partitions}
            codes |= self._note(topic)
        for topic in request.forgotten_topics_data:
            self.session -= set(topic.partitions)
        if not codes and not any(self.scripts[number] for number in self.session):
            await trio.sleep(request.max_wait_ms / 1_000)
        responses = []
        for number in sorted(self.session | codes.keys()):
            if self.scripts[number] or number in codes:
                data = (
                    self.scripts[number].popleft()
                    if self.scripts[number]
                    else share_fetch.PartitionData(records=b"")
                )
                data.partition_index, data.acknowledge_error_code = (
                    number,
                    codes.get(number, ErrorCode.NONE),
                )
                responses.append(data)
        topics = [share_fetch.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=responses)]
        return share_fetch.ShareFetchResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=topics)

    async def _acknowledge(
        self, request: Any, version: int
    ) -> share_acknowledge.ShareAcknowledgeResponse:
        await trio.lowlevel.checkpoint()
        self.acknowledges.append(request)
        self.epochs.append(request.share_session_epoch)
        if self.session_errors:
            return share_acknowledge.ShareAcknowledgeResponse(
                error_code=self.session_errors.popleft()
            )
        codes: dict[int, ErrorCode] = {}
        for topic in request.topics:
            codes |= self._note(topic)
        partitions = [
            share_acknowledge.PartitionData(partition_index=number, error_code=code)
            for number, code in codes.items()
        ]
        topics = [
            share_acknowledge.ShareAcknowledgeTopicResponse(
                topic_id=TOPIC_ID, partitions=partitions
            )
        ]
        return share_acknowledge.ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=LOCK_MS, responses=topics
        )

    def _note(self, topic: Any) -> dict[int, ErrorCode]:
        codes = {}
        for each in topic.partitions:
            if each.acknowledgement_batches:
                codes[each.partition_index] = (
                    self.refusals.popleft() if self.refusals else ErrorCode.NONE
                )
            self.said += [
                (
                    each.partition_index,
                    batch.first_offset,
                    batch.last_offset,
                    tuple(batch.acknowledge_types),
                )
                for batch in each.acknowledgement_batches
            ]
        return codes


class Leaves(Exception):  # noqa: N818 - it says what happened
    """A story leaves the consumer's block by an exception."""


Story = Callable[[Queue, ShareConsumer], Awaitable[None]]


def tell(story: Story, *, partition_count: int = 1, **settings: Any) -> None:
    """Run a story with a member of the group q."""

    async def main(world: World) -> None:
        broker = ScriptedBroker(world, partition_count=partition_count)
        queue = Queue(broker, Coordination(broker))
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.run)
            with suppress(Leaves):
                async with ShareConsumer(
                    "broker:9092", group_id="q", env=world.client_env(), **settings
                ) as consumer:
                    await consumer.subscribe(["t"])
                    with trio.fail_after(1_000):
                        await story(queue, consumer)
            nursery.cancel_scope.cancel()

    sim_run(1, main)


async def polled(consumer: ShareConsumer, max_records: int | None = None) -> list[Any]:
    """Poll until there is something, and return the values."""
    while not (records := await consumer.poll(max_records)):
        pass
    return records


def queues_of_two(world: World, partition_count: int) -> tuple[Queue, Queue]:
    """Two brokers of one cluster; the first coordinates, and leads everything at first."""
    one = ScriptedBroker(world, partition_count=partition_count)
    two = ScriptedBroker(world, partition_count=partition_count, node_id=2, host="other")
    clustered(one, two)
    coordination = Coordination(one)
    return Queue(one, coordination), Queue(two, coordination)
