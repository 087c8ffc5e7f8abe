"""Nodes come, go and restart under a supervisor that runs; what cannot be leaves everything as it
was.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio
import trio.testing

from log_service.common.errors import ConfigError, first_error
from log_service.supervisor import process, state
from log_service.supervisor.control import ADD, REMOVE, RESTART, START, STOP, ControlRequest
from log_service.supervisor.fleet import Fleet
from log_service.supervisor.nodes import (
    ClusterSpec,
    NodeFactory,
    NodeSpec,
    broker_port,
    new_cluster,
    read_cluster,
)
from log_service.supervisor.process import ComponentProcess, start
from log_service.supervisor.spec import Component, HttpReadiness, InstallationSpec, ServiceContext
from log_service.supervisor.supervisor import StartFailed, Supervisor
from tests.helpers.ports import free_ports, is_free

SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    with server.accept()[0] as asking:
        asking.recv(1_000)
        asking.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFactory(NodeFactory):
    """Nodes that only say that they are there."""

    failing: tuple[int, ...] = ()

    def component(self, cluster: ClusterSpec, node: NodeSpec) -> Component:
        made = NodeFactory.component(self, cluster, node)
        port = broker_port(self.first_port, node)
        argv = (
            sys.executable,
            "-c",
            SERVER if node.node_id not in self.failing else "raise SystemExit('no')",
            str(port),
        )
        return replace(
            made,
            argv=argv,
            readiness=HttpReadiness(url=f"http://127.0.0.1:{port}/"),
            start_deadline_s=8.0,
            stop_deadline_s=5.0,
        )


def free_range(count: int) -> int:
    """Return the first of so many free ports in a row, with room above for controllers."""
    for port in free_ports(20):
        if port + count < 60_000 and all(is_free(port + step) for step in range(count)):
            return port
    raise AssertionError("no ports")


def tell(
    directory: Path,
    story: Callable[[Fleet, list[str]], Awaitable[None]],
    *,
    count: int = 2,
    failing: tuple[int, ...] = (),
) -> None:
    async def main() -> None:
        context = ServiceContext(
            data_directory=directory,
            project_directory=directory,
            host="127.0.0.1",
            bootstrap_servers="",
            ui_port=0,
            spark_port=0,
        )
        factory = ServerFactory(context=context, first_port=free_range(5), failing=failing)
        cluster = new_cluster(count, "c")
        told: list[str] = []
        supervisor = Supervisor(
            InstallationSpec(context=context, components=tuple(factory.components(cluster))),
            told.append,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            await story(Fleet(supervisor, cluster, factory), told)
            nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        raise first_error(group) from None


def running(directory: Path) -> dict[str, str]:
    return {component.name: component.state for component in state.read(directory)}


def test_a_node_joins_and_leaves_and_both_are_kept(tmp_path: Path) -> None:
    async def story(fleet: Fleet, told: list[str]) -> None:
        added = await fleet.handle(ControlRequest(command=ADD))
        assert (added["node_id"], added["name"]) == (3, "broker3")
        assert running(tmp_path) == {"broker": "ready", "broker2": "ready", "broker3": "ready"}
        assert read_cluster(tmp_path) == fleet.cluster
        await fleet.handle(ControlRequest(command=REMOVE, node_id=3))
        assert running(tmp_path) == {"broker": "ready", "broker2": "ready"}
        kept = read_cluster(tmp_path)
        assert kept is not None
        assert ([node.node_id for node in kept.nodes], kept.next_node_id) == ([1, 2], 4)
        assert told[-1] == "broker3  stopped"

    tell(tmp_path, story)


def test_a_node_restarts_as_a_new_process(tmp_path: Path) -> None:
    async def story(fleet: Fleet, told: list[str]) -> None:
        before = {component.name: component.pid for component in state.read(tmp_path)}
        await fleet.handle(ControlRequest(command=RESTART, node_id=2))
        after = {component.name: component.pid for component in state.read(tmp_path)}
        assert after["broker2"] not in {None, before["broker2"]}
        assert after["broker"] == before["broker"]
        assert [line.split()[:2] for line in told[-2:]] == [
            ["broker2", "stopped"],
            ["broker2", "ready"],
        ]

    tell(tmp_path, story)


def test_a_node_that_is_stopped_stays_down_until_it_is_started(tmp_path: Path) -> None:
    """The supervisor does not start it again by itself, as it does with one that dies."""

    async def story(fleet: Fleet, told: list[str]) -> None:
        with pytest.raises(ConfigError, match="broker2 was not stopped"):
            await fleet.handle(ControlRequest(command=START, node_id=2))
        await fleet.handle(ControlRequest(command=STOP, node_id=2))
        assert told[-1] == "broker2  stopped, and stays down until it is asked to start"
        await trio.sleep(2)
        assert running(tmp_path) == {"broker": "ready", "broker2": "stopped"}
        assert state.read(tmp_path)[1].pid is None
        with pytest.raises(ConfigError, match="broker2 is stopped already"):
            await fleet.handle(ControlRequest(command=STOP, node_id=2))
        await fleet.handle(ControlRequest(command=START, node_id=2))
        assert running(tmp_path) == {"broker": "ready", "broker2": "ready"}
        await fleet.handle(ControlRequest(command=STOP, node_id=2))
        await fleet.handle(ControlRequest(command=RESTART, node_id=2))
        with pytest.raises(ConfigError, match="broker2 was not stopped"):
            await fleet.handle(ControlRequest(command=START, node_id=2))
        await fleet.handle(ControlRequest(command=STOP, node_id=2))

    tell(tmp_path, story)


def test_a_node_that_is_stopped_while_it_is_started_again_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's process used to come after the stop had looked for one.

    A node that was told to be down ran, and nothing showed it.
    """

    async def story(fleet: Fleet, _told: list[str]) -> None:
        made: list[ComponentProcess] = []
        is_made, may_be_known = trio.Event(), trio.Event()

        async def slow_start(component: Component, log_directory: Path) -> ComponentProcess:
            made.append(await start(component, log_directory))
            is_made.set()
            with trio.CancelScope(shield=True):
                await may_be_known.wait()
            return made[-1]

        monkeypatch.setattr(process, "start", slow_start)
        pid = state.read(tmp_path)[1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await is_made.wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.handle, ControlRequest(command=STOP, node_id=2))
            await trio.testing.wait_all_tasks_blocked(0.05)
            may_be_known.set()
        assert made[0].guard.poll() is not None
        assert running(tmp_path) == {"broker": "ready", "broker2": "stopped"}

    tell(tmp_path, story)


def test_a_node_that_does_not_start_is_gone_again(tmp_path: Path) -> None:
    async def story(fleet: Fleet, _told: list[str]) -> None:
        with pytest.raises(StartFailed, match="broker3 could not be started"):
            await fleet.handle(ControlRequest(command=ADD))
        assert running(tmp_path) == {"broker": "ready", "broker2": "ready"}
        assert [node.node_id for node in fleet.cluster.nodes] == [1, 2]
        assert read_cluster(tmp_path) is None, "nothing was kept"

    tell(tmp_path, story, failing=(3,))


def test_controllers_and_unknown_nodes_stay(tmp_path: Path) -> None:
    async def story(fleet: Fleet, _told: list[str]) -> None:
        with pytest.raises(ConfigError, match="node 1 is a controller"):
            await fleet.handle(ControlRequest(command=REMOVE, node_id=1))
        with pytest.raises(ConfigError, match="no node 7"):
            await fleet.handle(ControlRequest(command=RESTART, node_id=7))
        with pytest.raises(ConfigError, match="which node"):
            await fleet.handle(ControlRequest(command=RESTART))
        assert running(tmp_path) == {"broker": "ready", "broker2": "ready"}

    tell(tmp_path, story)
