"""Probes ask for a response: what only accepts connections, as the system does for a process that is stopped, is not ready."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from log_service.supervisor import readiness
from log_service.supervisor.readiness import is_ready
from log_service.supervisor.spec import HeartbeatReadiness, Http2Readiness, HttpReadiness, KafkaReadiness, Readiness
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
