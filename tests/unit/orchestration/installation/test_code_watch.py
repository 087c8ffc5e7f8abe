"""Daemon and webserver ask the code server for its load of the project only when it may be new."""

import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from dagster._grpc.client import DagsterGrpcClient

from orchestration.installation.code_server import wait_without_looking
from orchestration.installation.code_watch import ASK_S, announce_reload, ask_seldom
from orchestration.project.location import DEFINITIONS


class Server:
    """A code server, and the time of its clients."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.load = "load 1"
        self.questions = 0
        self.is_away = False

    def answer(self, _client: object, **_named: Any) -> str:
        self.questions += 1
        if self.is_away:
            raise ConnectionError("nobody listens")
        return self.load


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(DagsterGrpcClient, "get_server_id", found.answer)
    ask_seldom(lambda: found.now_s)
    return found


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    path = tmp_path / "server.sock"
    path.touch()
    os.utime(path, ns=(0, 0))
    return path


def seen(client: DagsterGrpcClient, server: Server, seconds: int = 1) -> list[str]:
    """Return what a client that asks each second is told."""
    found = []
    for _ in range(seconds):
        server.now_s += 1
        found.append(client.get_server_id(timeout=2))
    return found


def test_nothing_is_asked_while_nothing_is_loaded_but_for_a_sign_of_life(
    server: Server, socket: Path
) -> None:
    client = DagsterGrpcClient(socket=str(socket))
    assert set(seen(client, server, 60)) == {"load 1"}
    assert server.questions == 60 / ASK_S


def test_a_load_is_seen_by_the_next_look(server: Server, socket: Path) -> None:
    client = DagsterGrpcClient(socket=str(socket))
    seen(client, server, 3)
    server.load = "load 2"
    announce_reload(socket)
    assert seen(client, server) == ["load 2"]


def test_a_code_server_that_started_again_is_seen_by_the_next_look(
    server: Server, socket: Path
) -> None:
    client = DagsterGrpcClient(socket=str(socket))
    seen(client, server, 3)
    server.load = "another process"
    socket.unlink()
    server.is_away = True
    for _ in range(2):
        with pytest.raises(ConnectionError):
            seen(client, server)
    socket.touch()
    with pytest.raises(ConnectionError):
        seen(client, server)
    server.is_away = False
    assert seen(client, server) == ["another process"], (
        "what was known before it was away is not told"
    )


def test_clients_know_nothing_of_each_other(server: Server, socket: Path) -> None:
    """A client that is made when the project is fetched asks, whatever the one that watches knows."""
    seen(DagsterGrpcClient(socket=str(socket)), server, 3)
    server.load = "load 2"
    assert seen(DagsterGrpcClient(socket=str(socket)), server) == ["load 2"]


def test_a_code_server_with_a_port_is_asked_each_time(server: Server) -> None:
    assert len(seen(DagsterGrpcClient(port=1), server, 5)) == server.questions == 5


def test_nobody_is_told_of_a_socket_that_is_not_there(tmp_path: Path) -> None:
    announce_reload(tmp_path / "server.sock")


def test_a_code_server_waits_for_its_end_without_looking_whether_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waiting:
        """gRPC's server, whose wait is a loop that looks."""

        def __init__(self) -> None:
            self.has_begun = threading.Event()

        def wait_for_termination(self, timeout: float | None = None) -> bool:
            self.has_begun.set()
            return timeout is None

    server, ended, found = Waiting(), threading.Event(), []
    begun = server.has_begun
    wait_without_looking(server, ended)
    monkeypatch.setitem(sys.modules, DEFINITIONS, ModuleType(DEFINITIONS))
    assert server.wait_for_termination(0.01) is False, "it goes on"
    assert not begun.is_set()
    assert DEFINITIONS in sys.modules
    waiting = threading.Thread(target=lambda: found.append(server.wait_for_termination()))
    waiting.start()
    ended.set()
    waiting.join(60)
    assert found == [True]
    assert begun.is_set()
    assert DEFINITIONS not in sys.modules, "ticks that wait for records see that it ends"
