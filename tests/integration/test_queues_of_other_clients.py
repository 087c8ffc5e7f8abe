"""Other people's share consumers are members of a queue on one node (KIP-932).

They accept, release and reject; two share the work, and one is refused.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin
from log_service.protocol.messages import delete_share_group_state as deleting
from log_service.protocol.messages import initialize_share_group_state as initializing
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG, cluster
from tests.integration.queue_members import MEMBERS, Queue
from tests.integration.wire import Wire

# A first build of the program fetches and compiles franz-go.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(400),
]

PARTITIONS = 4
PATIENCE_SECONDS = 60.0
PROPERTIES = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.share.record.lock.duration.ms": "60000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.assignment.interval.ms": "0",
}
"""Locks are longer than a test that does not shorten them: what comes again was released."""
names = itertools.count()
Changed = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]
"""A request that changes states, with the messages of its topics and partitions."""
DELETED: Changed = (
    deleting.DeleteShareGroupStateRequest,
    deleting.DeleteStateData,
    deleting.PartitionData,
)
BEGUN: Changed = (
    initializing.InitializeShareGroupStateRequest,
    initializing.InitializeStateData,
    initializing.PartitionData,
)


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


def change_state(bootstrap: str, queue: Queue, change: Changed, **told: int) -> None:
    """Delete or begin the state of a queue's only partition, as brokers do."""
    request, topic, partition = change
    with BlockingAdmin(bootstrap) as admin:
        topic_id = admin.describe_topics([queue.topic])[queue.topic].topic_id
    changed = topic(topic_id=topic_id, partitions=[partition(partition=0, **told)])
    with Wire(bootstrap) as wire:
        response = wire.ask(request(group_id=queue.topic, topics=[changed]), 0)
    assert response.results[0].partitions[0].error_code == 0, response


@pytest.mark.parametrize("library", of_a_run(["franz-go"], whole=list(MEMBERS)))
def test_a_member_whose_verdict_was_refused_goes_on(
    bootstrap: str, tmp_path: Path, library: str
) -> None:
    """franz-go took zeros beside a refusal for the new leader, and fetched from broker 0 for ever."""
    queue = Queue(
        bootstrap,
        f"queue-{next(names)}",
        partition_count=1,
        replication_factor=1,
        configs={"share.record.lock.duration.ms": "1000"},
    )
    queue.write(7)
    with queue.members(library, tmp_path, 1):
        queue.wait_until_done(PATIENCE_SECONDS)
        queue.wait_until_empty(PATIENCE_SECONDS)
        change_state(bootstrap, queue, DELETED)
        queue.write(7)
        queue.wait_until_refused(PATIENCE_SECONDS)
        change_state(bootstrap, queue, BEGUN, start_offset=7)
        queue.write(7)
        queue.wait_until_done(PATIENCE_SECONDS)
        queue.wait_until_empty(PATIENCE_SECONDS)
    assert queue.book.faults() == []
