"""The broker of an installation: its properties, and where its metrics are."""

import socket
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from log_service.common.errors import ConfigError
from log_service.config.server import parse_server_properties
from log_service.supervisor.authority import CERTIFICATE_FILE
from log_service.supervisor.components import (
    BROKER,
    METRICS_PORT,
    broker_component,
    external_broker,
    metrics_port_of,
    service_context,
)
from log_service.supervisor.protection import protect
from log_service.supervisor.spec import ServiceContext
from tests.helpers.ports import free_ports


def context(tmp_path: Path, metrics_port: int | None) -> ServiceContext:
    return ServiceContext(
        data_directory=tmp_path,
        project_directory=tmp_path,
        host="127.0.0.1",
        bootstrap_servers="127.0.0.1:9092",
        ui_port=1,
        spark_port=2,
        metrics_port=metrics_port,
    )


def properties(tmp_path: Path) -> str:
    return (tmp_path / "broker" / "server.properties").read_text()


def test_the_broker_tells_where_its_metrics_are(tmp_path: Path) -> None:
    component = broker_component(context(tmp_path, 9404))
    assert component.metrics_url == "http://127.0.0.1:9404/metrics"
    assert "metrics.listener=127.0.0.1:9404\n" in properties(tmp_path)


def test_a_person_s_own_listener_wins(tmp_path: Path) -> None:
    assert (
        broker_component(context(tmp_path, 9404), ["metrics.listener=127.0.0.1:1234"]).metrics_url
        == "http://127.0.0.1:1234/metrics"
    )
    assert broker_component(context(tmp_path, 9404), ["metrics.listener="]).metrics_url == ""


def test_only_the_owner_reads_the_properties_that_a_person_adds(tmp_path: Path) -> None:
    """A login module among them holds passwords. A file of an earlier start, which others may read,
    is closed, too.
    """
    (tmp_path / "broker").mkdir()
    path = tmp_path / "broker" / "server.properties"
    path.write_text("")
    path.chmod(0o644)
    broker_component(context(tmp_path, None), ["listener.name.a.plain.sasl.jaas.config=planted"])
    assert "planted" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_port_there_is_no_page(tmp_path: Path) -> None:
    assert broker_component(context(tmp_path, None)).metrics_url == ""
    assert "metrics.listener" not in properties(tmp_path)
    assert metrics_port_of("127.0.0.1", 0) is None


def test_another_installation_on_the_usual_port_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("log_service.supervisor.components.METRICS_PORT", port)
        found = metrics_port_of("127.0.0.1", None)
        assert found is not None
        assert found != port
        with pytest.raises(
            ConfigError,
            match=f"the metrics page cannot listen on 127.0.0.1:{port} .*--metrics-port",
        ):
            metrics_port_of("127.0.0.1", port)
    assert METRICS_PORT == 9404


def test_an_installation_of_one_s_own_has_no_metrics_unless_it_asks(tmp_path: Path) -> None:
    ports = free_ports(3)
    made = service_context(
        data=tmp_path,
        project=tmp_path,
        host="127.0.0.1",
        broker_port=ports[0],
        ui_port=ports[1],
        spark_port=ports[2],
    )
    assert made.metrics_port is None


def test_a_host_that_is_not_this_machine_s_is_blamed_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--host 300\.1\.1\.1 is not an address of this machine"):
        service_context(
            data=tmp_path,
            project=tmp_path,
            host="300.1.1.1",
            broker_port=1,
            ui_port=2,
            spark_port=3,
        )


def test_a_cluster_and_a_spark_of_the_user_s_own_need_no_ports(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        made = service_context(
            data=tmp_path,
            project=tmp_path,
            host="127.0.0.1",
            broker_port=port,
            ui_port=free_ports(1)[0],
            spark_port=port,
            bootstrap_servers="kafka-1:9092,kafka-2:9092",
            spark_remote="sc://spark:15002",
        )
    assert (made.bootstrap_servers, made.is_broker_external, made.metrics_port) == (
        "kafka-1:9092,kafka-2:9092",
        True,
        None,
    )
    assert external_broker(made).is_external
    with pytest.raises(
        ConfigError, match=r"TIDELOG_BOOTSTRAP_SERVERS .* is 'a:b': it has to be host:port"
    ):
        service_context(
            data=tmp_path,
            project=tmp_path,
            host="127.0.0.1",
            broker_port=1,
            ui_port=2,
            spark_port=3,
            bootstrap_servers="a:b",
        )


def test_all_occupied_ports_are_named_at_once(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        broker, page, spark = one.getsockname()[1], other.getsockname()[1], free_ports(1)[0]
        with pytest.raises(ConfigError) as refused:
            service_context(
                data=tmp_path,
                project=tmp_path,
                host="127.0.0.1",
                broker_port=broker,
                ui_port=page,
                spark_port=spark,
            )
    assert [line.rpartition(" ")[2] for line in str(refused.value).splitlines()] == [
        "--broker-port",
        "--ui-port",
    ]


def test_without_the_platform_its_ports_may_be_another_installation_s(tmp_path: Path) -> None:
    broker = free_ports(1)[0]
    with (
        socket.create_server(("127.0.0.1", 0)) as page,
        socket.create_server(("127.0.0.1", 0)) as spark,
    ):
        taken = {"ui_port": page.getsockname()[1], "spark_port": spark.getsockname()[1]}
        with pytest.raises(
            ConfigError,
            match=r"the Dagster UI cannot listen on .*\n.*the Spark server cannot listen on",
        ):
            service_context(
                data=tmp_path, project=tmp_path, host="127.0.0.1", broker_port=broker, **taken
            )
        made = service_context(
            data=tmp_path,
            project=tmp_path,
            host="127.0.0.1",
            broker_port=broker,
            has_platform=False,
            **taken,
        )
    assert made.bootstrap_servers == f"127.0.0.1:{broker}"


@pytest.mark.parametrize(
    ("host", "reached"),
    [("127.0.0.1", "127.0.0.1"), ("10.1.2.3", "10.1.2.3"), ("0.0.0.0", "127.0.0.1")],
)
def test_the_broker_asks_the_registry_of_its_installation(
    tmp_path: Path, host: str, reached: str
) -> None:
    broker_component(replace(context(tmp_path, None), host=host, registry_port=8081))
    assert f"confluent.schema.registry.url=http://{reached}:8081\n" in properties(tmp_path)
    broker_component(context(tmp_path, None))
    assert "confluent." not in properties(tmp_path)


def test_a_secured_broker_shows_the_registry_its_own_certificate(tmp_path: Path) -> None:
    protection = protect(tmp_path, "127.0.0.1", [BROKER])
    broker_component(replace(context(tmp_path, None), registry_port=8081), protection=protection)
    config, _ = parse_server_properties(properties(tmp_path))
    registry = config.schema_registry
    assert registry is not None
    assert registry.urls == ("https://127.0.0.1:8081",)
    assert registry.tls is not None
    own, authority = protection.directory / "nodes" / "broker.pem", protection.directory
    assert registry.tls.keystore_location == str(own)
    assert registry.tls.truststore_location == str(authority / CERTIFICATE_FILE)
    protection.write_login_file([])
    assert "User:node" in protection.registry_properties()["super.users"]
