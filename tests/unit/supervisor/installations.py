"""Installations of small processes, for a supervisor to look after."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import trio

from log_service.common.errors import first_error
from log_service.supervisor.spec import Component, HttpReadiness, InstallationSpec, ServiceContext
from log_service.supervisor.supervisor import Supervisor
from tests.helpers.ports import free_port

LISTENER = """
import signal, socket, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "tidelog-test-grandchild", sys.argv[2]])
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    with server.accept()[0] as asking:
        asking.recv(1_000)
        asking.sendall(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
"""


def listener(name: str, directory: Path, *after: str, port: int | None = None) -> Component:
    port = port or free_port()
    return Component(
        name=name,
        argv=(sys.executable, "-c", LISTENER, str(port), str(directory)),
        readiness=HttpReadiness(url=f"http://127.0.0.1:{port}/"),
        address=f"127.0.0.1:{port}",
        after=after,
        stop_deadline_s=10,
    )


def installation(directory: Path, *components: Component) -> InstallationSpec:
    context = ServiceContext(
        data_directory=directory,
        project_directory=directory,
        host="127.0.0.1",
        bootstrap_servers="",
        ui_port=0,
        spark_port=0,
    )
    return InstallationSpec(context=context, components=components)


def left_behind(directory: Path) -> list[psutil.Process]:
    return [
        candidate
        for candidate in psutil.process_iter(["cmdline"])
        if str(directory) in (candidate.info["cmdline"] or [])
    ]


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def run(spec: InstallationSpec, told: list[str], body: Callable[[Supervisor], object]) -> None:
    async def main() -> None:
        supervisor = Supervisor(spec, told.append)
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            await trio.to_thread.run_sync(lambda: body(supervisor))
            nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except BaseExceptionGroup as group:
        raise first_error(group) from None
