"""Dagster operates three nodes of ``tidelog up`` while a producer writes.

It adds one, evens loads, restarts, removes one, each planned first. The test is one story, because
a cluster of processes takes seconds to start.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from log_service.client import BlockingAdmin, NewTopic
from orchestration.infrastructure.cluster import cluster_asset, cluster_jobs
from orchestration.resources.log_service import LogServiceResource
from tests.chaos.load import ConfluentWriter
from tests.chaos.verdicts import judge, read_log
from tests.integration.command_line import run
from tests.integration.installations import free_port_for, installation, until

pytestmark = [pytest.mark.timeout(400)]

FIRST_PORT = 24_000
TOPIC, UNEVEN = "orders", "bills"
OPS = {
    "cluster_add": "add",
    "cluster_rebalance": "rebalance",
    "cluster_roll": "restart",
    "cluster_remove": "remove",
}
DISK_CHECK = "disk"
"""The disk of the machine may be full."""


class Operator:
    """Runs jobs of the project against an installation, and looks at what they did."""

    def __init__(self, bootstrap: str, data: Path) -> None:
        self.bootstrap = bootstrap
        self.data = data
        self._resources = {"log_service": LogServiceResource(bootstrap_servers=bootstrap)}

    def play(self, name: str, **config: Any) -> dict[str, Any]:
        """Run a job to its end, and return what its output tells."""
        job = next(job for job in cluster_jobs() if job.name == name)
        run_config = {"ops": {OPS[name]: {"config": config}}} if config else None
        result = job.execute_in_process(resources=self._resources, run_config=run_config)
        assert result.success
        (told,) = [
            event.step_output_data.metadata
            for event in result.all_events
            if event.is_successful_output
        ]
        return {key: value.value for key, value in told.items()}

    def failed_checks(self) -> set[str]:
        """The checks of the cluster that do not pass."""
        evaluations = dg.materialize(
            [cluster_asset()], resources=self._resources
        ).get_asset_check_evaluations()
        return {each.check_name for each in evaluations if not each.passed} - {DISK_CHECK}

    def placed(self) -> dict[str, list[tuple[int, ...]]]:
        """The replicas of each partition, by topic."""
        with BlockingAdmin(self.bootstrap) as admin:
            found = admin.describe_topics([topic.name for topic in admin.list_topics()])
        return {name: [each.replicas for each in topic.partitions] for name, topic in found.items()}

    def replica_counts(self) -> Counter[int]:
        return Counter(
            broker
            for partitions in self.placed().values()
            for replicas in partitions
            for broker in replicas
        )

    def brokers(self) -> list[int]:
        with BlockingAdmin(self.bootstrap) as admin:
            return sorted(each.node_id for each in admin.describe_brokers())

    def process_ids(self) -> dict[str, int]:
        """The process of each node, by its name."""
        told = run(["status", "--data", str(self.data), "--json"], bootstrap=self.bootstrap).output
        return {row["name"]: row["pid"] for row in json.loads(told)}


def test_jobs_add_rebalance_roll_and_remove_a_node_under_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port_for(4, FIRST_PORT)
    operator = Operator(
        ",".join(f"127.0.0.1:{port + step}" for step in range(3)), tmp_path / "data"
    )
    monkeypatch.setenv("TIDELOG_DATA", str(operator.data))
    with installation(tmp_path, port, "--brokers", "3"):
        with BlockingAdmin(operator.bootstrap) as admin:
            admin.create_topics([NewTopic(name=TOPIC, partition_count=6)])
        until(lambda: not operator.failed_checks())
        writer = ConfluentWriter("rdkafka", operator.bootstrap, 1, {TOPIC: 6}, pause_seconds=0.02)
        writer.start()
        a_node_joins(operator)
        what_is_uneven_is_evened_out(operator)
        nodes_are_restarted_one_by_one(operator)
        a_node_leaves(operator)
        until(lambda: not operator.failed_checks())
        writer.stop()
        assert judge(read_log(operator.bootstrap, {TOPIC: 6}), [writer], []) == []
        assert writer.acknowledged_counts() == writer.sent_count


def a_node_joins(operator: Operator) -> None:
    before = operator.placed()
    shown = operator.play("cluster_add", start=True)
    assert (shown["dry_run"], shown["moves"] > 0) == (True, True)
    assert (operator.brokers(), operator.placed()) == ([1, 2, 3], before)
    assert not (operator.data / "broker4").exists()
    done = operator.play("cluster_add", start=True, dry_run=False)
    assert (done["dry_run"], done["moves"]) == (False, shown["moves"])
    assert operator.brokers() == [1, 2, 3, 4]
    assert operator.replica_counts()[4] > 0
    assert operator.play("cluster_add")["plan"] == "nothing to do"


def what_is_uneven_is_evened_out(operator: Operator) -> None:
    with BlockingAdmin(operator.bootstrap) as admin:
        admin.create_topics([NewTopic(name=UNEVEN, assignments=dict.fromkeys(range(8), (1, 2)))])
    before = operator.placed()
    shown = operator.play("cluster_rebalance")
    assert (shown["dry_run"], shown["moves"] > 0) == (True, True)
    assert operator.placed() == before
    assert operator.play("cluster_rebalance", dry_run=False)["moves"] == shown["moves"]
    counts = operator.replica_counts()
    assert max(counts.values()) - min(counts.values()) <= 1, counts
    assert operator.play("cluster_rebalance")["plan"] == "nothing to do"


def nodes_are_restarted_one_by_one(operator: Operator) -> None:
    before = operator.process_ids()
    shown = operator.play("cluster_roll")
    assert (shown["dry_run"], sorted(shown["order"].split(", "))) == (True, ["1", "2", "3", "4"])
    assert operator.process_ids() == before
    operator.play("cluster_roll", dry_run=False)
    after = operator.process_ids()
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())


def a_node_leaves(operator: Operator) -> None:
    before = operator.placed()
    with pytest.raises(
        dg.Failure, match="node 1 is a voter of a quorum that is fixed in the nodes' files"
    ):
        operator.play("cluster_remove", broker=1, dry_run=False)
    shown = operator.play("cluster_remove", broker=4)
    assert (shown["dry_run"], shown["moves"] > 0) == (True, True)
    assert (operator.brokers(), operator.placed()) == ([1, 2, 3, 4], before)
    operator.play("cluster_remove", broker=4, dry_run=False)
    assert operator.brokers() == [1, 2, 3]
    assert 4 not in operator.replica_counts()
    assert "broker4" not in operator.process_ids()
