"""The cores of share groups beside Apache Kafka: the same requests to a Kafka node and to the cores in this process, and what they decide.

tidelog does not list these APIs yet, so that no node of its own is asked. Kafka's responses are compared, and what its share coordinator
writes to its log, record by record.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing

from log_service.common.timers import TimerQueue
from log_service.config.views import ShareStateConfig
from log_service.coordinator.share.state_records import ShareRecord, SnapshotRecord, decode
from log_service.coordinator.share_state_service import ShareStateService
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.records.batch import iterate_headers, iterate_records
from log_service.records.record import Record
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there
from tests.integration.share_cores import SETTINGS, await_share_coordinator, create_topic
from tests.integration.wire import Wire
from tests.unit.coordinator.memory_log import MemoryLog, StoppedClock, run_inline

GROUP = "g"
STATE_TOPIC = "__share_group_state"
FETCH_BYTES = 1 << 20


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    skip_unless_kafka_is_there()
    with KafkaNode(tmp_path_factory.mktemp("kafka"), properties=SETTINGS) as node:
        yield node


# The share coordinator


def state_requests(seed: int, topic_id: UUID) -> Iterator[tuple[Any, int]]:
    """Yield requests of all five kinds and their versions: some make sense, some are late, some are wrong."""
    rng = Random(seed)
    for _ in range(60):
        partition = rng.choice([0, 0, 0, 0, 1, 1, 2, -1])
        kind = rng.choice(["initialize", "read", "write", "write", "write", "write", "write", "summary", "delete"])
        epoch = rng.choice([-1, 0, 1, 1, 2, 3])
        if kind == "initialize":
            one = initializing.PartitionData(partition=partition, state_epoch=epoch, start_offset=rng.choice([-1, 0, 10]))
            several = [initializing.InitializeStateData(topic_id=topic_id, partitions=[one])]
            yield initializing.InitializeShareGroupStateRequest(group_id=GROUP, topics=several), 0
        elif kind == "read":
            asked = reading.ReadStateData(topic_id=topic_id, partitions=[reading.PartitionData(partition=partition, leader_epoch=epoch)])
            yield reading.ReadShareGroupStateRequest(group_id=GROUP, topics=[asked]), 0
        elif kind == "write":
            data = writing.WriteStateData(topic_id=topic_id, partitions=[random_write(rng, partition, epoch)])
            yield writing.WriteShareGroupStateRequest(group_id=GROUP, topics=[data]), 1
        elif kind == "summary":
            wanted = summarizing.PartitionData(partition=partition, leader_epoch=epoch)
            told = summarizing.ReadStateSummaryData(topic_id=topic_id, partitions=[wanted])
            yield summarizing.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=[told]), 1
        elif rng.random() < 0.3:
            gone = deleting.DeleteStateData(topic_id=topic_id, partitions=[deleting.PartitionData(partition=partition)])
            yield deleting.DeleteShareGroupStateRequest(group_id=GROUP, topics=[gone]), 0


def random_write(rng: Random, partition: int, epoch: int) -> writing.PartitionData:
    batches = []
    for _ in range(rng.randint(0, 4)):
        first = rng.randint(0, 30)
        state = rng.choice([0, 2, 4])
        batches.append(
            writing.StateBatch(
                first_offset=first, last_offset=first + rng.randint(0, 9), delivery_state=state, delivery_count=rng.randint(1, 3)
            )
        )
    return writing.PartitionData(
        partition=partition,
        state_epoch=rng.choice([-1, 1, 2, 3]),
        leader_epoch=epoch,
        start_offset=rng.choice([-1, 0, 3, 12]),
        delivery_complete_count=rng.randint(0, 9),
        state_batches=batches,
    )


def shown_response(response: Any) -> Any:
    """Return a response without its texts, of which only counts whether they are there."""
    shown = dataclasses.asdict(response)
    for result in shown["results"]:
        for partition in result["partitions"]:
            partition["error_message"] = bool(partition["error_message"])
    return shown


def shown_record(record: ShareRecord | None) -> Any:
    """Return a record without its times."""
    if isinstance(record, SnapshotRecord) and record.state is not None:
        return replace(record, state=replace(record.state, create_timestamp_ms=0, write_timestamp_ms=0))
    return record


@pytest.mark.parametrize("seed", range(6))
def test_the_share_coordinator_decides_and_stores_as_kafka_does(kafka: KafkaNode, seed: int) -> None:
    with Wire(kafka.bootstrap) as wire:
        topic_id = create_topic(wire, f"states-{seed}", 3)
        await_share_coordinator(wire, GROUP, topic_id)
        requests = list(state_requests(seed, topic_id))
        from_kafka = [shown_response(wire.ask(*each)) for each in requests]
        stored_by_kafka = [shown_record(decode(key, value)) for key, value in records_of(wire, STATE_TOPIC)]
    log = MemoryLog()
    ours = answers_of_the_core(log, topic_id, requests)
    for (request, _), kafkas, our in zip(requests, from_kafka, ours, strict=True):
        assert our == kafkas, request
    stored = [shown_record(decode(key, value)) for key, value in log_records(log)]
    assert stored == [record for record in stored_by_kafka if record is not None and record.key.topic_id == topic_id]


def answers_of_the_core(log: MemoryLog, topic_id: UUID, requests: Sequence[tuple[Any, int]]) -> list[Any]:
    replies: list[Any] = []

    async def main() -> None:
        share = ShareStateService(
            clock=StoppedClock(),
            timers=TimerQueue(),
            run_in_pool=run_inline,
            is_there=lambda asked, partition: asked == topic_id and partition < 3,
            config=ShareStateConfig(snapshot_update_records=4),
            partition_count=lambda: 1,
        )
        ask: dict[type, Callable[[Any, Callable[[Any], None]], None]] = {
            initializing.InitializeShareGroupStateRequest: share.initialize,
            reading.ReadShareGroupStateRequest: share.read,
            writing.WriteShareGroupStateRequest: share.write,
            deleting.DeleteShareGroupStateRequest: share.delete,
            summarizing.ReadShareGroupStateSummaryRequest: share.read_summary,
        }
        async with trio.open_nursery() as nursery:
            await nursery.start(share.run)
            share.lead(log)
            await trio.testing.wait_all_tasks_blocked()
            for request, _ in requests:
                ask[type(request)](request, lambda reply: replies.append(shown_response(reply)))
            nursery.cancel_scope.cancel()

    trio.run(main)
    return replies


def log_records(log: MemoryLog) -> list[tuple[bytes, bytes | None]]:
    return [pair_of(record) for batch in log.batches for record in iterate_records(batch, 0)]


def pair_of(record: Record) -> tuple[bytes, bytes | None]:
    assert record.key is not None
    return bytes(record.key), None if record.value is None else bytes(record.value)


def records_of(wire: Wire, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return what a topic's first partition holds, from its beginning."""
    found: list[tuple[bytes, bytes | None]] = []
    offset = 0
    while True:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        topics = [FetchTopic(topic=topic, partitions=[partition])]
        request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics)
        (data,) = wire.ask(request, 12).responses[0].partitions
        content = bytes(data.records or b"")
        if not content:
            return found
        for position, header in iterate_headers(content, is_torn_tail_ok=True):
            found += [pair_of(record) for record in iterate_records(content, position)]
            offset = header.next_offset
