"""A leader responds to fetches as a test says, with fetch sessions.

It runs over the scripted broker, with one script per partition.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import trio

from log_service.client import Consumer, ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)
from log_service.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from log_service.records.builder import build_batch
from tests.unit.client.consumer_story import tell_consumer_story
from tests.unit.client.scripted_broker import TOPIC_ID, ScriptedBroker

Story = Callable[["Leader", Consumer], Awaitable[None]]


class Leader:
    """Responds to fetches of topic t, per partition in order; nothing new once a script has ended."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.scripts: list[deque[PartitionData]] = [deque() for _ in range(broker.partition_count)]
        self.requests: list[Any] = []
        self.asked: list[FetchPartition] = []
        self.listed: list[int] = []
        self.log_start_offset = 0
        self.offset_of_time = -1
        self.session_id = 0
        self.session_errors: deque[ErrorCode] = deque()
        self.session: dict[int, FetchPartition] = {}
        broker.other[ApiKey.FETCH] = self._fetch
        broker.other[ApiKey.LIST_OFFSETS] = self._list_offsets

    def records(
        self,
        base_offset: int,
        values: Iterable[bytes],
        *,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        """Respond with one batch."""
        rows = [(0, None, value) for value in values]
        records = build_batch(rows, base_offset=base_offset, leader_epoch=leader_epoch)
        self.scripts[partition].append(
            PartitionData(records=records, high_watermark=base_offset + len(rows))
        )

    def error(self, code: ErrorCode, *, partition: int = 0) -> None:
        """Respond with an error."""
        self.scripts[partition].append(PartitionData(error_code=code, high_watermark=-1))

    def truncation(self, end_offset: int) -> None:
        """Respond that the logs diverged."""
        self.scripts[0].append(
            PartitionData(diverging_epoch=EpochEndOffset(epoch=1, end_offset=end_offset))
        )

    async def _fetch(self, request: Any, version: int) -> FetchResponse:
        self.requests.append(request)
        if self.session_errors:
            return FetchResponse(error_code=self.session_errors.popleft())
        if request.session_epoch <= 0:
            self.session = {}
        for topic in request.topics:
            self.session |= {partition.partition: partition for partition in topic.partitions}
            self.asked += topic.partitions
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del self.session[number]
        if not any(self.scripts[number] for number in self.session):
            await trio.sleep(request.max_wait_ms / 1_000)
        responses = []
        for number in sorted(self.session):
            if self.scripts[number]:
                response = self.scripts[number].popleft()
                response.partition_index = number
                responses.append(response)
        return FetchResponse(
            session_id=self.session_id,
            responses=[FetchableTopicResponse(topic="t", topic_id=TOPIC_ID, partitions=responses)],
        )

    async def _list_offsets(self, request: Any, version: int) -> ListOffsetsResponse:
        await trio.lowlevel.checkpoint()
        responses = []
        for partition in request.topics[0].partitions:
            self.listed.append(partition.timestamp)
            offset = {-2: self.log_start_offset, -1: 99}.get(
                partition.timestamp, self.offset_of_time
            )
            responses.append(
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index, offset=offset
                )
            )
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="t", partitions=responses)]
        )


def tell(story: Story, *, partition_count: int = 1, **settings: Any) -> None:
    """Run a story with a consumer to which every partition is assigned."""
    tell_consumer_story(story, Leader, partition_count=partition_count, **settings)


async def values(consumer: Consumer, timeout_ms: int = 5_000) -> list[Any]:
    """Poll once."""
    return [record.value for record in await consumer.poll(timeout_ms=timeout_ms)]
