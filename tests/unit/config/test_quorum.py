"""Roles, voters and the listeners of controllers have a meaning together."""

from dataclasses import fields

import pytest

from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.config.views import NodeConfig, QuorumConfig, QuorumServer

VOTERS = "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093\n"
LISTENERS = "listeners=PLAINTEXT://h:9092,CONTROLLER://h:9093\n"


def parse(text: str) -> NodeConfig:
    return parse_server_properties("node.id=1\n" + text)[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("process.roles=broker,broker", "process.roles names a role twice"),
        ("process.roles=broker", "no controller is named; set controller.quorum.bootstrap.servers"),
        (f"process.roles=broker\n{VOTERS}", "names node 1, this node, but process.roles is broker"),
        (
            f"process.roles=broker\ncontroller.quorum.bootstrap.servers=a:1\n{LISTENERS}",
            "CONTROLLER, a listener of the controller, but",
        ),
        (
            f"process.roles=controller\n{LISTENERS}",
            "listeners names PLAINTEXT, which controller.listener.names does not",
        ),
        ("process.roles=controller", "listeners names no listener of the controller"),
        (VOTERS, "add CONTROLLER://host:port to listeners"),
        ("controller.quorum.bootstrap.servers=a:1,b:2", "add CONTROLLER://host:port to listeners"),
        (
            f"controller.quorum.voters=2@a:1,3@b:2\n{LISTENERS}",
            "names node 2, 3, but this is node 1, a controller",
        ),
        (f"controller.quorum.voters=1@a:1,1@b:2\n{LISTENERS}", "names node 1 twice"),
        ("controller.quorum.voters=a:1", "not id@host:port"),
        (
            "controller.quorum.bootstrap.servers=other:9093",
            "names a controller at other:9093, but listeners has no listener for controllers",
        ),
        ("controller.quorum.voters=1@a:99999", "above 65535"),
        ("controller.quorum.bootstrap.servers=here", "not host:port"),
        (
            f"{VOTERS}{LISTENERS}inter.broker.listener.name=CONTROLLER",
            "a listener of the controller; name one of PLAINTEXT",
        ),
    ],
)
def test_a_node_that_could_not_take_part_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    assert named in str(raised.value)


def test_voters_are_read_in_the_order_of_their_ids() -> None:
    node = parse("controller.quorum.voters=3@c:9093,1@[::1]:9094,2@b:9095\n" + LISTENERS)
    assert node.quorum.voters == (
        QuorumServer(1, "::1", 9094),
        QuorumServer(2, "b", 9095),
        QuorumServer(3, "c", 9093),
    )
    assert (node.is_broker, node.is_controller, node.is_alone) == (True, True, False)


def test_servers_whose_ids_are_not_known_are_numbered_as_kafka_numbers_them() -> None:
    node = parse("process.roles=broker\ncontroller.quorum.bootstrap.servers=a:1,b:2")
    assert node.quorum.bootstrap_servers == (QuorumServer(-2, "a", 1), QuorumServer(-3, "b", 2))
    assert (node.is_broker, node.is_controller, node.is_alone) == (True, False, False)


def test_a_controller_without_a_broker_has_no_listener_for_clients() -> None:
    node = parse(f"process.roles=controller\n{VOTERS}listeners=CONTROLLER://h:9093")
    assert (node.is_broker, node.is_controller, node.listeners) == (False, True, ())


def test_controllers_talk_on_the_first_of_their_listeners() -> None:
    node = parse(
        "controller.listener.names=INNER,OUTER\nlisteners=PLAINTEXT://h:9092,OUTER://h:9094,INNER://h:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,OUTER:PLAINTEXT"
    )
    assert [listener.name for listener in node.controller_listeners] == ["INNER", "OUTER"]
    assert node.quorum.listener_name == "INNER"


def test_a_lone_controller_without_a_listener_of_its_own_is_known_by_one_of_its_broker() -> None:
    assert (
        parse(
            "listeners=OUTSIDE://h:9092\nlistener.security.protocol.map=OUTSIDE:PLAINTEXT"
        ).quorum.listener_name
        == "OUTSIDE"
    )
    assert parse(LISTENERS).quorum.listener_name == "CONTROLLER"


@pytest.mark.parametrize(
    ("text", "is_alone"),
    [
        ("", True),
        ("controller.quorum.bootstrap.servers=localhost:9093", True),
        (LISTENERS, True),
        (LISTENERS + "controller.quorum.voters=1@h:9093", True),
        (LISTENERS + "controller.quorum.bootstrap.servers=h:9093", True),
        (
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093\ncontroller.quorum.bootstrap.servers=localhost:9093",
            True,
        ),
        (LISTENERS + "controller.quorum.bootstrap.servers=other:9093", False),
        (LISTENERS + "controller.quorum.bootstrap.servers=h:9093,other:9093", False),
        (LISTENERS + VOTERS, False),
        ("process.roles=controller\nlisteners=CONTROLLER://h:9093", False),
    ],
)
def test_a_fresh_node_begins_a_cluster_of_its_own_where_its_quorum_names_no_other(
    text: str, *, is_alone: bool
) -> None:
    assert parse(text).is_alone is is_alone


def test_times_and_sizes_of_the_quorum_reach_their_view() -> None:
    keys = {
        "controller.quorum.election.timeout.ms": "election_timeout_ms",
        "controller.quorum.fetch.timeout.ms": "fetch_timeout_ms",
        "controller.quorum.election.backoff.max.ms": "election_backoff_max_ms",
        "controller.quorum.request.timeout.ms": "request_timeout_ms",
        "controller.quorum.retry.backoff.ms": "retry_backoff_ms",
        "controller.quorum.fetch.max.bytes": "fetch_max_bytes",
        "controller.quorum.fetch.snapshot.max.bytes": "snapshot_max_bytes",
        "metadata.max.idle.interval.ms": "max_idle_interval_ms",
        "node.death.grace.ms": "death_grace_ms",
    }
    quorum = parse(
        "\n".join(f"{key}={number}" for number, key in enumerate(keys, 71))
        + "\ncontroller.quorum.auto.join.enable=true"
    ).quorum
    assert [getattr(quorum, name) for name in keys.values()] == list(range(71, 71 + len(keys)))
    assert quorum.is_auto_join_enabled
    unset = {
        "voters",
        "bootstrap_servers",
        "listener_name",
        "fetch_max_wait_ms",
        "is_auto_join_enabled",
    }
    assert {field.name for field in fields(QuorumConfig)} - unset == set(keys.values())
