"""Records are on their way over clients that play one fault.

An unreadable record keeps nothing else from its turn.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from log_service.client.admin.values import FoundOffset
from log_service.client.consumer.records import ConsumerRecord
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.mirror.complaints import Complaints
from log_service.mirror.held_topics import HeldTopics
from log_service.mirror.progress import Lineage
from log_service.mirror.topic_keeper import MirroredTopic
from log_service.mirror.transfer import FlowClients, Transfer
from tests.unit.mirror.flows import flows_of

PAUSE_S = 0.1
"""How long the client lets a partition rest whose error it has raised."""
RECORDS = 20


class FaultyConsumer:
    """A consumer of two partitions has a record of one each second.

    Of the other it has an error, each time that it is asked again. Like the client it raises behind
    a poll that returned records, and returns records first behind one that raised.
    """

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(view=SimpleNamespace(topic_id_of=lambda _: "source-id"))
        self.error_at_s = 0.0
        self.taken = 0
        self.has_returned = False

    def assign(self, partitions: object) -> None:
        pass

    async def seek(self, where: TopicPartition, offset: int, leader_epoch: int) -> None:
        pass

    async def position(self, where: TopicPartition) -> int:
        return self.taken

    async def poll(self, max_records: int, timeout_ms: int) -> list[ConsumerRecord]:
        with trio.move_on_after(timeout_ms / 1_000):
            while True:
                ready = min(int(trio.current_time()), RECORDS)
                has_error, has_records = trio.current_time() >= self.error_at_s, ready > self.taken
                if has_error and (self.has_returned or not has_records):
                    self.error_at_s, self.has_returned = trio.current_time() + PAUSE_S, False
                    raise KafkaError(
                        ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the other partition may not be read"
                    )
                if has_records:
                    self.has_returned, first, self.taken = True, self.taken, ready
                    return [_record(offset) for offset in range(first, ready)]
                await trio.sleep(0.01)
        return []


class SafeProducer:
    """A producer that notes when each record came."""

    def __init__(self) -> None:
        self.came_s: dict[int, float] = {}
        self.cluster = SimpleNamespace(view=SimpleNamespace(topics={}))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await trio.lowlevel.checkpoint()
        yield

    async def flush(self) -> None:
        await trio.lowlevel.checkpoint()

    async def send(self, topic: str, value: bytes, key: bytes | None = None, **more: Any) -> Any:
        if topic == "A.orders":
            self.came_s[int(value)] = trio.current_time()
            return SimpleNamespace(is_done=True, result=lambda: SimpleNamespace(offset=int(value)))
        return None


class EmptyAdmin:
    """An admin of logs that begin and end at 0."""

    async def list_offsets(
        self, specs: Mapping[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, FoundOffset]:
        return {where: FoundOffset(offset=0, timestamp_ms=-1, leader_epoch=-1) for where in specs}


def _record(offset: int) -> ConsumerRecord:
    return cast(
        "ConsumerRecord",
        SimpleNamespace(
            topic="orders",
            partition=0,
            offset=offset,
            key=None,
            value=b"%d" % offset,
            headers=(),
            timestamp_ms=0,
            leader_epoch=0,
        ),
    )


class OneRecord(FaultyConsumer):
    """A consumer of a topic with one record; the client knows the topic under ``topic_id``."""

    def __init__(self, topic_id: str) -> None:
        super().__init__()
        self.cluster = SimpleNamespace(view=SimpleNamespace(topic_id_of=lambda _: topic_id))

    async def poll(self, max_records: int, timeout_ms: int) -> list[ConsumerRecord]:
        await trio.lowlevel.checkpoint()
        self.taken = 1
        return [_record(0)]


@pytest.mark.parametrize(
    ("source_id", "target_id"),
    [("source-id", "another"), ("another", "target-id")],
    ids=["target", "source"],
)
def test_a_topic_that_is_not_the_one_that_was_meant_moves_no_progress(
    source_id: str, target_id: str
) -> None:
    """It was created anew between two looks. Of the source, its records are not written; of the
    target, their transaction is aborted.
    """
    consumer, producer, doubts = OneRecord(source_id), SafeProducer(), []
    producer.cluster.view = SimpleNamespace(
        topics={"A.orders": None}, topic_id_of=lambda _: target_id
    )

    async def main() -> None:
        (flow,) = flows_of("A->B.enabled = true")
        clients = FlowClients(
            source=cast("Any", EmptyAdmin()),
            target=cast("Any", EmptyAdmin()),
            consumer=cast("Any", consumer),
            producer=cast("Any", producer),
        )
        complaints, held = Complaints("A->B", lambda: 0), HeldTopics(1, lambda: 0)
        transfer = Transfer(
            flow,
            clients,
            {},
            complaints=complaints,
            held=held,
            doubt=lambda: doubts.append("doubt"),
        )
        lineage = Lineage(source_topic_id="source-id", target_topic_id="target-id")
        await transfer.follow(
            {
                "orders": MirroredTopic(
                    name="orders", remote_name="A.orders", lineage=lineage, partition_count=1
                )
            }
        )
        if source_id == "source-id":
            with pytest.raises(
                KafkaError, match=r"A\.orders was created anew while records were written to it"
            ):
                await transfer.step()
            assert [each.position for each in transfer.progress.values()] == [0]
        else:
            assert await transfer.step() == 0
            assert (producer.came_s, doubts) == ({}, ["doubt"])
            assert transfer.partition_count == 0, "it is read no more until it is known what it is"

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_a_partition_whose_error_comes_again_and_again_keeps_no_other_waiting() -> None:
    """It waits after each error, and the error is there again when it has waited."""
    consumer, producer = FaultyConsumer(), SafeProducer()

    async def main() -> None:
        (flow,) = flows_of("A->B.enabled = true")
        clients = FlowClients(
            source=cast("Any", EmptyAdmin()),
            target=cast("Any", EmptyAdmin()),
            consumer=cast("Any", consumer),
            producer=cast("Any", producer),
        )
        complaints, held = Complaints("A->B", lambda: 0), HeldTopics(1, lambda: 0)
        transfer = Transfer(flow, clients, {}, complaints=complaints, held=held, doubt=lambda: None)
        lineage = Lineage(source_topic_id="source-id", target_topic_id="target-id")
        await transfer.follow(
            {
                "orders": MirroredTopic(
                    name="orders", remote_name="A.orders", lineage=lineage, partition_count=1
                )
            }
        )
        with trio.move_on_after(RECORDS + 2):
            while True:
                await transfer.step()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert {
        offset: came_s - (offset + 1) < 1 for offset, came_s in producer.came_s.items()
    } == dict.fromkeys(range(RECORDS), True)
