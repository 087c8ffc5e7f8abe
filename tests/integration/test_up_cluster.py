"""``tidelog up --brokers 3`` as a person runs it: three nodes, a fourth that joins and leaves, restarts, and a second start.

The test is one story, because a cluster of processes takes seconds to start.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from log_service.client import BlockingAdmin
from tests.integration.command_line import Finished, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
PATIENCE_S = 120.0
RECORDS = 500


def free_port_for(count: int) -> int:
    """Return a port from which on so many are free, for brokers and for their controllers a thousand above."""
    for first in range(21_000, 30_000, 10):
        ports = [first + step + above for step in range(count) for above in (0, 1000)]
        if all(is_free(port) for port in ports):
            return first
    raise AssertionError("no ports are free")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@contextmanager
def installation(directory: Path, port: int, *arguments: str) -> Iterator[Path]:
    """Run ``tidelog up`` until the block ends; yields the file of what it says."""
    output = directory / "said.txt"
    command = [
        sys.executable,
        "-m",
        "log_service.cli.main",
        "up",
        "--only-broker",
        "--data",
        str(directory / "data"),
        "--project",
        str(directory),
    ]
    ports = ["--broker-port", str(port), "--ui-port", str(port + 8), "--spark-port", str(port + 9), "--metrics-port", "0"]
    with output.open("wb") as said:
        process = subprocess.Popen([*command, *ports, *arguments], stdout=said, stderr=said, env=dict(os.environ))
    try:
        until(lambda: "everything is ready" in output.read_text() or process.poll() is not None)
        assert process.poll() is None, output.read_text()
        yield output
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, output.read_text()
    finally:
        process.kill()
        process.wait()
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(directory / "data") in " ".join(each.info["cmdline"] or [])]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_three_nodes_and_a_fourth(tmp_path: Path) -> None:
    port = free_port_for(4)
    bootstrap = ",".join(f"127.0.0.1:{port + step}" for step in range(3))
    data = str(tmp_path / "data")

    def tidelog(*arguments: str, given: str = "") -> Finished:
        return run(arguments, bootstrap=bootstrap, given=given)

    def done(*arguments: str, given: str = "") -> str:
        finished = tidelog(*arguments, given=given)
        assert finished.exit_code == 0, finished.errors + finished.output
        return finished.output

    def healthy() -> dict[str, Any]:
        until(lambda: tidelog("cluster", "status").exit_code == 0)
        told: dict[str, Any] = json.loads(done("cluster", "status", "--json"))
        return told

    with installation(tmp_path, port, "--brokers", "3") as said:
        assert [row["name"] for row in json.loads(done("status", "--data", data, "--json"))] == ["broker", "broker2", "broker3"]
        done("topics", "create", "orders", "-p", "6")
        done("produce", "orders", given="".join(f"{number}\n" for number in range(RECORDS)))
        assert [(row["leaders"], row["replicas"], row["in_sync"]) for row in healthy()["brokers"]] == [(2, 6, 6)] * 3

        shown = done("cluster", "add", "--start", "--data", data)
        assert "nothing was changed" in shown
        assert not (tmp_path / "data" / "broker4").exists()
        done("cluster", "add", "--start", "--data", data, "--execute")
        assert "broker4  ready" in said.read_text()
        assert Counter(replicas(bootstrap))[4] == 4
        refused = tidelog("cluster", "remove", "1", "--data", data, "--execute")
        assert refused.exit_code == 1
        assert "node 1 is a controller, and the files of all nodes name it: of this installation 1, 2, 3 stay" in refused.errors

        done("cluster", "remove", "4", "--data", data, "--execute")
        assert Counter(replicas(bootstrap)) == {1: 6, 2: 6, 3: 6}
        assert [row["broker"] for row in healthy()["brokers"]] == [1, 2, 3]

        before = {row["name"]: row["pid"] for row in json.loads(done("status", "--data", data, "--json"))}
        assert "3 brokers restarted" in done("cluster", "roll", "--data", data, "--execute")
        after = {row["name"]: row["pid"] for row in json.loads(done("status", "--data", data, "--json"))}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        healthy()

        assert "node 2 is stopped until: tidelog cluster start 2" in done("cluster", "stop", "2", "--data", data)
        until(lambda: tidelog("cluster", "status").exit_code == 3)
        assert [row["state"] for row in json.loads(tidelog("status", "--data", data, "--json").output)] == ["ready", "stopped", "ready"]
        again = tidelog("cluster", "stop", "2", "--data", data)
        assert (again.exit_code, "node 2 is stopped already" in again.errors) == (1, True)
        too_many = tidelog("cluster", "stop", "3", "--data", data)
        assert "without it 1 of 3 voters of the metadata quorum would be left" in too_many.errors
        assert done("cluster", "start", "2", "--data", data) == "node 2 serves again\n"
        healthy()

        stop_and_start = (
            f"for what in stop start; do {sys.executable} -m log_service.cli.main cluster $what {{id}} --data {data} || exit 1; done"
        )
        elsewhere = ["--data", str(tmp_path / "elsewhere")]
        refused = tidelog("cluster", "roll", "--execute", *elsewhere)
        assert "brokers 1, 2, 3 are no nodes of a tidelog up on" in refused.errors
        assert "3 brokers restarted" in done("cluster", "roll", "--execute", "--command", f'sh -c "{stop_and_start}"', *elsewhere)
        assert not set(after.values()) & {row["pid"] for row in json.loads(done("status", "--data", data, "--json"))}
        healthy()

    with installation(tmp_path, port):
        healthy()
        read = done("consume", "orders", "--from-beginning", "--exit-at-end")
        assert sorted(map(int, read.split())) == list(range(RECORDS))


def replicas(bootstrap: str) -> list[int]:
    """Return the broker of every replica of the topic."""
    with BlockingAdmin(bootstrap) as admin:
        return [broker for partition in admin.describe_topics(["orders"])["orders"].partitions for broker in partition.replicas]
