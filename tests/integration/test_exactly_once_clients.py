"""Other people's clients copy and total one source exactly once.

Nodes and clients are killed meanwhile.

The same on three nodes, and in a long run on one, which is killed and started again over its
directory. Java's and Go's copiers are members of groups of the consumer protocol, Java's second one
and Python's of classic groups. Kafka Streams keeps its totals in two instances, once in a classic
group and once in a streams group (KIP-1071); one of the two processes is killed in the middle of
its transactions. In the end each copy is the source, record by record, and each running total is
the next one of its key.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.chaos.load import Client
from tests.helpers.broker_process import ALONE
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG
from tests.integration.clients_of_a_cluster import franz_go
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.copiers import AiokafkaCopier, Copier, CopyWatch, Place, ProgramCopier
from tests.integration.streams_programs import streams_program

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

SOURCE = "source"
PARTITIONS = 3
PLACES: Mapping[Place, int] = {(SOURCE, index): index for index in range(PARTITIONS)}
TOTALS, NEWER_TOTALS, CUT = "totals", "newer-totals", "streams-2"
JAVA_COPIERS = ("java-consumer", "java-classic")
COPIES = ("aiokafka", "franz-go", *JAVA_COPIERS)
PAUSE_SECONDS = of_a_run(0.1, whole=0.04)
PATIENCE_SECONDS = 180.0
STEP = 10
"""So many more records of each copy have to be committed after each blow."""
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "3",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
}


class Feed(Client):
    """Writes numbers to the partitions in turn; the keys of a partition are its own."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__("the feed")
        self.bootstrap = bootstrap
        self.sent: dict[int, list[tuple[bytes, bytes]]] = {index: [] for index in range(PARTITIONS)}

    @property
    def count(self) -> int:
        """How many records there are."""
        return sum(map(len, self.sent.values()))

    def work(self) -> None:
        with BlockingProducer(self.bootstrap, linger_ms=2, delivery_timeout_ms=600_000) as producer:
            number = 0
            while not self.stopping.wait(PAUSE_SECONDS):
                partition = number % PARTITIONS
                key, value = b"key %d of %d" % (number % 2, partition), b"%d" % number
                producer.send(SOURCE, value, key=key, partition=partition)
                self.sent[partition].append((key, value))
                number += 1


@dataclass(slots=True)
class Outcome:
    """The sent records, the records of each copy, and the complaints of each client."""

    sent: dict[int, list[tuple[bytes, bytes]]]
    seen: dict[Place, list[tuple[bytes | None, bytes | None]]]
    missing: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def skip_unless(self, name: str) -> None:
        """Skip the test of a client that is not here."""
        if name in self.missing:
            pytest.skip(self.missing[name])


def programs(nodes: ClusterNodes, folder: Path, missing: dict[str, str]) -> list[Copier]:
    """Return the copiers in Go and Java, and the two instances of Kafka Streams, as far as they are
    here.
    """
    copiers: list[Copier] = []
    try:
        (program,) = franz_go(folder)
        command = [program, "copy", nodes.bootstrap, SOURCE, "franz-go", "franz-go"]
        copiers.append(ProgramCopier("franz-go", nodes.bootstrap, PLACES, "franz-go", command))
    except pytest.skip.Exception as reason:
        missing["franz-go"] = str(reason)
    try:
        java = streams_program("ExactlyOnce", folder)
    except pytest.skip.Exception as reason:
        missing.update(dict.fromkeys([*JAVA_COPIERS, TOTALS, NEWER_TOTALS], str(reason)))
        return copiers
    copying = [
        word
        for name in JAVA_COPIERS
        for word in ("copy", SOURCE, name, name, name.removeprefix("java-"))
    ]
    for name, jobs in (("streams-1", copying), (CUT, [])):
        totals = ["total", SOURCE, TOTALS, TOTALS, str(folder / name)]
        newer = ["newer-total", SOURCE, NEWER_TOTALS, NEWER_TOTALS, str(folder / f"newer-{name}")]
        copiers.append(
            ProgramCopier(
                name,
                nodes.bootstrap,
                PLACES,
                TOTALS,
                [*java, nodes.bootstrap, *jobs, *totals, *newer],
            )
        )
    return copiers


