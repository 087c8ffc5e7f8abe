"""The operator of a cluster never rests.

It moves replicas and takes that back, has leaders elected, creates and deletes topics. Knows what
was acknowledged of it: a topic that was created is there in the end, and one that was deleted is
not.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random

from log_service.client import BlockingAdmin, ErrorCode, KafkaError, NewTopic, TopicPartition
from tests.chaos.load import Client

MOVED = "moved"
"""Its partitions have two replicas of three nodes, or three of five: there is somewhere to move
them to.
"""
PAUSE_SECONDS = 0.7
ASK_MS = 8_000
SEEN_SECONDS = 30.0
MOST_TOPICS = 20


class Operator(Client):
    """A thread that operates. ``counts`` says how often each operation was acknowledged,
    ``created`` and ``deleted`` name topics.
    """

    def __init__(self, bootstrap: str, seed: int, node_ids: Sequence[int]) -> None:
        super().__init__("operator")
        self.bootstrap = bootstrap
        self.node_ids = node_ids
        self.rng = Random(f"operator {seed}")
        self.counts = Counter[str]()
        self.created: set[str] = set()
        self.deleted: set[str] = set()
        self._names = (f"scratch-{number}" for number in count())

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Create the topics that are written to."""
        moved_replicas = 2 if len(self.node_ids) == 3 else 3
        wanted = [
            NewTopic(
                name=name,
                partition_count=partitions,
                replication_factor=moved_replicas if name == MOVED else 3,
                configs={"min.insync.replicas": str(moved_replicas - 1) if name == MOVED else "2"},
            )
            for name, partitions in topics.items()
        ]
        with BlockingAdmin(self.bootstrap) as admin:
            admin.create_topics(wanted)

    def work(self) -> None:
        operations = (
            self._reassign,
            self._reassign,
            self._cancel,
            self._elect,
            self._create,
            self._delete,
        )
        while not self.stopping.wait(PAUSE_SECONDS):
            operation = self.rng.choice(operations)
            try:
                with BlockingAdmin(self.bootstrap, default_api_timeout_ms=ASK_MS) as admin:
                    operation(admin)
            except KafkaError as error:
                if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
                    self.failures.append(
                        f"the operator was told of an unknown server error: {error}"
                    )
                self.counts["refused"] += 1
            else:
                self.counts[operation.__name__.strip("_")] += 1

    def verdict(self) -> list[str]:
        """Return the acknowledged changes of topics that do not hold, and the failures."""
        deadline = time.monotonic() + SEEN_SECONDS
        while True:
            with BlockingAdmin(self.bootstrap) as admin:
                there = {topic.name for topic in admin.list_topics()}
            missing, left = self.created - there, self.deleted & there
            if not (missing or left) or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        faults = [
            f"topic {name} was created, acknowledged, and is not there" for name in sorted(missing)
        ]
        return [
            *self.failures,
            *faults,
            *(f"topic {name} was deleted, acknowledged, and is there" for name in sorted(left)),
        ]

    def _reassign(self, admin: BlockingAdmin) -> None:
        described = admin.describe_topics([MOVED])[MOVED].partitions
        partition = self.rng.randrange(len(described))
        target = self.rng.sample(list(self.node_ids), 2 if len(self.node_ids) == 3 else 3)
        admin.alter_partition_reassignments({TopicPartition(MOVED, partition): tuple(target)})

    def _cancel(self, admin: BlockingAdmin) -> None:
        moving = sorted(admin.list_partition_reassignments())
        if moving:
            admin.alter_partition_reassignments({self.rng.choice(moving): None})

    def _elect(self, admin: BlockingAdmin) -> None:
        admin.elect_leaders()

    def _create(self, admin: BlockingAdmin) -> None:
        if len(self.created) >= MOST_TOPICS:
            return
        name = next(self._names)
        admin.create_topics(
            [NewTopic(name=name, partition_count=2, replication_factor=self.rng.choice((2, 3)))]
        )
        self.created.add(name)

    def _delete(self, admin: BlockingAdmin) -> None:
        if not self.created:
            return
        name = self.rng.choice(sorted(self.created))
        # From here on it may be there or not, until that is acknowledged.
        self.created.discard(name)
        admin.delete_topics([name])
        self.deleted.add(name)
