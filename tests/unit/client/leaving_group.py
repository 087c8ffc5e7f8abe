"""A coordinator serves one member's group in both protocols.

It is for stories of consumers that leave it or are left behind.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from log_service.client import Consumer, ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from log_service.protocol.messages.join_group import JoinGroupResponse
from tests.unit.client.consumer_story import tell_consumer_story
from tests.unit.client.scripted_broker import TOPIC_ID, ScriptedBroker
from tests.unit.client.scripted_group import Group

Story = Callable[["LeavingGroup", Consumer], Awaitable[None]]


class LeavingGroup(Group):
    """Serves both protocols, assigns one partition, and counts who left. ``slow`` is the API over
    which it takes its time.
    """

    def __init__(self, broker: ScriptedBroker) -> None:
        super().__init__(broker)
        self.left_count = 0
        self.slow: ApiKey | None = None
        self.are_beats_lost = False
        self.told: list[ResponseTopicPartitions] | None = None
        self.epochs: list[int] = []
        self.refused: trio.Event | None = None
        self.rejoined: trio.Event | None = None
        self.is_left = trio.Event()
        broker.other[ApiKey.CONSUMER_GROUP_HEARTBEAT] = self._beat_of_consumer

    async def _beat_of_consumer(self, request: Any, version: int) -> ConsumerGroupHeartbeatResponse:
        self.epochs.append(request.member_epoch)
        if self.refused is not None and not self.refused.is_set():
            self.refused.set()
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        await self._delay(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        if request.member_epoch < 0:
            await self._delay(ApiKey.LEAVE_GROUP)
            self.left_count += 1
        elif self.are_beats_lost:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        told, self.told = self.told, None
        if not request.member_epoch:
            told = [ResponseTopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
        response = ConsumerGroupHeartbeatResponse(
            member_epoch=max(request.member_epoch, 1), heartbeat_interval_ms=60_000
        )
        response.assignment = None if told is None else Assignment(topic_partitions=told)
        return response

    async def _join(self, request: Any, version: int) -> Any:
        response = await super()._join(request, version)
        if self.rejoined is None or self.rejoined.is_set():
            return response
        self.rejoined.set()
        await self.is_left.wait()
        return JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)

    async def _leave(self, request: Any, version: int) -> Any:
        self.is_left.set()
        await self._delay(ApiKey.LEAVE_GROUP)
        self.left_count += 1
        return await super()._leave(request, version)

    async def _commit(self, request: Any, version: int) -> Any:
        await self._delay(ApiKey.OFFSET_COMMIT)
        return await super()._commit(request, version)

    async def _delay(self, api: ApiKey) -> None:
        if api is self.slow:
            await trio.sleep(2)


def tell(story: Story, **settings: Any) -> None:
    tell_consumer_story(story, LeavingGroup, **{"group_id": "g", **settings})


async def poll_until_assigned(consumer: Consumer) -> None:
    with trio.fail_after(100):
        while not consumer.assignment:
            await consumer.poll()
