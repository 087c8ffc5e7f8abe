"""A share partition has its members acquire and acknowledge the same as Apache Kafka's.

Both have the same members, requests and batches.

The core in this process is asked, and no node of its own: here decisions are compared, one by one,
and not requests. What both have stored in the end is compared too. A seed is one story of random
steps on a topic and a group of its own.

Kafka responds to the end of a session before what the member held is stored, and has it available
only when it has heard that it is. Both are waited for: the first by looking, the second by a write
of another group, whose response Kafka hears after that one.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from uuid import UUID, uuid4

import pytest

from log_service.common.errors import KafkaError
from log_service.coordinator.share.acknowledging import AcknowledgedRange
from log_service.coordinator.share.acquiring import AcquireRequest, FetchedRecords, ShareSettings
from log_service.coordinator.share.record_states import AcknowledgeType, AcquireMode
from log_service.coordinator.share.share_partition import SharePartition, StateWrite
from log_service.coordinator.share.share_state import combined
from log_service.coordinator.share.window import StateBatch
from log_service.protocol.messages import initialize_share_group_state as initializing
from log_service.protocol.messages import read_share_group_state as reading
from log_service.protocol.messages import read_share_group_state_summary as summarizing
from log_service.protocol.messages import share_acknowledge as acknowledging
from log_service.protocol.messages import share_fetch as fetching
from log_service.storage.partition_metadata import format_uuid
from tests.integration.kafka_node import KafkaNode, skip_unless_kafka_is_there
from tests.integration.record_requests import THEN, batch, produce_request
from tests.integration.share_cores import SETTINGS, await_share_coordinator, create_topic
from tests.integration.wire import Wire

DELIVERY_COUNT_LIMIT = 4
STEP_COUNT = 40
MEMBER_COUNT = 3
MAX_WAIT_MS = 200
MAX_BYTES = 1 << 20
FETCH_ATTEMPTS = 5
RELEASE_SECONDS = 15.0
BARRIER_COUNT = STEP_COUNT + 1

Told = list[tuple[int, int, int]]
"""Acquired offsets: first, last (inclusive), and how often they were delivered."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    skip_unless_kafka_is_there()
    properties = SETTINGS | {"group.share.delivery.count.limit": str(DELIVERY_COUNT_LIMIT)}
    with KafkaNode(tmp_path_factory.mktemp("kafka"), properties=properties) as node:
        yield node


@dataclass(slots=True, kw_only=True)
class Member:
    """A consumer with a connection and a share session of its own."""

    wire: Wire
    member_id: str = field(default_factory=lambda: format_uuid(uuid4()))
    epoch: int = 0


def begin(wire: Wire, name: str) -> UUID:
    """Create a topic, begin the state of a group of the same name on it, and return the topic's id."""
    topic_id = create_topic(wire, name, 1)
    await_share_coordinator(wire, name, topic_id)
    begun = initializing.InitializeStateData(
        topic_id=topic_id, partitions=[initializing.PartitionData(partition=0, start_offset=0)]
    )
    request = initializing.InitializeShareGroupStateRequest(group_id=name, topics=[begun])
    assert wire.ask(request, 0).results[0].partitions[0].error_code == 0
    return topic_id


