"""Other people's clients run with their default timers beside three nodes.

These are killed, stopped and paused.

Each writes as an idempotent producer to a topic of its own and reads it in a group of its own, all
at the same time. Each topic has a partition that each node leads, so that every strike hits all
clients; the leader of the quorum is among the nodes that are struck. In the end nothing that was
acknowledged is missing, nothing is there twice, each partition is in order, the group has got
everything, and what it committed stands.
"""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import Acknowledged, Reader, Writer, wait_for_readers
from tests.chaos.verdicts import commits_stand, group_got_everything, judge, read_log
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG
from tests.integration.clients_of_a_cluster import CASTS, wait_for_progress
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes
from tests.integration.confluent import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

PARTITIONS = 3
PATIENCE_SECONDS = 120.0
"""Some clients wait for a response for 30 or 40 s before they ask another node."""


@dataclass(kw_only=True)
class Party:
    """One client library in the story.

    It has its writer and reader, their result, or the reason why it is not there.
    """

    topics: dict[str, int]
    writer: Writer | None = None
    reader: Reader | None = None
    missing: str = ""
    faults: list[str] = field(default_factory=list)
    log: Acknowledged = field(default_factory=dict)


def enter(name: str, bootstrap: str, folder: Path) -> Party:
    """Let a client library begin to write and to read."""
    party = Party(topics={f"written-by-{name}": PARTITIONS})
    try:
        party.writer, party.reader = CASTS[name].clients(name, bootstrap, party.topics, folder)
    except pytest.skip.Exception as told:
        party.missing = str(told)
        return party
    party.writer.start()
    party.reader.start()
    return party


def go_on(parties: Sequence[Party]) -> None:
    """Wait until each client gets records to all its partitions.

    A client that does not is noted, and not waited for again.
    """
    for party in parties:
        if party.writer is not None and not party.faults:
            try:
                wait_for_progress(party.writer, PATIENCE_SECONDS)
            except AssertionError as error:
                party.faults.append(str(error))


def strike_each(nodes: ClusterNodes, parties: Sequence[Party]) -> None:
    """Kill a node (in a long run each), stop the active controller, and pause a leader.

    It leads a partition of every topic.
    """
    topics = [topic for party in parties for topic in party.topics]
    hung = NODE_IDS[1]
    others = [node_id for node_id in NODE_IDS if node_id not in {hung, nodes.controller()}]
    for node_id in of_a_run(others[:1], whole=NODE_IDS):
        nodes.kill(node_id)
        go_on(parties)
        nodes.start(node_id)
        nodes.wait_until_whole(*topics)
    controller = nodes.controller()
    nodes.stop(controller)
    go_on(parties)
    nodes.start(controller)
    nodes.wait_until_whole(*topics)
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.elect_leaders()
    wait_until(
        lambda: all(nodes.leader_of(topic, hung - 1) == hung for topic in topics),
        "the preferred replicas lead",
    )
    nodes.pause(hung)
    try:
        go_on(parties)
    finally:
        nodes.resume(hung)
    nodes.wait_until_whole(*topics)
    nodes.wait_until_told(*NODE_IDS)


def leave(party: Party, bootstrap: str) -> None:
    """Let a client library end, and judge what it was told."""
    assert party.writer is not None
    assert party.reader is not None
    party.writer.stop()
    party.log = read_log(bootstrap, party.topics)
    wait_for_readers(party.log, [party.reader], PATIENCE_SECONDS)
    party.reader.stop()
    party.faults += judge(party.log, [party.writer], [party.reader])
    party.faults += [
        *group_got_everything(party.log, [party.reader]),
        *commits_stand(bootstrap, [party.reader]),
    ]


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Party]]:
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("cluster")) as nodes:
        assignments = {
            index: [NODE_IDS[(index + step) % 3] for step in range(3)]
            for index in range(PARTITIONS)
        }
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics(
                [NewTopic(name=f"written-by-{name}", assignments=assignments) for name in CASTS]
            )
        all_of_them = {
            name: enter(name, nodes.bootstrap, tmp_path_factory.mktemp("program")) for name in CASTS
        }
        present = [party for party in all_of_them.values() if not party.missing]
        try:
            go_on(present)
            strike_each(nodes, present)
        finally:
            for party in present:
                leave(party, nodes.bootstrap)
        nodes.wait_until_equal(*(topic for party in present for topic in party.topics))
        yield all_of_them
    gc.collect()


@pytest.mark.parametrize("name", CASTS)
def test_a_client_goes_on_while_nodes_come_and_go(parties: dict[str, Party], name: str) -> None:
    party = parties[name]
    if party.missing:
        pytest.skip(party.missing)
    assert party.writer is not None
    assert party.reader is not None
    assert party.faults == []
    assert all(count >= 20 for count in party.writer.acknowledged_counts().values())
    assert party.reader.committed
