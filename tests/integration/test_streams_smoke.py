"""Kafka Streams' own smoke test runs with exactly_once_v2.

Every node and an instance of the application are killed.

Its driver sends a known set of numbers for each key, and holds least, largest, sum, count,
difference, mean, joins and closed windows against what they have to be. The topology is the smoke
test's, too. An instance keeps its state in memory, so that one that was killed reads it back from
its changelogs. A long run has the sizes that Apache Kafka runs it with, two instances with two
threads each, one node and three, and both protocols of groups.
"""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from tests.chaos.load import STOP_SECONDS, Client
from tests.helpers.broker_process import ALONE
from tests.helpers.whole import of_a_run
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes
from tests.integration.copiers import CopyWatch, ProgramCopier
from tests.integration.streams_programs import streams_program

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("refused_sockets"),
]

PARTITIONS = of_a_run(2, whole=5)
KEYS, RECORDS, SECONDS = of_a_run((5, 100, 8), whole=(20, 1_000, 90))
"""How many records of each key are sent within how many seconds."""
ALL = KEYS * RECORDS
INSTANCES = THREADS = of_a_run(1, whole=2)
TOPICS = (
    *("data", "fk", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum"),
    *("sws-raw", "sws-suppressed", "cnt", "avg", "tagg"),
)
STEP = of_a_run(20, whole=300)
"""So many more records have to be counted after each blow, as long as there are some."""
PATIENCE_SECONDS = 240.0
VERIFY_SECONDS = 420.0
"""The driver itself gives up after six minutes."""
DAY_SECONDS = 86_400
MIDNIGHT_SECONDS = 600
"""The driver takes it that no window of a day ends meanwhile."""
PROPERTIES = {
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.num.partitions": "3",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "500",
}
"""The driver closes windows by records of the day after tomorrow."""


class Driver(Client):
    """Sends, and verifies; ``lines`` are what it says."""

    def __init__(self, command: list[str]) -> None:
        super().__init__("the driver")
        self.lines: list[str] = []
        self._command = command
        self._running: subprocess.Popen[str] | None = None

    def work(self) -> None:
        with subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as self._running:
            assert self._running.stdout is not None
            self.lines.extend(line.rstrip("\n") for line in self._running.stdout)
        if self._running.returncode and not self.stopping.is_set():
            self.failures.append(
                f"the driver ended with {self._running.returncode}: {self.lines[-20:]}"
            )

    @property
    def has_ended(self) -> bool:
        """Whether it has said all that it has to say."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it, if it has not ended."""
        self.stopping.set()
        if self._running is not None and self._running.poll() is None:
            self._running.kill()
            self._running.wait(STOP_SECONDS)
        super().stop()


@dataclass(slots=True)
class Outcome:
    """The driver's output, the number of records of each topic, and the failures."""

    lines: list[str]
    counts: dict[str, int]
    failures: list[str] = field(default_factory=list)


@pytest.fixture(
    scope="module",
    params=[
        (1, "streams"),
        pytest.param((1, "classic"), marks=pytest.mark.repeats),
        pytest.param((3, "streams"), marks=pytest.mark.repeats),
        pytest.param((3, "classic"), marks=pytest.mark.repeats),
    ],
    ids=lambda param: f"{'three nodes' if param[0] == 3 else 'one node'}, {param[1]}",
)
def outcome(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcome]:
    """Let driver and instances work while every node is killed in turn."""
    if time.time() % DAY_SECONDS > DAY_SECONDS - MIDNIGHT_SECONDS:
        pytest.skip(
            "midnight (UTC) is near, where windows of a day end that the smoke test takes for open: nothing was tested"
        )
    size, protocol = request.param
    folder = tmp_path_factory.mktemp("cluster")
    command = streams_program("StreamsSmoke", folder, with_tests=True)
    with ClusterNodes(
        TIDELOG, folder, {**PROPERTIES, **(ALONE if size == 1 else {})}, size=size
    ) as nodes:
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics(
                [NewTopic(name=name, partition_count=PARTITIONS) for name in TOPICS]
            )
        instances = [
            instance(f"instance-{number}", command, nodes.bootstrap, protocol, folder)
            for number in range(INSTANCES)
        ]
        driver = Driver([*command, "drive", nodes.bootstrap, str(KEYS), str(RECORDS), str(SECONDS)])
        watch = CopyWatch(nodes.bootstrap, dict.fromkeys(TOPICS, PARTITIONS))
        clients: list[Client] = [watch, *instances, driver]
        for client in clients:
            client.start()
        try:
            strike_all(nodes, instances, watch)
            watch.wait_until(
                lambda: driver.has_ended, instances, VERIFY_SECONDS, "the driver does not end"
            )
        finally:
            for client in reversed(clients):
                client.stop()
        failures = [failure for client in clients for failure in client.failures]
        yield Outcome(driver.lines, {topic: watch.count(topic) for topic in TOPICS}, failures)


def instance(
    name: str, command: list[str], bootstrap: str, protocol: str, folder: Path
) -> ProgramCopier:
    return ProgramCopier(
        name,
        bootstrap,
        {},
        "",
        [*command, "work", bootstrap, name, protocol, str(THREADS), str(folder / name)],
    )


def strike_all(nodes: ClusterNodes, instances: list[ProgramCopier], watch: CopyWatch) -> None:
    """Kill each node in turn, and an instance after the first one if there are two.

    Each time the counting has to go on.
    """

    def go_on() -> None:
        wanted = min(watch.count("echo") + STEP, ALL)
        watch.wait_until(
            lambda: watch.count("echo") >= wanted,
            instances,
            PATIENCE_SECONDS,
            f"it does not get to {wanted} records",
        )

    go_on()
    for node_id in nodes.node_ids:
        nodes.kill(node_id)
        if len(nodes.node_ids) > 1:
            go_on()
        nodes.start(node_id)
        if len(instances) > 1 and node_id == nodes.node_ids[0]:
            instances[1].cut()
        go_on()
        nodes.wait_until_whole(*TOPICS)


def test_no_client_failed_for_good(outcome: Outcome) -> None:
    assert outcome.failures == []


def test_the_smoke_test_passes(outcome: Outcome) -> None:
    assert outcome.lines[-1] == "V passed", "\n".join(outcome.lines[-60:])
    assert "ALL-RECORDS-DELIVERED" in outcome.lines
    assert "SUCCESS" in outcome.lines


def test_each_record_is_passed_on_once(outcome: Outcome) -> None:
    """The driver itself bears records that were processed twice, if their totals are right in the
    end.
    """
    assert outcome.counts["echo"] == ALL
    assert outcome.counts["data"] == ALL + PARTITIONS