class Barrier:
    """A group of its own, each record of which is one write.

    Once it is accepted, Kafka has heard of all writes before it.
    """

    def __init__(self, wire: Wire, bootstrap: str, name: str) -> None:
        self.name = name
        self.topic_id = begin(wire, name)
        self.member = Member(wire=Wire(bootstrap))
        produced = wire.ask(produce_request(name, batch(*[THEN] * BARRIER_COUNT)), 9)
        assert produced.responses[0].partition_responses[0].error_code == 0

    def pass_through(self) -> None:
        told: Told = []
        while not told:
            wanted = fetch_request(
                self.name, self.member, self.topic_id, most=1, size=1, mode=AcquireMode.RECORD_LIMIT
            )
            told = acquired_in(self.member.wire.ask(wanted, 2))
            self.member.epoch += 1
        ((first, last, _),) = told
        accepted = acknowledging.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=[AcknowledgeType.ACCEPT]
        )
        partition = acknowledging.AcknowledgePartition(
            partition_index=0, acknowledgement_batches=[accepted]
        )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.name,
            member_id=self.member.member_id,
            share_session_epoch=self.member.epoch,
            topics=[acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        response = self.member.wire.ask(request, 2)
        self.member.epoch += 1
        assert response.responses[0].partitions[0].error_code == 0


def fetch_request(
    group_id: str, member: Member, topic_id: UUID, *, most: int, size: int, mode: AcquireMode
) -> fetching.ShareFetchRequest:
    topics = [
        fetching.FetchTopic(
            topic_id=topic_id, partitions=[fetching.FetchPartition(partition_index=0)]
        )
    ]
    return fetching.ShareFetchRequest(
        group_id=group_id,
        member_id=member.member_id,
        share_session_epoch=member.epoch,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_bytes=MAX_BYTES,
        max_records=most,
        batch_size=size,
        share_acquire_mode=mode,
        topics=topics if member.epoch == 0 else [],
    )


def acquired_in(response: fetching.ShareFetchResponse) -> Told:
    assert response.error_code == 0
    told: Told = []
    for partition in (each for topic in response.responses for each in topic.partitions):
        assert partition.error_code == 0
        told += [
            (each.first_offset, each.last_offset, each.delivery_count)
            for each in partition.acquired_records
        ]
    return told


class Story:
    """One group on one partition, at Kafka and in the core."""

    def __init__(self, wire: Wire, bootstrap: str, name: str) -> None:
        self.wire = wire
        self.name = self.group_id = name
        self.topic_id = begin(wire, name)
        self.barrier = Barrier(wire, bootstrap, f"{name}-barrier")
        self.core = SharePartition(ShareSettings(delivery_count_limit=DELIVERY_COUNT_LIMIT), 0)
        self.log: list[tuple[int, int]] = []
        self.members = [Member(wire=Wire(bootstrap)) for _ in range(MEMBER_COUNT)]
        self.held: dict[int, str] = {}
        self.writes: list[StateWrite] = []

    def close(self) -> None:
        for member in (*self.members, self.barrier.member):
            member.wire.close()

    def produce(self, count: int) -> None:
        request = produce_request(self.name, batch(*[THEN] * count))
        (partition,) = self.wire.ask(request, 9).responses[0].partition_responses
        assert partition.error_code == 0
        self.log.append((partition.base_offset, partition.base_offset + count - 1))

    # Acquiring

    def fetch(self, member: Member, most: int, size: int, mode: AcquireMode) -> tuple[Told, Told]:
        """Ask Kafka again if there are records.

        It may respond with nothing while it is busy with a request before.
        """
        acquired = self._acquire(member, most, size, mode)
        for _ in range(FETCH_ATTEMPTS):
            told = self._fetch(member, most, size, mode)
            if told or not acquired:
                break
        return told, acquired

    def _fetch(self, member: Member, most: int, size: int, mode: AcquireMode) -> Told:
        request = fetch_request(
            self.group_id, member, self.topic_id, most=most, size=size, mode=mode
        )
        told = acquired_in(member.wire.ask(request, 2))
        member.epoch += 1
        return told

    def _acquire(self, member: Member, most: int, size: int, mode: AcquireMode) -> Told:
        offset = self.core.next_fetch_offset
        read = [each for each in self.log if each[1] >= offset]
        request = AcquireRequest(
            member_id=member.member_id, max_records=most, batch_size=size, mode=mode
        )
        acquired = self.core.acquire(request, FetchedRecords(fetch_offset=offset, batches=read), 0)
        self.held |= {
            number: member.member_id
            for each in acquired
            for number in range(each.first_offset, each.last_offset + 1)
        }
        return [(each.first_offset, each.last_offset, each.delivery_count) for each in acquired]

    # Acknowledging

    def acknowledge(
        self, member: Member, ranges: list[tuple[int, int, list[int]]]
    ) -> tuple[int, int]:
        several = [
            acknowledging.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in ranges
        ]
        partition = acknowledging.AcknowledgePartition(
            partition_index=0, acknowledgement_batches=several
        )
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            share_session_epoch=member.epoch,
            is_renew_ack=any(AcknowledgeType.RENEW in types for _, _, types in ranges),
            topics=[acknowledging.AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
        )
        response = member.wire.ask(request, 2)
        assert response.error_code == 0
        member.epoch += 1
        (told,) = response.responses[0].partitions
        return told.error_code, self._acknowledge(member, ranges)

    def _acknowledge(self, member: Member, ranges: list[tuple[int, int, list[int]]]) -> int:
        asked = [
            AcknowledgedRange(first_offset=first, last_offset=last, types=types)
            for first, last, types in ranges
        ]
        try:
            write = self.core.acknowledge(member.member_id, asked, 0)
        except KafkaError as error:
            return error.code
        self._complete(write)
        return 0

    def end_session(self, member: Member) -> None:
        """Everything that the member holds is released."""
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group_id, member_id=member.member_id, share_session_epoch=-1
        )
        assert member.wire.ask(request, 2).error_code == 0
        member.epoch = 0
        self._complete(self.core.release(member.member_id))
        self.await_stored()

    def await_stored(self) -> None:
        """Kafka responds before a release is stored.

        It has the records available once it has heard that they are.
        """
        deadline = time.monotonic() + RELEASE_SECONDS
        while self.stored_by_kafka() != self.stored_by_the_core() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.barrier.pass_through()

    def _complete(self, write: StateWrite | None) -> None:
        if write is None:
            return
        self.core.complete_write(write.write_id, is_written=True)
        self.writes.append(write)
        for number in [
            number
            for each in write.batches
            for number in range(each.first_offset, each.last_offset + 1)
        ]:
            self.held.pop(number, None)

    # What is stored

    def stored_by_kafka(self) -> tuple[int, int, list[StateBatch]]:
        asked = reading.ReadStateData(
            topic_id=self.topic_id, partitions=[reading.PartitionData(partition=0, leader_epoch=-1)]
        )
        read = (
            self.wire.ask(
                reading.ReadShareGroupStateRequest(group_id=self.group_id, topics=[asked]), 0
            )
            .results[0]
            .partitions[0]
        )
        wanted = summarizing.ReadStateSummaryData(
            topic_id=self.topic_id, partitions=[summarizing.PartitionData(partition=0)]
        )
        request = summarizing.ReadShareGroupStateSummaryRequest(
            group_id=self.group_id, topics=[wanted]
        )
        summary = self.wire.ask(request, 1).results[0].partitions[0]
        batches = [
            StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in read.state_batches
        ]
        # Kafka leaves some neighbours apart that say the same.
        joined = list(combined(batches, read.start_offset))
        return read.start_offset, summary.delivery_complete_count, joined

    def stored_by_the_core(self) -> tuple[int, int, list[StateBatch]]:
        if not self.writes:
            return 0, 0, []
        start = self.writes[-1].start_offset
        return (
            start,
            self.writes[-1].delivery_complete_count,
            list(combined([each for one in self.writes for each in one.batches], start)),
        )


