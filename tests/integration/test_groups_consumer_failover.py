"""Groups of the consumer protocol (KIP-848) are on three nodes.

Their coordinator is killed, and the members go on where they were.
"""

from collections.abc import Iterator

import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, NewTopic
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.group_readers import Reader, poll_until, send

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

TOPIC, GROUP = "orders", "orders-readers"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    with ClusterNodes(TIDELOG, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def send_round(nodes: ClusterNodes, number: int) -> set[bytes]:
    """Produce five records to each partition, and return them."""
    sent: set[bytes] = set()
    for partition in range(4):
        values = [f"{number}-{partition}-{index}".encode() for index in range(5)]
        send(nodes.bootstrap, TOPIC, values, partition)
        sent.update(values)
    return sent


def test_members_keep_their_partitions_when_their_coordinator_is_killed(
    nodes: ClusterNodes,
) -> None:
    with BlockingAdmin(nodes.bootstrap) as admin:
        admin.create_topics([NewTopic(name=TOPIC, partition_count=4, replication_factor=3)])
    nodes.wait_until_whole(TOPIC)
    expected = send_round(nodes, 0)
    readers = [Reader(nodes.bootstrap, TOPIC, GROUP) for _ in range(2)]
    poll_until(
        lambda: all(len(reader.partitions) == 2 for reader in readers),
        "each has two partitions",
        *readers,
    )

    def has_read() -> bool:
        return {value for reader in readers for value in reader.values} == expected

    poll_until(has_read, "the first round is read", *readers)
    before = [reader.partitions for reader in readers]
    coordinator = nodes.coordinator_of(GROUP)
    nodes.kill(coordinator)
    expected |= send_round(nodes, 1)
    poll_until(has_read, "the second round is read without the coordinator of before", *readers)
    assert [reader.partitions for reader in readers] == before
    for reader in readers:
        reader.consumer.commit(asynchronous=False)
    nodes.start(coordinator)
    readers.pop().close()
    (reader,) = readers
    poll_until(
        lambda: len(reader.partitions) == 4, "the one that stays takes everything over", reader
    )
    assert sorted(reader.values) == sorted(set(reader.values)), (
        "what the other one committed is not read again"
    )
    reader.close()


class OurReader(Reader):
    """A reader by our own client."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.consumer = BlockingConsumer(
            bootstrap,
            group_id=group,
            group_protocol="consumer",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.consumer.__enter__()
        self.consumer.subscribe([topic])
        self.values: list[bytes] = []

    def poll(self) -> None:
        self.values += [record.value for record in self.consumer.poll(timeout_ms=50)]

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment}


def test_our_members_go_on_when_their_coordinator_is_killed(nodes: ClusterNodes) -> None:
    group = "orders-auditors"
    readers = [OurReader(nodes.bootstrap, TOPIC, group) for _ in range(2)]
    poll_until(
        lambda: all(len(reader.partitions) == 2 for reader in readers),
        "each has two partitions",
        *readers,
    )
    before = [reader.partitions for reader in readers]
    coordinator = nodes.coordinator_of(group)
    nodes.kill(coordinator)
    sent = send_round(nodes, 2)
    poll_until(
        lambda: sent <= {value for reader in readers for value in reader.values},
        "the round is read",
        *readers,
    )
    assert [reader.partitions for reader in readers] == before
    for reader in readers:
        reader.consumer.commit()
    nodes.start(coordinator)
    readers.pop().consumer.__exit__(None, None, None)
    (reader,) = readers
    poll_until(
        lambda: len(reader.partitions) == 4, "the one that stays takes everything over", reader
    )
    reader.consumer.__exit__(None, None, None)
