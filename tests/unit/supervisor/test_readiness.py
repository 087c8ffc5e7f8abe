"""Probes ask for a response: what only accepts connections, as the system does for a process that is stopped, is not ready."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from log_service.common.errors import ConfigError
from log_service.supervisor import readiness
from log_service.supervisor.components import external_broker, service_context
from log_service.supervisor.readiness import is_ready
from log_service.supervisor.spec import HeartbeatReadiness, Http2Readiness, HttpReadiness, KafkaReadiness, Readiness
from tests.helpers.authority import Authority
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.ports import free_port


@pytest.mark.parametrize(
    "make",
    [
        lambda port: HttpReadiness(url=f"http://127.0.0.1:{port}/"),
        lambda port: Http2Readiness(host="127.0.0.1", port=port),
        lambda port: KafkaReadiness(bootstrap_servers=f"127.0.0.1:{port}"),
    ],
    ids=["http", "http2", "kafka"],
)
def test_accepting_a_connection_is_no_response(make: Callable[[int], Readiness], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "PROBE_DEADLINE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        assert not trio.run(is_ready, make(port))
    assert not trio.run(is_ready, make(free_port()))


def test_a_broker_that_responds_is_ready_under_any_of_its_addresses(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert trio.run(is_ready, KafkaReadiness(bootstrap_servers=f"127.0.0.1:{free_port()}, {broker.bootstrap}"))


def test_a_cluster_of_the_user_s_own_is_asked_as_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path / "authority")
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        **authority.issue("node").properties(),
    }
    client = tmp_path / "client.properties"
    named = {"security.protocol": "SSL", **authority.issue("orders", sans=()).properties()}
    client.write_text("\n".join(f"{key}={value}" for key, value in named.items()))
    with BrokerProcess(tmp_path / "broker", properties=properties) as broker:
        context = service_context(
            data=tmp_path,
            project=tmp_path,
            host="127.0.0.1",
            broker_port=free_port(),
            ui_port=free_port(),
            spark_port=free_port(),
            bootstrap_servers=broker.bootstrap,
        )
        assert not trio.run(is_ready, external_broker(context).readiness)
        monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(client))
        assert trio.run(is_ready, external_broker(context).readiness)
        monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(tmp_path / "none.properties"))
        with pytest.raises(ConfigError, match=r"none\.properties"):
            external_broker(context)
        broken = tmp_path / "broken.properties"
        broken.write_text(client.read_text() + f"\nssl.truststore.location={tmp_path / 'no-store.pem'}\n")
        monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(broken))
        with pytest.raises(ConfigError, match=r"no-store\.pem"):
            external_broker(context)


def test_a_grpc_server_responds_to_the_first_frame() -> None:
    grpc = pytest.importorskip("grpc", reason="needs the platform extra")
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        assert trio.run(is_ready, Http2Readiness(host="127.0.0.1", port=port))
    finally:
        server.stop(None)


def test_an_old_heartbeat_is_none(tmp_path: Path) -> None:
    alive = HeartbeatReadiness(path=tmp_path / "alive", max_age_s=30)
    assert not trio.run(is_ready, alive)
    alive.path.touch()
    assert trio.run(is_ready, alive)
    os.utime(alive.path, (time.time() - 60, time.time() - 60))
    assert not trio.run(is_ready, alive)