@pytest.mark.parametrize("seed", range(8))
def test_a_share_partition_decides_as_kafkas_does(kafka: KafkaNode, seed: int) -> None:
    rng = Random(seed)
    with Wire(kafka.bootstrap) as wire:
        story = Story(wire, kafka.bootstrap, f"share-{seed}")
        try:
            for _ in range(rng.randint(1, 6)):
                story.produce(rng.randint(1, 6))
            for step in range(STEP_COUNT):
                play(story, rng, step)
            story.await_stored()
            assert story.stored_by_the_core() == story.stored_by_kafka()
        finally:
            story.close()


def play(story: Story, rng: Random, step: int) -> None:
    """One step: mostly fetches and acknowledgements, some produce records, or end a session."""
    member = rng.choice(story.members)
    kind = rng.choice(["fetch"] * 4 + ["acknowledge"] * 6 + ["produce", "end"])
    if kind == "produce" and len(story.log) < 12:
        story.produce(rng.randint(1, 6))
    elif kind == "end" and member.epoch:
        story.end_session(member)
    elif kind == "acknowledge" and member.epoch:
        ranges = random_ranges(story, rng, member)
        told, core = story.acknowledge(member, ranges)
        assert core == told, (step, member.member_id, ranges, list(story.core.runs()))
    else:
        most, size, mode = rng.randint(1, 12), rng.randint(1, 8), rng.choice(list(AcquireMode))
        before, next_offset = list(story.core.runs()), story.core.next_fetch_offset
        fetched, acquired = story.fetch(member, most, size, mode)
        assert acquired == fetched, (step, most, size, mode, story.log, next_offset, before)


def random_ranges(story: Story, rng: Random, member: Member) -> list[tuple[int, int, list[int]]]:
    """Draw offsets that the member holds, with types that favour a release.

    Now and then it does not hold some.
    """
    mine = sorted(number for number, holder in story.held.items() if holder == member.member_id)
    first = rng.choice(mine) if mine and rng.random() < 0.9 else rng.randint(0, 30)
    ranges = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        last = first
        most = rng.randint(0, 5)
        while last - first < most and (last + 1 in mine or rng.random() < 0.03):
            last += 1
        kinds = [rng.choice([0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 4]) for _ in range(last - first + 1)]
        ranges.append((first, last, kinds if rng.random() < 0.4 else kinds[:1]))
        first = last + rng.randint(1, 2)
    return ranges
