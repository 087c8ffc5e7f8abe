"""Probes ask for a response.

A process that is stopped only accepts connections, as the system does for it, and is not ready.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import trio

from log_service.common.errors import ConfigError
from log_service.supervisor import readiness
from log_service.supervisor.components import external_broker, service_context
from log_service.supervisor.grpc_call import FRAME_HEADER_BYTES, PREFACE, SETTINGS, frame
from log_service.supervisor.readiness import is_ready
from log_service.supervisor.spec import (
    GrpcReadiness,
    HeartbeatReadiness,
    HttpReadiness,
    KafkaReadiness,
    Readiness,
)
from tests.helpers.authority import Authority
from tests.helpers.broker_process import BrokerProcess
from tests.helpers.ports import free_port


@pytest.mark.parametrize(
    "make",
    [
        lambda port: HttpReadiness(url=f"http://127.0.0.1:{port}/"),
        lambda port: GrpcReadiness(host="127.0.0.1", port=port, method="/a.B/C"),
        lambda port: KafkaReadiness(bootstrap_servers=f"127.0.0.1:{port}"),
    ],
    ids=["http", "grpc", "kafka"],
)
def test_accepting_a_connection_is_no_response(
    make: Callable[[int], Readiness], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "PROBE_DEADLINE_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        assert not trio.run(is_ready, make(port))
    assert not trio.run(is_ready, make(free_port()))


def test_a_broker_that_responds_is_ready_under_any_of_its_addresses(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        assert trio.run(
            is_ready,
            KafkaReadiness(bootstrap_servers=f"127.0.0.1:{free_port()}, {broker.bootstrap}"),
        )


def test_a_cluster_of_the_user_s_own_is_asked_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        broken.write_text(
            client.read_text() + f"\nssl.truststore.location={tmp_path / 'no-store.pem'}\n"
        )
        monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(broken))
        with pytest.raises(ConfigError, match=r"no-store\.pem"):
            external_broker(context)


@contextmanager
def grpc_server(
    serve: Callable[[bytes, Any], bytes], address: str = "127.0.0.1:0"
) -> Iterator[int]:
    """Yield the port of a server with one thread, whose one method is ``serve``."""
    grpc = pytest.importorskip("grpc", reason="needs the platform extra")
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    handler = grpc.unary_unary_rpc_method_handler(serve)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("shop.Till", {"Ping": handler}),)
    )
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("method", ["/shop.Till/Ping", "/shop.Till/Unknown"])
def test_a_call_that_is_served_and_one_that_is_refused_are_responses(method: str) -> None:
    asked: list[bytes] = []

    def serve(message: bytes, _: Any) -> bytes:
        asked.append(message)
        return b"x" * 100_000

    with grpc_server(serve) as port:
        assert trio.run(
            is_ready, GrpcReadiness(host="127.0.0.1", port=port, method=method, message=b"hello")
        )
    assert asked == ([b"hello"] if method.endswith("Ping") else [])


def test_a_server_on_a_unix_socket_is_asked_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the whole path may be longer than one of a socket can be
    ping = GrpcReadiness(socket_path=Path("till.sock"), method="/shop.Till/Ping")
    assert not trio.run(is_ready, ping)
    with grpc_server(lambda _message, _context: b"", "unix:till.sock"):
        assert trio.run(is_ready, ping)


def test_a_program_that_hangs_is_not_ready_though_its_grpc_greets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "PROBE_DEADLINE_S", 0.5)
    is_over, hangs = Event(), Event()

    def hang(_message: bytes, _: Any) -> bytes:
        hangs.set()
        is_over.wait()
        return b""

    with grpc_server(hang) as port:
        ping = GrpcReadiness(host="127.0.0.1", port=port, method="/shop.Till/Ping")
        try:
            assert not trio.run(is_ready, ping)
            assert hangs.is_set()
            with socket.create_connection(("127.0.0.1", port), timeout=5) as greeted:
                greeted.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
                assert greeted.recv(FRAME_HEADER_BYTES)[3] == SETTINGS
        finally:
            is_over.set()
        monkeypatch.undo()
        assert trio.run(is_ready, ping)


def test_a_call_shows_the_token_of_the_environment_or_else_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str | None] = []

    def serve(_message: bytes, context: Any) -> bytes:
        shown.append(dict(context.invocation_metadata()).get("authorization"))
        return b""

    token = tmp_path / "token"
    with grpc_server(serve) as port:
        ping = GrpcReadiness(
            host="127.0.0.1",
            port=port,
            method="/shop.Till/Ping",
            token_path=token,
            token_variable="TILL_TOKEN",
        )
        assert trio.run(is_ready, ping)
        token.write_text("in-the-file\n")
        assert trio.run(is_ready, ping)
        monkeypatch.setenv("TILL_TOKEN", "t" * 1_000)
        assert trio.run(is_ready, ping)
    assert shown == [None, "Bearer in-the-file", f"Bearer {'t' * 1_000}"]


def test_the_token_in_the_file_is_not_shown_where_another_account_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str | None] = []

    def serve(_message: bytes, context: Any) -> bytes:
        shown.append(dict(context.invocation_metadata()).get("authorization"))
        return b""

    token = tmp_path / "token"
    token.write_text("in-the-file\n")
    with grpc_server(serve) as port:
        monkeypatch.setattr(
            readiness, "strangers_at", lambda *asked: {("127.0.0.1", port): {65534}}[asked]
        )
        ping = GrpcReadiness(
            host="127.0.0.1",
            port=port,
            method="/shop.Till/Ping",
            token_path=token,
            token_variable="TILL_TOKEN",
        )
        assert not trio.run(is_ready, ping)
        assert shown == []
        monkeypatch.setenv("TILL_TOKEN", "of-a-server-elsewhere")
        assert trio.run(is_ready, ping)
    assert shown == ["Bearer of-a-server-elsewhere"]


def test_an_old_heartbeat_is_none(tmp_path: Path) -> None:
    alive = HeartbeatReadiness(path=tmp_path / "alive", max_age_s=30)
    assert not trio.run(is_ready, alive)
    alive.path.touch()
    assert trio.run(is_ready, alive)
    os.utime(alive.path, (time.time() - 60, time.time() - 60))
    assert not trio.run(is_ready, alive)
