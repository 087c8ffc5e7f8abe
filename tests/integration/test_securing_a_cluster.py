"""Three nodes go from plaintext to mTLS and SCRAM as docs/security.md shows, from certificates on.

A client writes meanwhile.

Every record that was sent is acknowledged and read once, and some are acknowledged while each node
is down in each rolling restart.
"""

import re
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from log_service.client import (
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ErrorCode,
    KafkaError,
    NewTopic,
    settings_from_file,
)
from log_service.config.properties import parse_properties
from tests.helpers.documents import ROOT, Block, blocks_of
from tests.helpers.ports import free_ports
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import NODE_IDS, ClusterNodes
from tests.integration.command_line import run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
PAGE = ROOT / "docs" / "security.md"
TOPIC = "orders"
PLAIN, TLS, CONTROLLER, LOGIN, QUORUM = "9092", "9093", "9094", "9095", "9096"
PATIENCE_S = 90.0
PASSWORD = "the-password"
DENIED = {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
"""The second is what an idempotent producer is told that may write to no topic at all (KIP-679)."""


def shown() -> list[Block]:
    begin = PAGE.read_text().partition("## From plaintext to mTLS")[0].count("\n") + 1
    return [block for block in blocks_of(PAGE) if block.line > begin]


class Place:
    """The names of this test in the place of the page's.

    They are hosts and ports of nodes, and the directory of certificates.
    """

    def __init__(self, nodes: ClusterNodes, directory: Path) -> None:
        self.directory = directory
        more = iter(free_ports(3 * len(NODE_IDS)))
        self.ports: dict[tuple[str, str], str] = {}
        for node_id in NODE_IDS:
            bound = dict(
                address.split("://")
                for address in nodes.properties[node_id]["listeners"].split(",")
            )
            self.ports[str(node_id), PLAIN] = bound["PLAINTEXT"]
            self.ports[str(node_id), CONTROLLER] = bound["CONTROLLER"]
            for port in (TLS, LOGIN, QUORUM):
                self.ports[str(node_id), port] = f"127.0.0.1:{next(more)}"

    def here(self, text: str) -> str:
        text = re.sub(r"node(\d):(\d+)", lambda match: self.ports[match[1], match[2]], text)
        return text.replace("/etc/tidelog", str(self.directory))

    def make_certificates(self, block: Block) -> None:
        """Sign what the page has signed; here all nodes are dialled by one address."""
        hosts = "subjectAltName=DNS:node1,DNS:node2,DNS:node3"
        assert hosts in block.text
        commands = block.text.replace(hosts, "subjectAltName=IP:127.0.0.1").replace(
            "/etc/tidelog", str(self.directory)
        )
        subprocess.run(["bash", "-ec", commands], check=True, capture_output=True)

    def servers(self, port: str) -> str:
        return ",".join(self.ports[str(node_id), port] for node_id in NODE_IDS)

    def properties(self, block: Block, node_id: int) -> dict[str, str]:
        texts = parse_properties(block.text)
        if "listeners" in texts:
            texts["listeners"] = texts["listeners"].replace("node1", f"node{node_id}")
        return {name: self.here(text) for name, text in texts.items()}


class Writer:
    """Writes numbers without a pause until its block ends.

    ``acknowledged`` counts those that the cluster has taken.
    """

    def __init__(self, servers: str, first: int, **settings: Any) -> None:
        self._servers, self._settings = servers, settings
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._first = first
        self.sent = self.acknowledged = 0
        self.errors: list[KafkaError] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        with BlockingProducer(self._servers, **self._settings) as producer:
            while not self._ended.wait(0.02):
                producer.send(TOPIC, str(self._first + self.sent).encode(), on_delivery=self._note)
                self.sent += 1
            producer.flush()

    def _note(self, _metadata: object, error: KafkaError | None) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.errors.append(error)

    def wait_for_more(self, what: str) -> None:
        before = self.sent
        until(lambda: self.acknowledged > before or bool(self.errors), f"records are taken {what}")
        assert not self.errors, self.errors


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def is_whole(servers: str, settings: dict[str, Any]) -> bool:
    try:
        with BlockingAdmin(servers, default_api_timeout_ms=5_000, **settings) as admin:
            nodes = {node.node_id for node in admin.describe_cluster().nodes}
            told = admin.describe_topics([TOPIC])[TOPIC]
    except KafkaError:
        return False
    return nodes == set(NODE_IDS) and all(
        set(each.isr) == set(NODE_IDS) for each in told.partitions
    )


def is_back(nodes: ClusterNodes, node_id: int, asked: tuple[str, dict[str, Any]]) -> bool:
    assert nodes.ended_by_itself(node_id) is None, nodes.log(node_id)[-3_000:]
    return is_whole(*asked)


def roll(
    nodes: ClusterNodes,
    place: Place,
    block: Block,
    writer: Writer,
    asked: tuple[str, dict[str, Any]],
) -> None:
    for node_id in NODE_IDS:
        nodes.stop(node_id)
        writer.wait_for_more(f"without node {node_id}")
        nodes.properties[node_id].pop("advertised.listeners", None)
        nodes.properties[node_id] |= place.properties(block, node_id)
        nodes.launch(node_id)
        until(partial(is_back, nodes, node_id, asked), f"node {node_id} is back as {block} says")
        writer.wait_for_more(f"with node {node_id} as {block} says")


@contextmanager
def cluster(directory: Path, certificates: Block) -> Iterator[tuple[ClusterNodes, Place]]:
    nodes = ClusterNodes(TIDELOG, directory)
    place = Place(nodes, directory / "etc")
    place.directory.mkdir()
    place.make_certificates(certificates)
    with nodes:
        yield nodes, place


def test_a_cluster_becomes_secure_while_a_client_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed, listeners, inside, commands, certificate, password, closed = shown()
    monkeypatch.chdir(tmp_path)
    with cluster(tmp_path, signed) as (nodes, place):
        own = place.here(certificate.text)
        Path("shop.properties").write_text(own)
        Path("operator.properties").write_text(own.replace("shop.pem", "operator.pem"))
        Path("billing.properties").write_text(place.here(password.text))
        Path("billing.txt").write_text(PASSWORD)
        shop, operator, billing = (
            settings_from_file(f"{name}.properties") for name in ("shop", "operator", "billing")
        )
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics([NewTopic(name=TOPIC, partition_count=3, replication_factor=3)])
        with Writer(place.servers(PLAIN), 0) as open_writer:
            roll(nodes, place, listeners, open_writer, (place.servers(PLAIN), {}))
            roll(nodes, place, inside, open_writer, (place.servers(PLAIN), {}))
            with (
                BlockingProducer(place.servers(TLS), **shop) as producer,
                pytest.raises(KafkaError) as caught,
            ):
                producer.send(TOPIC, b"too early").wait()
            assert caught.value.code in DENIED
            for command in commands.commands:
                finished = run(shlex.split(command)[1:], bootstrap=place.servers(TLS))
                assert finished.exit_code == 0, (command, finished.errors)
                assert not finished.errors, "a listener takes logins: no warning"
        with Writer(place.servers(TLS), open_writer.sent, **shop) as writer:
            roll(nodes, place, closed, writer, (place.servers(TLS), operator))
        assert (open_writer.errors, writer.errors) == ([], [])
        assert read(place.servers(LOGIN), open_writer.sent + writer.sent, billing) == list(
            range(open_writer.sent + writer.sent)
        )
        assert not is_whole(place.servers(PLAIN), {}), "no one is let in in the clear"
        with (
            BlockingProducer(place.servers(LOGIN), **billing) as producer,
            pytest.raises(KafkaError) as caught,
        ):
            producer.send(TOPIC, b"not allowed").wait()
        assert caught.value.code in DENIED


def read(servers: str, count: int, settings: dict[str, Any]) -> list[int]:
    """Return the numbers in the topic, in order of size, once there are so many."""
    found: list[int] = []
    with BlockingConsumer(
        servers, group_id="billing", auto_offset_reset="earliest", **settings
    ) as consumer:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [int(record.value or b"-1") for record in consumer.poll(timeout_ms=500)]
    return sorted(found)
