"""Listeners are on real sockets.

The tests have IPv6, every address, ports that the system chooses, and Kafka's own tools at the
controller's listener.
"""

import socket
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from log_service.protocol.messages.describe_cluster import DescribeClusterRequest
from log_service.protocol.messages.metadata import MetadataRequest
from tests.helpers.broker_process import BrokerThread
from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there
from tests.integration.wire import Wire

pytestmark = pytest.mark.integration
MAP = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(
    not has_ipv6(), reason="this machine has no IPv6 loopback: nothing was tested over IPv6"
)


def brokers_of(host: str, port: int) -> list[tuple[str, int]]:
    with socket.create_connection((host, port), 5):
        pass
    client = AdminClient(
        {"bootstrap.servers": f"[{host}]:{port}" if ":" in host else f"{host}:{port}"}
    )
    return [
        (str(broker.host), broker.port)
        for broker in client.list_topics(timeout=10).brokers.values()
    ]


@needs_ipv6
def test_ipv6_loopback(tmp_path: Path) -> None:
    with BrokerThread(tmp_path, properties={"listeners": "PLAINTEXT://[::1]:0"}) as broker:
        host, port = broker.broker.address
        assert host == "::1"
        assert brokers_of(host, port) == [("::1", port)]


@needs_ipv6
@pytest.mark.parametrize("bound", ["", "[::]"])
def test_every_address_is_both_families(tmp_path: Path, bound: str) -> None:
    properties = {
        "listeners": f"PLAINTEXT://{bound}:0",
        "advertised.listeners": "PLAINTEXT://localhost:0",
    }
    with BrokerThread(tmp_path, properties=properties) as broker:
        host, port = broker.broker.address
        assert host == "localhost"
        assert brokers_of("127.0.0.1", port) == brokers_of("::1", port) == [("localhost", port)]


def test_listeners_have_ports_of_their_own_and_tell_their_own_addresses(tmp_path: Path) -> None:
    properties = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://0.0.0.0:0,CONTROLLER://127.0.0.1:0",
        "advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://outside.example:19092",
        "listener.security.protocol.map": MAP,
        "inter.broker.listener.name": "INSIDE",
    }
    with BrokerThread(tmp_path, properties=properties) as broker:
        inside = broker.broker.addresses["INSIDE"]
        assert inside[1] > 0
        with Wire(f"{inside[0]}:{inside[1]}") as wire:
            assert [
                (each.host, each.port)
                for each in wire.ask(MetadataRequest(topics=None), 12).brokers
            ] == [inside]
        assert broker.broker.addresses["OUTSIDE"] == ("outside.example", 19092)
        assert broker.broker.controller_address is not None
        host, port = broker.broker.controller_address
        with Wire(f"{host}:{port}") as wire:
            answer = wire.ask(DescribeClusterRequest(endpoint_type=2), 1)
            assert [(each.host, each.port) for each in answer.brokers] == [(host, port)]


CONFIGS = ("kafka.admin.ConfigCommand", "--bootstrap-controller", "{}", "--entity-type", "brokers")
TOOLS = [
    (
        (
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "--bootstrap-controller",
            "{}",
            "describe",
            "--status",
        ),
        "HighWatermark: ",
    ),
    (
        ("org.apache.kafka.tools.ClusterTool", "list-endpoints", "--bootstrap-controller", "{}"),
        "controller",
    ),
    ((*CONFIGS, "--entity-name", "1", "--describe", "--all"), "log.retention.hours=168"),
    (
        (*CONFIGS, "--entity-default", "--alter", "--add-config", "log.retention.ms=5000"),
        "Completed updating default config for brokers",
    ),
]


@pytest.mark.parametrize(("arguments", "said"), TOOLS)
def test_kafkas_own_tools_ask_the_controller(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    skip_unless_kafka_is_there()
    properties = {
        "listeners": "INSIDE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": MAP,
    }
    with BrokerThread(tmp_path, properties=properties) as broker:
        assert broker.broker.controller_address is not None
        host, port = broker.broker.controller_address
        command = [*java_command(), *(argument.format(f"{host}:{port}") for argument in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert said in done.stdout, done.stdout + done.stderr
