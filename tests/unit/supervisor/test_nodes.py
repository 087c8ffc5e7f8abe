"""The nodes of an installation: roles, ports, properties files, and what grows and what does not."""

import socket
import stat
from pathlib import Path

import pytest

from log_service.common.errors import ConfigError, StorageError
from log_service.config.properties import parse_properties
from log_service.supervisor.nodes import (
    CLUSTER_FILE,
    ClusterSpec,
    NodeFactory,
    bootstrap_servers,
    check_node_ports,
    cluster_of,
    new_cluster,
    properties_of,
    read_cluster,
    refuse_factors,
    write_cluster,
)
from log_service.supervisor.spec import KafkaReadiness, ServiceContext


def context(directory: Path, metrics_port: int | None = None) -> ServiceContext:
    return ServiceContext(
        data_directory=directory,
        project_directory=directory,
        host="127.0.0.1",
        bootstrap_servers="",
        ui_port=0,
        spark_port=0,
        metrics_port=metrics_port,
    )


def properties(directory: Path, name: str) -> dict[str, str]:
    return dict(parse_properties((directory / name / "server.properties").read_text()))


@pytest.mark.parametrize(
    ("count", "controllers"), [(1, [1]), (2, [1]), (3, [1, 2, 3]), (5, [1, 2, 3])]
)
def test_three_nodes_are_controllers_where_there_are_three(
    count: int, controllers: list[int]
) -> None:
    cluster = new_cluster(count, "id")
    assert [node.node_id for node in cluster.nodes if node.is_controller] == controllers
    assert [node.name for node in cluster.nodes] == [
        "broker",
        "broker2",
        "broker3",
        "broker4",
        "broker5",
    ][:count]


def test_every_node_has_a_file_of_kafkas_properties(tmp_path: Path) -> None:
    factory = NodeFactory(
        context=context(tmp_path), first_port=9092, overrides=("num.partitions=7",)
    )
    components = factory.components(new_cluster(4, "c", rack="host-a"))
    assert {
        stat.S_IMODE((tmp_path / each.name / "server.properties").stat().st_mode)
        for each in components
    } == {0o600}
    assert [component.name for component in components] == [
        "broker",
        "broker2",
        "broker3",
        "broker4",
    ]
    assert components[1].readiness == KafkaReadiness(bootstrap_servers="127.0.0.1:9093")
    second, fourth = properties(tmp_path, "broker2"), properties(tmp_path, "broker4")
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.1:10093"
    assert (fourth["process.roles"], fourth["listeners"]) == (
        "broker",
        "PLAINTEXT://127.0.0.1:9095",
    )
    for each in (second, fourth):
        assert (
            each["controller.quorum.voters"]
            == "1@127.0.0.1:10092,2@127.0.0.1:10093,3@127.0.0.1:10094"
        )
        assert (each["cluster.id"], each["broker.rack"], each["num.partitions"]) == (
            "c",
            "host-a",
            "7",
        )


@pytest.mark.parametrize(
    ("count", "factor", "min_isr"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_factors_of_internal_topics_fit(
    tmp_path: Path, count: int, factor: str, min_isr: str
) -> None:
    NodeFactory(context=context(tmp_path), first_port=9092).components(new_cluster(count, "c"))
    found = properties(tmp_path, "broker")
    assert (
        found["offsets.topic.replication.factor"]
        == found["transaction.state.log.replication.factor"]
        == factor
    )
    assert found["share.coordinator.state.topic.replication.factor"] == factor
    assert (
        found["transaction.state.log.min.isr"]
        == found["share.coordinator.state.topic.min.isr"]
        == min_isr
    )


def test_an_installation_keeps_its_nodes_and_grows_but_does_not_shrink(tmp_path: Path) -> None:
    assert cluster_of(tmp_path, None, None) is None
    made = cluster_of(tmp_path, 3, "a")
    assert made is not None
    write_cluster(tmp_path, made)
    assert read_cluster(tmp_path) == made
    assert cluster_of(tmp_path, None, None) == made
    grown = cluster_of(tmp_path, 4, None)
    assert grown is not None
    assert (grown.cluster_id, grown.rack, grown.nodes[-1].roles) == (made.cluster_id, "a", "broker")
    with pytest.raises(
        ConfigError, match="has 3 brokers, which is more than 2: take one away while it runs"
    ):
        cluster_of(tmp_path, 2, None)


def test_nodes_of_a_new_installation_stand_in_the_rack_of_their_host(tmp_path: Path) -> None:
    made = cluster_of(tmp_path, 3, None)
    assert made is not None
    assert made.rack == socket.gethostname()
    properties = properties_of(
        made, made.nodes[2], host="127.0.0.1", first_port=9092, logs=tmp_path, metrics=None
    )
    assert properties["broker.rack"] == socket.gethostname()
    without = cluster_of(tmp_path, 3, "")
    assert without is not None
    assert without.rack == ""
    write_cluster(tmp_path, without)
    assert cluster_of(tmp_path, 4, None) == without.with_one_more(), (
        "an older installation has none, and keeps none"
    )


def test_the_id_of_a_node_that_left_is_not_given_again() -> None:
    cluster = new_cluster(3, "c").with_one_more().with_one_more().without(5)
    assert [node.node_id for node in cluster.with_one_more().nodes] == [1, 2, 3, 4, 6]
    with pytest.raises(ConfigError, match="node 2 is a controller"):
        cluster.without(2)
    with pytest.raises(ConfigError, match="no node 5; it has 1, 2, 3, 4"):
        cluster.without(5)


def test_a_broker_that_was_started_alone_is_not_joined(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    with pytest.raises(ConfigError, match="started without --brokers"):
        cluster_of(tmp_path, 3, None)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cluster_id": "c", "nodes": [{"node": 1}], "next_node_id": 2}']
)
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / CLUSTER_FILE).write_text(text)
    with pytest.raises(StorageError, match=r"cluster\.json does not tell the nodes"):
        read_cluster(tmp_path)


def test_clients_are_told_all_nodes() -> None:
    assert bootstrap_servers(new_cluster(3, "c"), "h", 9092) == "h:9092,h:9093,h:9094"


def test_occupied_and_impossible_ports_are_refused() -> None:
    cluster: ClusterSpec = new_cluster(3, "c")
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"broker2 cannot listen on 127.0.0.1:{taken} .*--broker-port"
        ):
            check_node_ports(cluster, "127.0.0.1", taken - 1)
    with pytest.raises(ConfigError, match="the controller of broker would listen on port 66534"):
        check_node_ports(cluster, "127.0.0.1", 65_534)


def test_more_replicas_than_brokers_are_refused_at_once() -> None:
    """The nodes would start.

    Each topic that is created, or each consumer group, would be refused or wait for ever.
    """
    wanted = (
        "default.replication.factor=4",
        "min.insync.replicas = 5",
        "offsets.topic.replication.factor=3",
        "num.partitions=9",
    )
    with pytest.raises(ConfigError) as refused:
        refuse_factors(wanted, 3)
    assert str(refused.value).startswith(
        "default.replication.factor=4, min.insync.replicas=5: there are 3 brokers, and a partition has at most"
    )
    assert str(refused.value).endswith("set at most 3, or run more brokers with --brokers N")
    refuse_factors(wanted, 5)
    refuse_factors(
        (
            "default.replication.factor=many",
            "default.replication.factor=9",
            "default.replication.factor=1",
        ),
        1,
    )
    with pytest.raises(ConfigError, match="there is 1 broker"):
        refuse_factors(("default.replication.factor=2",), 1)
