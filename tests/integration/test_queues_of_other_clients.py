"""Other people's share consumers as members of a queue on one node (KIP-932): accept, release,
reject, and two that share the work.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client_clusters import TIDELOG, cluster
from tests.integration.queue_members import MEMBERS, Queue

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(400),
]  # a first build of the program fetches and compiles franz-go

PARTITIONS = 4
PATIENCE_SECONDS = 60.0
PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "0",
}
"""Locks are longer than a test: what comes again was released."""
names = itertools.count()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(TIDELOG, tmp_path_factory.mktemp("cluster"), PROPERTIES) as servers:
        yield servers


@pytest.mark.parametrize(
    "library",
    [pytest.param(name, marks=pytest.mark.repeats if name == "java" else ()) for name in MEMBERS],
)
def test_two_members_share_the_work_and_each_record_ends_as_they_say(
    bootstrap: str, tmp_path: Path, library: str
) -> None:
    queue = Queue(
        bootstrap, f"queue-{next(names)}", partition_count=PARTITIONS, replication_factor=1
    )
    queue.write(140)
    with queue.members(library, tmp_path) as members:
        queue.write_until_shared(members, PATIENCE_SECONDS)
        queue.wait_until_done(PATIENCE_SECONDS)
        queue.wait_until_empty(PATIENCE_SECONDS)
    book = queue.book
    assert book.faults() == []
    assert book.late == []
    assert book.unsure == {}
    assert {where: book.taken[where]["accept"] for where in book.of_kind("good")} == dict.fromkeys(
        book.of_kind("good"), 1
    )
    assert {tuple(book.counts[where]) for where in book.of_kind("good") | book.of_kind("bad")} == {
        (1,)
    }
    assert {tuple(book.counts[where]) for where in book.of_kind("second")} == {(1, 2)}
    assert queue.letters_of() == Counter(book.of_kind("bad"))
