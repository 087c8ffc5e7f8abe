"""Random requests get the same responses from tidelog and Apache Kafka, one by one.

They are of idempotent producers, fetch sessions, and lookups by time.

Each walk follows what a client might do, and leaves the path now and then. A difference is told
with the seed and the last steps. The written tests beside this one hold what walks have found.
"""

from collections import deque
from random import Random
from typing import Any

import pytest

from log_service.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from log_service.protocol.messages.fetch import FetchPartition, FetchRequest
from log_service.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from log_service.records.compression import Codec
from tests.integration.differential import Cluster, Clusters, Duel, Recording, normalise
from tests.integration.record_requests import (
    THEN,
    batch,
    fetch_request,
    forgotten,
    idempotent,
    offsets_request,
    produce_request,
    ready_topic,
    wanted,
)

IGNORED = {"error_message", "batch_index_error_message", "session_id"}
STEPS = 250
LAST_SEQUENCE = 2**31 - 1


class Walk:
    """Both sides, the dice, and what was done last."""

    def __init__(self, clusters: Clusters, seed: int) -> None:
        if clusters.kafka is None:
            pytest.skip("a walk compares with a running Apache Kafka")
        self.duel = Duel(clusters, Recording("walks"), f"walk-{seed}")
        self.sides: tuple[Cluster, Cluster] = (clusters.tidelog, clusters.kafka)
        self.seed = seed
        self.dice = Random(seed)
        self.steps: deque[object] = deque(maxlen=8)

    def compare(self, request: Any, version: int, step: object) -> tuple[Any, Any]:
        """Ask both and return both answers, which are the same but for what is ignored."""
        self.steps.append(step)
        answers = tuple(side.ask(request, version) for side in self.sides)
        ours, theirs = (normalise(answer, ignore=IGNORED, ordered=True) for answer in answers)
        assert ours == theirs, f"seed {self.seed}, after {list(self.steps)}"
        return answers[0], answers[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_idempotent_producers(clusters: Clusters, seed: int) -> None:
    walk = Walk(clusters, seed)
    topic = f"idempotent-{seed}"
    ready_topic(walk.duel, topic)
    due: dict[int, tuple[int, int]] = {}
    for number in range(STEPS):
        producer_id, count = walk.dice.choice([1, 2, 3]), walk.dice.choice([1, 1, 2, 3, 5])
        epoch, sequence = next_batch(walk.dice, *due.get(producer_id, (0, 0)))
        sent = idempotent(producer_id, sequence, count, epoch=epoch, timestamp=THEN + number)
        answer, _ = walk.compare(
            produce_request(topic, sent), 12, (producer_id, epoch, sequence, count)
        )
        found = answer.responses[0].partition_responses[0]
        if found.error_code == 0 and found.log_append_time_ms < 0:  # new, not repeated
            due[producer_id] = (epoch, (sequence + count) % (LAST_SEQUENCE + 1))


def next_batch(dice: Random, epoch: int, sequence: int) -> tuple[int, int]:
    """Draw (epoch, sequence) of a request.

    It is the next one, a repetition, a gap, a new or an old epoch, or the end of the numbers.
    """
    return dice.choices(
        [
            (epoch, sequence),
            (epoch, max(0, sequence - dice.randint(1, 8))),
            (epoch, min(sequence + dice.randint(1, 2), LAST_SEQUENCE)),
            (epoch + dice.randint(1, 2), dice.choice([0, 0, 0, 1])),
            (max(0, epoch - 1), sequence),
            (epoch, LAST_SEQUENCE - dice.randint(0, 2)),
        ],
        weights=[10, 4, 2, 2, 1, 1],
    )[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_lookups_by_time(clusters: Clusters, seed: int) -> None:
    walk = Walk(clusters, seed)
    for topic in (f"times-{seed}-{number}" for number in range(6)):
        small: dict[str, Any] = (
            {"segment_bytes": "1048576", "index_interval_bytes": "64"}
            if walk.dice.random() < 0.5
            else {}
        )
        ready_topic(walk.duel, topic, **small)
        for _ in range(walk.dice.randint(1, 12)):
            times = [
                walk.dice.choice([-1] + [THEN + walk.dice.randint(0, 40)] * 6)
                for _ in range(walk.dice.randint(1, 6))
            ]
            value = b"x" * walk.dice.choice([10, 10, 300_000 // len(times)])
            walk.duel.on_both(
                produce_request(
                    topic, batch(*times, codec=walk.dice.choice(list(Codec)), value=value)
                ),
                12,
            )
        if walk.dice.random() < 0.5:
            partitions = [
                DeleteRecordsPartition(partition_index=0, offset=walk.dice.randint(0, 20))
            ]
            walk.duel.on_both(
                DeleteRecordsRequest(
                    topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=5_000
                ),
                2,
            )
        for request in offsets_request(topic, *range(THEN - 1, THEN + 42), -1, -2, -3, -4):
            walk.compare(request, 11, request)


class SessionWalk(Walk):
    """A consumer of five partitions, and one that there is not, in one fetch session after another."""

    def __init__(self, clusters: Clusters, seed: int, topic: str, version: int) -> None:
        super().__init__(clusters, seed)
        self.topic, self.version = topic, version
        self.ids: dict[str, int] = {}
        self.epoch = 0
        self.ends = [0] * 5
        ready_topic(self.duel, topic, 5)

    def produce(self, partition: int) -> None:
        """One more record on both sides."""
        records = batch(THEN, value=b"q" * self.dice.randint(1, 400))
        topics = [
            TopicProduceData(
                name=self.topic,
                partition_data=[PartitionProduceData(index=partition, records=records)],
            )
        ]
        self.duel.on_both(
            ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=topics), 12
        )
        self.ends[partition] += 1
        self.steps.append(("produce", partition))

    def fetch(self) -> None:
        """The next request of the session, of a new one, or one that is out of step."""
        if not self.ids or self.dice.random() < 0.04:
            self.epoch = 0
        partitions, forgets = self.choice_of_partitions()
        epoch = (
            self.epoch if self.dice.random() < 0.96 else self.dice.choice([self.epoch + 1, -1, 1])
        )
        max_bytes, isolation_level = self.dice.choice([300, 700, 1 << 20]), self.dice.choice([0, 1])

        def build(side: Cluster) -> FetchRequest:
            request: FetchRequest = fetch_request(
                self.topic, *partitions, max_bytes=max_bytes, isolation_level=isolation_level
            )(side)
            if not partitions:
                request.topics = []
            request.forgotten_topics_data = forgotten(self.topic, *forgets)(side) if forgets else []
            request.session_id, request.session_epoch = self.ids.get(side.bootstrap, 0), epoch
            return request

        asked = [(one.partition, one.fetch_offset, one.partition_max_bytes) for one in partitions]
        answers = self.compare(build, self.version, (epoch, asked, forgets, max_bytes))
        ids = [answer.session_id for answer in answers]
        assert bool(ids[0]) == bool(ids[1]), (
            f"seed {self.seed}: sessions {ids} after {list(self.steps)}"
        )
        self.ids = {
            side.bootstrap: found for side, found in zip(self.sides, ids, strict=True) if found
        }
        self.epoch = epoch + 1 if epoch > 0 else 1

    def choice_of_epochs(self) -> dict[str, int]:
        """Draw a reader's belief about leader epochs.

        It is mostly none, sometimes the right one, and seldom a wrong one.
        """
        names = ("current_leader_epoch", "last_fetched_epoch")
        return {name: self.dice.choices([-1, 0, 1], weights=[12, 4, 1])[0] for name in names}

    def choice_of_partitions(self) -> tuple[list[FetchPartition], list[int]]:
        """Draw the partitions that the request names, and those that it forgets."""
        dice = self.dice
        if self.epoch == 0:
            return [
                wanted(index, dice.choice([0, self.ends[index]]))
                for index in range(dice.choice([0, 3, 5]))
            ], []
        named = {
            index: wanted(
                index,
                dice.choice([0, 1, self.ends[0], 99]),
                partition_max_bytes=dice.choice([100, 1000, 1 << 20]),
                **self.choice_of_epochs(),
            )
            for index in (dice.randint(0, 5) for _ in range(dice.choice([0, 0, 1, 1, 2])))
        }
        return list(named.values()), [
            dice.randint(0, 5) for _ in range(dice.choice([0, 0, 0, 1, 2]))
        ]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("version", [12, 13])
def test_fetch_sessions(clusters: Clusters, version: int, seed: int) -> None:
    walk = SessionWalk(clusters, seed, f"sessions-{version}-{seed}", version)
    for _ in range(STEPS):
        if walk.dice.random() < 0.15:
            walk.produce(walk.dice.randint(0, 4))
        else:
            walk.fetch()


class ChangingWalk(SessionWalk):
    """Fetch on while the topic is deleted and created again.

    The consumer notices at once, later, or not at all.
    """

    is_there = True

    def change(self) -> None:
        """Delete the topic, or create it again."""
        old_ids = [side.topic_ids.get(self.topic) for side in self.sides]
        if self.is_there:
            self.duel.on_both(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=self.topic)], timeout_ms=10_000),
                6,
            )
        else:
            ready_topic(self.duel, self.topic, 5)
            self.ends = [0] * 5
        self.is_there = not self.is_there
        code = 0 if self.is_there else 100 if self.version >= 13 else 3
        everything = fetch_request(self.topic, *(wanted(index) for index in range(5)))
        self.duel.until(
            everything,
            self.version,
            lambda answer: all(one.error_code == code for one in answer.responses[0].partitions),
        )
        if self.is_there and self.dice.random() < 0.5:
            for side, old_id in zip(self.sides, old_ids, strict=True):
                side.topic_ids[self.topic] = old_id or side.topic_ids[self.topic]
        self.steps.append("created" if self.is_there else "deleted")

    def compare(self, request: Any, version: int, step: object) -> tuple[Any, Any]:
        """Compare codes and sizes: where a topic was replaced, Apache Kafka's order is that of a
        hash map.
        """
        self.steps.append(step)
        ours, theirs = (side.ask(request, version) for side in self.sides)
        assert self.outline(ours) == self.outline(theirs), (
            f"seed {self.seed}, after {list(self.steps)}"
        )
        return ours, theirs

    @staticmethod
    def outline(answer: Any) -> tuple[int, list[tuple[int, int, int]]]:
        """The answer's code, and (partition, code, bytes) of each."""
        partitions = [one for topic in answer.responses for one in topic.partitions]
        return answer.error_code, sorted(
            (one.partition_index, one.error_code, len(one.records or b"")) for one in partitions
        )


@pytest.mark.parametrize("seed", [10, 11])
@pytest.mark.parametrize("version", [12, 13])
def test_fetch_sessions_while_topics_come_and_go(
    clusters: Clusters, version: int, seed: int
) -> None:
    walk = ChangingWalk(clusters, seed, f"changing-{version}-{seed}", version)
    for _ in range(120):
        choice = walk.dice.random()
        if choice < 0.05:
            walk.change()
        elif choice < 0.2 and walk.is_there:
            walk.produce(walk.dice.randint(0, 4))
        else:
            walk.fetch()
