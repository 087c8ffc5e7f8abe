"""Other people's share consumers use three nodes, of which one is killed (KIP-932).

Nothing is lost, and nothing is accepted twice.

Each library has a queue of its own with two members. The node that is killed leads a partition of
every queue; what is written while it is down is worked off by the other two.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.queue_members import MEMBERS, Member, Queue

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PARTITIONS = 3
PATIENCE_SECONDS = 120.0
PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.delivery.count.limit": "10",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
}
"""A record is delivered more often than nodes are killed: its members decide, not the limit."""
LIBRARIES = of_a_run([name for name in MEMBERS if name != "java"], whole=list(MEMBERS))


def write_and_wait(queues: dict[str, Queue], count: int) -> None:
    for queue in queues.values():
        queue.write(count)
    for queue in queues.values():
        queue.wait_until_done(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def queues(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[dict[str, Queue], dict[str, str]]]:
    """The queues after the story, and the libraries that are not there, with the reasons."""
    missing: dict[str, str] = {}
    found: dict[str, Queue] = {}
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("cluster"), PROPERTIES) as nodes:
        with ExitStack() as stack:
            parties: dict[str, list[Member]] = {}
            for library in LIBRARIES:
                queue = Queue(
                    nodes.bootstrap,
                    f"queue-of-{library}",
                    partition_count=PARTITIONS,
                    replication_factor=3,
                )
                try:
                    parties[library] = stack.enter_context(
                        queue.members(library, tmp_path_factory.mktemp("program"))
                    )
                    found[library] = queue
                except pytest.skip.Exception as told:
                    missing[library] = str(told)
            tell_the_story(nodes, found, parties)
        yield found, missing


def tell_the_story(
    nodes: ClusterNodes, queues: dict[str, Queue], parties: dict[str, list[Member]]
) -> None:
    topics = [queue.topic for queue in queues.values()]
    nodes.wait_until_whole(*topics)
    for library, queue in queues.items():
        queue.write_until_shared(parties[library], PATIENCE_SECONDS)
    for queue in queues.values():
        queue.write(42)
    victim = nodes.leader_of(topics[0], 0)
    nodes.kill(victim)
    write_and_wait(queues, 42)
    nodes.wait_until_whole(*topics)
    write_and_wait(queues, 42)
    for queue in queues.values():
        queue.wait_until_empty(PATIENCE_SECONDS)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_node_that_is_killed_loses_no_record_and_none_is_accepted_twice(
    queues: tuple[dict[str, Queue], dict[str, str]], library: str, tmp_path: Path
) -> None:
    there, missing = queues
    if library in missing:
        pytest.skip(missing[library])
    queue = there[library]
    assert queue.book.faults() == []
    assert queue.book.of_kind("bad") == queue.letters_of().keys()
