"""Three nodes run on hosts of their own, by the file and the commands of the documentation.

A voter comes and another one goes.

The hosts of the documentation are ports of this machine here.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.broker_process import ROOT
from tests.helpers.documents import blocks
from tests.helpers.forked_process import start_forked
from tests.helpers.ports import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PAGE = ROOT / "docs" / "cluster.md"
HOST = re.compile(r"host(\d):(\d+)")
START_SECONDS = 60.0


class Hosts:
    """A directory in which commands of the documentation are typed, and the nodes that were started
    there.
    """

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self._stack = stack
        self._ports = dict(
            zip(
                [(host, port) for host in range(1, 5) for port in (9092, 9093)],
                free_ports(8),
                strict=True,
            )
        )
        (file,) = (block.text for block in blocks("properties") if block.document == PAGE)
        for node_id in range(1, 5):
            text = file.replace("node.id=1", f"node.id={node_id}").replace(
                "=rack1", f"=rack{node_id}"
            )
            text = re.sub(r"//host1:", f"//host{node_id}:", text).replace(
                "/var/lib/tidelog", str(directory / f"data{node_id}")
            )
            self.file(node_id).write_text(self.here(text))
        command = directory / "bin" / "tidelog"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m log_service.cli.main "$@"\n')
        command.chmod(0o755)

    def file(self, node_id: int) -> Path:
        return self.directory / f"node{node_id}.properties"

    def here(self, text: str) -> str:
        """The same with the ports that stand for hosts."""
        return HOST.sub(
            lambda found: f"127.0.0.1:{self._ports[int(found[1]), int(found[2])]}", text
        )

    def typed(self, text: str, *, code: int = 0) -> str:
        """Type commands; they end with that exit code."""
        paths = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": paths, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-euc", self.here(text)],
            cwd=self.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            overrides = [line for line in self.file(node_id).read_text().splitlines() if line]
            process = start_forked(overrides, log=self.directory / f"node{node_id}.log")
            self._stack.callback(process.wait)
            self._stack.callback(process.kill)

    def quorum(self) -> dict[int, str]:
        """The role of each node in the metadata quorum."""
        told = json.loads(self.typed("tidelog cluster quorum --json -b host2:9092"))
        return {each["node_id"]: each["role"] for each in told["replicas"]}

    def wait_for(self, roles: dict[int, set[str]]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                found = self.quorum()
                if found.keys() == roles.keys() and all(
                    found[node_id] in allowed for node_id, allowed in roles.items()
                ):
                    return
            except AssertionError as error:
                found = {-1: str(error)}
            assert time.monotonic() < deadline, found
            time.sleep(0.5)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with ExitStack() as stack:
        yield Hosts(tmp_path, stack)


VOTER = {"leader", "voter"}


def test_nodes_are_formatted_and_started_and_voters_change_as_documented(hosts: Hosts) -> None:
    format_all, *_ = (block.text for block in blocks("sh") if block.document == PAGE)
    hosts.typed(
        format_all.replace(
            "cluster=$(tidelog storage random-uuid)", "cluster=4L6g3nShT-eMCtK--X86sw"
        )
    )
    hosts.start(1, 2, 3)
    hosts.wait_for(dict.fromkeys((1, 2, 3), VOTER))
    said = hosts.typed("tidelog cluster voters add node4.properties -b host1:9092", code=1)
    assert "is not formatted" in said

    _, change = (
        indented.strip("\n")
        for indented in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    )
    new_voter, add, remove = (line.strip() for line in change.strip().splitlines())
    hosts.typed("cluster=4L6g3nShT-eMCtK--X86sw\n" + new_voter)
    assert "does not follow the metadata log: start it" in hosts.typed(add, code=1)
    hosts.start(4)
    hosts.wait_for({1: VOTER, 2: VOTER, 3: VOTER, 4: {"observer"}})
    assert "voters 1, 2, 3 -> 1, 2, 3, 4: 1 of 4 may fail\nnothing was changed" in hosts.typed(
        add.removesuffix(" --execute")
    )
    assert "voters 1, 2, 3 -> 1, 2, 3, 4: 1 of 4 may fail" in hosts.typed(add)
    assert "node 4 is a voter already: the voters are 1, 2, 3, 4" in hosts.typed(add, code=1)
    assert "voters 1, 2, 3, 4 -> 2, 3, 4: 1 of 3 may fail" in hosts.typed(remove)
    hosts.wait_for({1: {"observer"}, 2: VOTER, 3: VOTER, 4: VOTER})
    assert "node 1 is not a voter: the voters are 2, 3, 4" in hosts.typed(remove, code=1)
    hosts.typed("tidelog topics create orders -p 3 -r 3 -b host1:9092")
    assert (
        "it also leaves the metadata quorum: voters 2, 3, 4 -> 3, 4: 0 of 2 may fail"
        in hosts.typed("tidelog cluster remove 2 -b host1:9092")
    )
    assert "node 4 was formatted for cluster" in hosts.typed(
        "sed -i s/4L6g3nShT/5L6g3nShT/ data4/meta.properties\n" + add, code=1
    )
