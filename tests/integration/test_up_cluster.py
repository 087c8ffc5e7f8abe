"""``tidelog up --brokers 3`` runs as a person runs it.

It has three nodes, a fourth that joins and leaves, restarts, and a second start.

The test is one story, because a cluster of processes takes seconds to start.
"""

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from log_service.client import BlockingAdmin
from tests.integration.command_line import Finished, run
from tests.integration.installations import free_port_for, installation, until

pytestmark = [pytest.mark.timeout(400)]
RECORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The command line of one installation."""

    bootstrap: str
    data: str

    def tidelog(self, *arguments: str, given: str = "") -> Finished:
        return run(arguments, bootstrap=self.bootstrap, given=given)

    def done(self, *arguments: str, given: str = "") -> str:
        finished = self.tidelog(*arguments, given=given)
        assert finished.exit_code == 0, finished.errors + finished.output
        return finished.output

    def components(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            self.tidelog("status", "--data", self.data, "--json").output
        )
        return found

    def healthy(self) -> dict[str, Any]:
        until(lambda: self.tidelog("cluster", "status").exit_code == 0)
        status: dict[str, Any] = json.loads(self.done("cluster", "status", "--json"))
        return status


def test_three_nodes_and_a_fourth(tmp_path: Path) -> None:
    port = free_port_for(4)
    bootstrap = ",".join(f"127.0.0.1:{port + step}" for step in range(3))
    data = str(tmp_path / "data")

    line = CommandLine(bootstrap=bootstrap, data=data)
    tidelog, done, components, healthy = line.tidelog, line.done, line.components, line.healthy

    with installation(tmp_path, port, "--brokers", "3") as said:
        assert [row["name"] for row in components()] == ["broker", "broker2", "broker3"]
        done("topics", "create", "orders", "-p", "6")
        done("produce", "orders", given="".join(f"{number}\n" for number in range(RECORDS)))
        brokers = healthy()["brokers"]
        assert [(row["leaders"], row["replicas"], row["in_sync"]) for row in brokers] == [
            (2, 6, 6)
        ] * 3
        shown = done("cluster", "add", "--start", "--data", data)
        assert "nothing was changed" in shown
        assert not (tmp_path / "data" / "broker4").exists()
        done("cluster", "add", "--start", "--data", data, "--execute")
        assert "broker4  ready" in said.read_text()
        assert Counter(replicas(bootstrap))[4] == 4
        refused = tidelog("cluster", "remove", "1", "--data", data, "--execute")
        assert refused.exit_code == 1
        assert (
            "node 1 is a controller, and the files of all nodes name it: of this installation 1, 2, 3 stay"
            in refused.errors
        )

        done("cluster", "remove", "4", "--data", data, "--execute")
        assert Counter(replicas(bootstrap)) == {1: 6, 2: 6, 3: 6}
        assert [row["broker"] for row in healthy()["brokers"]] == [1, 2, 3]

        before = {row["name"]: row["pid"] for row in components()}
        assert "3 brokers restarted" in done("cluster", "roll", "--data", data, "--execute")
        after = {row["name"]: row["pid"] for row in components()}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        healthy()

        stopped = done("cluster", "stop", "2", "--data", data)
        assert "node 2 is stopped until: tidelog cluster start 2" in stopped
        until(lambda: tidelog("cluster", "status").exit_code == 3)
        assert [row["state"] for row in components()] == ["ready", "stopped", "ready"]
        again = tidelog("cluster", "stop", "2", "--data", data)
        assert (again.exit_code, "node 2 is stopped already" in again.errors) == (1, True)
        too_many = tidelog("cluster", "stop", "3", "--data", data)
        assert "without it 1 of 3 voters of the metadata quorum would be left" in too_many.errors
        assert done("cluster", "start", "2", "--data", data) == "node 2 serves again\n"
        healthy()

        stop_and_start = f"for what in stop start; do {sys.executable} -m log_service.cli.main cluster $what {{id}} --data {data} || exit 1; done"
        elsewhere = ["--data", str(tmp_path / "elsewhere")]
        refused = tidelog("cluster", "roll", "--execute", *elsewhere)
        assert "brokers 1, 2, 3 are not nodes of a tidelog up on" in refused.errors
        assert "3 brokers restarted" in done(
            "cluster", "roll", "--execute", "--command", f'sh -c "{stop_and_start}"', *elsewhere
        )
        assert not set(after.values()) & {row["pid"] for row in components()}
        healthy()

    with installation(tmp_path, port):
        healthy()
        read = done("consume", "orders", "--from-beginning", "--exit-at-end")
        assert sorted(map(int, read.split())) == list(range(RECORDS))


def replicas(bootstrap: str) -> list[int]:
    """Return the broker of every replica of the topic."""
    with BlockingAdmin(bootstrap) as admin:
        return [
            broker
            for partition in admin.describe_topics(["orders"])["orders"].partitions
            for broker in partition.replicas
        ]
