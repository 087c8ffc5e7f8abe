"""Share coordinators (KIP-932) respond to brokers the same on tidelog and on Apache Kafka.

The tests have the five APIs, and the records that both store for them.

A seed is one story of random requests about three partitions of a topic: some make sense, some are
late, some are wrong. In the end ``__share_group_state`` holds the same records on both sides, but
for ids and times.

Neighbouring batches of one state and count are compared as one: Apache Kafka leaves some of them
apart where it merges several writes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest

from log_service.coordinator.share.state_records import ShareRecord, SnapshotRecord, decode
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import write_share_group_state as writing
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from log_service.records.batch import iterate_headers, iterate_records
from tests.integration.differential import Cluster, Duel, normalise
from tests.integration.share_cores import SETTINGS, await_share_coordinator
from tests.integration.wire import Wire

PROPERTIES = SETTINGS
GROUP = "g"
NOBODY = UUID(int=77)
PARTITIONS = 3
REQUESTS = 60
STATE_TOPIC = "__share_group_state"
FETCH_BYTES = 1 << 20


def requests_of(seed: int, topic_id: UUID) -> Iterator[tuple[Any, int]]:
    """Yield requests of all five kinds, each with its version."""
    rng = Random(seed)
    for _ in range(REQUESTS):
        partition = rng.choice([0, 0, 0, 0, 1, 1, 2, PARTITIONS, -1])
        kind = rng.choice(
            ["initialize", "read", "write", "write", "write", "write", "write", "summary", "delete"]
        )
        epoch = rng.choice([-1, 0, 1, 1, 2, 3])
        about = {"topic_id": topic_id if rng.random() < 0.97 else NOBODY}
        if kind == "initialize":
            begun = initializing.PartitionData(
                partition=partition, state_epoch=epoch, start_offset=rng.choice([-1, 0, 10])
            )
            topics: list[Any] = [initializing.InitializeStateData(**about, partitions=[begun])]
            yield initializing.InitializeShareGroupStateRequest(group_id=GROUP, topics=topics), 0
        elif kind == "read":
            topics = [
                reading.ReadStateData(
                    **about,
                    partitions=[reading.PartitionData(partition=partition, leader_epoch=epoch)],
                )
            ]
            yield reading.ReadShareGroupStateRequest(group_id=GROUP, topics=topics), 0
        elif kind == "write":
            version = rng.choice([0, 1, 1])
            topics = [
                writing.WriteStateData(
                    **about, partitions=[written(rng, partition, epoch, version)]
                )
            ]
            yield writing.WriteShareGroupStateRequest(group_id=GROUP, topics=topics), version
        elif kind == "summary":
            wanted = summarizing.PartitionData(partition=partition, leader_epoch=epoch)
            topics = [summarizing.ReadStateSummaryData(**about, partitions=[wanted])]
            yield (
                summarizing.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=topics),
                rng.choice([0, 1]),
            )
        elif rng.random() < 0.3:
            topics = [
                deleting.DeleteStateData(
                    **about, partitions=[deleting.PartitionData(partition=partition)]
                )
            ]
            yield deleting.DeleteShareGroupStateRequest(group_id=GROUP, topics=topics), 0


def written(rng: Random, partition: int, leader_epoch: int, version: int) -> writing.PartitionData:
    batches = []
    for _ in range(rng.randint(0, 4)):
        first, state = rng.randint(0, 30), rng.choice([0, 2, 4])
        last, count = first + rng.randint(0, 9), rng.randint(1, 3)
        batches.append(
            writing.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
        )
    counted = {"delivery_complete_count": rng.randint(0, 9)} if version else {}
    return writing.PartitionData(
        partition=partition,
        state_epoch=rng.choice([-1, 1, 2, 3]),
        leader_epoch=leader_epoch,
        start_offset=rng.choice([-1, 0, 3, 12]),
        state_batches=batches,
        **counted,
    )


def story(seed: int, topic: str, cluster: Cluster) -> list[Any]:
    """Tell one side a story; return its responses, and what it has stored."""
    topic_id = cluster.topic_id(topic)
    await_share_coordinator(cluster.wire, GROUP, topic_id)
    responses = [cluster.ask(*each) for each in requests_of(seed, topic_id)]
    records = [record for record in stored(cluster.wire) if record.key.topic_id == topic_id]
    return [joined(normalise(each, ordered=True)) for each in (*responses, records)]


def joined(shown: Any) -> Any:
    """Return plain values with neighbouring batches of offsets that are alike as one."""
    if isinstance(shown, dict):
        return {name: joined(value) for name, value in shown.items()}
    if not isinstance(shown, list):
        return shown
    found: list[Any] = []
    for each in map(joined, shown):
        last = found[-1] if found else None
        if (
            isinstance(each, dict)
            and "delivery_state" in each
            and last is not None
            and is_continued(last, each)
        ):
            found[-1] = {**last, "last_offset": each["last_offset"]}
        else:
            found.append(each)
    return found


def is_continued(batch: dict[str, Any], following: dict[str, Any]) -> bool:
    alike = ("delivery_state", "delivery_count")
    return batch["last_offset"] + 1 == following["first_offset"] and all(
        batch[name] == following[name] for name in alike
    )


def stored(wire: Wire) -> Iterator[ShareRecord]:
    """Yield what the only partition of share states holds, without its times."""
    offset = 0
    while content := read(wire, offset):
        for position, header in iterate_headers(content, is_torn_tail_ok=True):
            for record in iterate_records(content, position):
                assert record.key is not None
                decoded = decode(record.key, record.value)
                if isinstance(decoded, SnapshotRecord) and decoded.state is not None:
                    decoded = replace(
                        decoded,
                        state=replace(decoded.state, create_timestamp_ms=0, write_timestamp_ms=0),
                    )
                if decoded is not None:
                    yield decoded
            offset = header.next_offset


def read(wire: Wire, offset: int) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    topics = [FetchTopic(topic=STATE_TOPIC, partitions=[partition])]
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics
    )
    (told,) = wire.ask(request, 12).responses[0].partitions
    assert told.error_code == 0
    return bytes(told.records or b"")


@pytest.mark.parametrize("seed", range(8))
def test_the_share_coordinator_decides_and_stores_as_kafka_does(duel: Duel, seed: int) -> None:
    topic = f"states-{seed}"
    duel.create_topic(topic, PARTITIONS)
    duel.compare_told(partial(story, seed, topic))


NAMELESS: dict[str, Callable[[UUID], reading.ReadShareGroupStateRequest]] = {
    "no group": lambda topic_id: reading.ReadShareGroupStateRequest(
        group_id="",
        topics=[
            reading.ReadStateData(
                topic_id=topic_id, partitions=[reading.PartitionData(partition=0)]
            )
        ],
    ),
    "no topic": lambda _topic_id: reading.ReadShareGroupStateRequest(group_id=GROUP, topics=[]),
    "no partition": lambda topic_id: reading.ReadShareGroupStateRequest(
        group_id=GROUP, topics=[reading.ReadStateData(topic_id=topic_id)]
    ),
}


@pytest.mark.parametrize("case", NAMELESS)
def test_requests_that_name_nothing_have_an_empty_response(duel: Duel, case: str) -> None:
    topic = case.replace(" ", "-")
    duel.create_topic(topic)
    for cluster in duel.clusters.sides():
        await_share_coordinator(cluster.wire, GROUP, cluster.topic_id(topic))
    assert duel.compare(lambda cluster: NAMELESS[case](cluster.topic_id(topic)), 0).results == []