@pytest.fixture(
    scope="module",
    params=[pytest.param(1, marks=pytest.mark.repeats), 3],
    ids=["one node", "three nodes"],
)
def outcome(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    """Let all of them work at once, with every node killed in turn."""
    size: int = request.param
    folder = tmp_path_factory.mktemp("cluster")
    properties = {**PROPERTIES, **(ALONE if size == 1 else {})}
    with ClusterNodes(TIDELOG, folder, properties, size=size) as nodes:
        missing: dict[str, str] = {}
        copiers: list[Copier] = [
            AiokafkaCopier("aiokafka", nodes.bootstrap, PLACES, "aiokafka"),
            *programs(nodes, folder, missing),
        ]
        targets = [name for name in (*COPIES, TOTALS, NEWER_TOTALS) if name not in missing]
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics(
                [NewTopic(name=name, partition_count=PARTITIONS) for name in (SOURCE, *targets)]
            )
        feed, watch = (
            Feed(nodes.bootstrap),
            CopyWatch(nodes.bootstrap, dict.fromkeys(targets, PARTITIONS)),
        )
        clients: list[Client] = [feed, watch, *copiers]
        for client in clients:
            client.start()
        try:
            strike_all(nodes, copiers, watch, targets)
            feed.stop()
            wanted = {
                name: feed.count * (2 if name in {TOTALS, NEWER_TOTALS} else 1) for name in targets
            }
            watch.wait_until(
                lambda: all(watch.count(name) >= wanted[name] for name in targets),
                copiers,
                PATIENCE_SECONDS,
                "not all was copied",
            )
            time.sleep(1)  # what is there twice would come now
        finally:
            for client in reversed(clients):
                client.stop()
        failures = [failure for client in clients for failure in client.failures]
        yield Outcome(feed.sent, watch.seen, missing, failures)


def strike_all(
    nodes: ClusterNodes, copiers: Sequence[Copier], watch: CopyWatch, targets: Sequence[str]
) -> None:
    """Kill each node in turn, and after the first one an instance of Kafka Streams.

    Each time every copy has to go on.
    """

    def go_on() -> None:
        before = {name: watch.count(name) for name in targets}
        watch.wait_until(
            lambda: all(watch.count(name) >= before[name] + STEP for name in targets),
            copiers,
            PATIENCE_SECONDS,
            f"no progress since {before}",
        )

    go_on()
    for node_id in nodes.node_ids:
        nodes.kill(node_id)
        if len(nodes.node_ids) > 1:
            go_on()
        nodes.start(node_id)
        for copier in copiers:
            if copier.name == CUT and node_id == nodes.node_ids[0]:
                assert isinstance(copier, ProgramCopier)
                copier.cut()
        go_on()
        nodes.wait_until_whole(SOURCE, *targets)


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_the_source_record_by_record(outcome: Outcome, name: str) -> None:
    outcome.skip_unless(name)
    for partition, sent in outcome.sent.items():
        assert outcome.seen[name, partition] == sent


def test_no_client_failed_for_good(outcome: Outcome) -> None:
    assert outcome.failures == []


@pytest.mark.parametrize("totals", [TOTALS, NEWER_TOTALS])
def test_kafka_streams_counts_each_record_once(outcome: Outcome, totals: str) -> None:
    """Check that every update of a total is the one after its key's last.

    A record that counted twice, or never, would show as another sequence.
    """
    outcome.skip_unless(totals)
    updates: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for key, value in outcome.seen[totals, partition]:
            updates[key].append(value)
    numbers: dict[bytes, list[int]] = defaultdict(list)
    for sent in outcome.sent.values():
        for key, value in sent:
            numbers[key].append(int(value))
    for key, each in numbers.items():
        assert updates.pop(key) == [
            b"%d:%d" % (count + 1, sum(each[: count + 1])) for count in range(len(each))
        ]
    of_all = [(value or b"").split(b":") for value in updates.pop(b"all")]
    assert [int(count) for count, _ in of_all] == list(
        range(1, sum(map(len, numbers.values())) + 1)
    )
    assert int(of_all[-1][1]) == sum(map(sum, numbers.values()))
    assert updates == {}
