"""Observers are in a cluster of three processes.

The commands of docs/cluster.md are typed as a reader types them.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, NewTopic
from tests.helpers.documents import ROOT, blocks
from tests.integration.client_clusters import TIDELOG
from tests.integration.cluster_nodes import ClusterNodes

TOPIC = "ledger"
LAST_SECONDS = 40.0


def shown_commands() -> list[str]:
    """The commands of the chapter on observers."""
    (block,) = [
        block
        for block in blocks("console")
        if any("tidelog.observer" in command for command in block.commands)
    ]
    return block.commands


def type_in(nodes: ClusterNodes, command: str) -> str:
    """Run a command, which must succeed, and return what it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TIDELOG_BOOTSTRAP_SERVERS": nodes.bootstrap,
    }
    line = [sys.executable, "-m", "log_service.cli.main", *shlex.split(command)[1:]]
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout


def isr(nodes: ClusterNodes) -> list[int]:
    with BlockingAdmin(nodes.bootstrap) as admin:
        return sorted(admin.describe_topics([TOPIC])[TOPIC].partitions[0].isr)


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LAST_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"it never came about that {what}"
        time.sleep(0.2)


def send(nodes: ClusterNodes, value: bytes) -> None:
    with BlockingProducer(nodes.bootstrap, acks="all") as producer:
        producer.send(TOPIC, value=value, partition=0).wait()


@pytest.mark.timeout(240)
def test_an_observer_is_promoted_by_the_policy_and_by_hand(tmp_path: Path) -> None:
    level, observe, promote, unset = shown_commands()
    with ClusterNodes(TIDELOG, tmp_path) as nodes:
        with BlockingAdmin(nodes.bootstrap) as admin:
            admin.create_topics(
                [
                    NewTopic(
                        name=TOPIC, assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"}
                    )
                ]
            )
        send(nodes, b"one")
        type_in(nodes, level)
        type_in(nodes, observe)
        until(lambda: isr(nodes) == [1, 2], "the observer is out of sync")
        assert TOPIC not in type_in(nodes, "tidelog topics describe --under-replicated")
        type_in(nodes, promote)
        send(nodes, b"two")
        until(
            lambda: nodes.segments(3, TOPIC) == nodes.segments(1, TOPIC),
            "the observer has everything",
        )
        nodes.kill(2)
        until(
            lambda: TOPIC in type_in(nodes, "tidelog topics describe --under-replicated"),
            "a dead replica is missed",
        )
        until(lambda: isr(nodes) == [1, 3], "the observer is promoted")
        send(nodes, b"three")
        nodes.start(2)
        until(lambda: isr(nodes) == [1, 2], "the observer is let go")
        type_in(nodes, unset)
        until(lambda: isr(nodes) == [1, 2, 3], "it is an observer no more")
        nodes.wait_until_equal(TOPIC)
