"""``tidelog cluster stop``, and ``add --start``: what is refused before a supervisor is asked."""

from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from log_service.cli import cluster_moves, cluster_nodes
from log_service.cli.main import tidelog
from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import PartitionLayout
from log_service.supervisor.installation import Installation
from log_service.supervisor.nodes import new_cluster, write_cluster
from log_service.supervisor.state import held_lock
from tests.helpers.stand_ins import opening, returning
from tests.unit.cluster_plans.layouts import broker, layout, partition

QUORUM = QuorumState(
    leader_id=1,
    leader_epoch=4,
    members=tuple(QuorumMember(node_id=n, is_voter=True, lag=0) for n in (1, 2, 3)),
)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """An installation of three nodes that runs; yields which of them were stopped."""
    stopped: list[int] = []

    async def hold(_installation: Installation, node_id: int) -> None:
        stopped.append(node_id)

    monkeypatch.setattr(cluster_nodes, "open_admin", opening(None))
    monkeypatch.setattr(Installation, "hold", hold)
    write_cluster(tmp_path, new_cluster(3, "c"))
    with held_lock(tmp_path):
        yield stopped


def in_cluster(
    monkeypatch: pytest.MonkeyPatch, *partitions: PartitionLayout, cluster_id: str = "c"
) -> None:
    brokers = (broker(1), broker(2), broker(3))
    state = ClusterState(
        cluster_id=cluster_id,
        layout=layout(brokers, partitions),
        quorum=QUORUM,
        silent=MappingProxyType({}),
    )
    monkeypatch.setattr(cluster_nodes, "read_state", returning(state))


def stop(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(tidelog, ["cluster", "stop", *arguments, "--data", str(directory)])


def test_a_node_is_stopped_with_a_word_about_what_is_offline(
    held: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_cluster(monkeypatch, partition("t", 0, [1, 2, 3]), partition("solo", 0, [2]))
    done = stop(tmp_path, "2")
    assert (done.exit_code, held) == (0, [2])
    assert done.stderr.splitlines() == ["node 2 stops; others lead its partitions first"]
    assert done.stdout.splitlines() == [
        "node 2 is stopped until: tidelog cluster start 2",
        "1 partition with a single replica is offline until then",
    ]


def test_a_node_that_the_cluster_cannot_be_without_is_stopped_only_by_force(
    held: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_cluster(monkeypatch, partition("t", 0, [1, 2, 3], isr=[1, 2]))
    refused = stop(tmp_path, "2")
    assert (refused.exit_code, held) == (1, [])
    assert (
        "Error: node 2 is not stopped: t-0 is not in sync everywhere. --force stops it all the same"
        in refused.output
    )
    assert stop(tmp_path, "2", "--force").exit_code == 0
    assert held == [2]


def test_what_is_no_node_of_this_installation_is_refused(
    held: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    in_cluster(monkeypatch, cluster_id="other")
    assert "this installation has no node 7; it has 1, 2, 3" in stop(tmp_path, "7").output
    assert "are of cluster other, and" in stop(tmp_path, "2").output
    assert "nothing runs on" in stop(tmp_path / "elsewhere", "2").output
    assert held == []


@pytest.mark.parametrize("execute", [[], ["--execute"]], ids=["shown", "carried out"])
@pytest.mark.usefixtures("held")
def test_a_node_is_not_started_for_another_cluster(
    execute: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A node is not started for another cluster.

    The local installation got one more node, and the command waited for it in the cluster that
    was asked.
    """
    started: list[Path] = []

    async def start_one_more(installation: Installation) -> None:
        started.append(installation.data)

    admin = SimpleNamespace(describe_cluster=returning(SimpleNamespace(cluster_id="other")))
    monkeypatch.setattr(cluster_moves, "open_admin", opening(admin))
    monkeypatch.setattr(
        cluster_moves,
        "read_layout",
        returning(layout([broker(1), broker(2)], [partition("t", 0, [1, 2])])),
    )
    monkeypatch.setattr(Installation, "start_one_more", start_one_more)
    told = CliRunner().invoke(
        tidelog, ["cluster", "add", "--start", "--data", str(tmp_path), *execute]
    )
    assert (told.exit_code, started) == (1, [])
    assert (
        f"are of cluster other, and {tmp_path} is of cluster c: name that one's brokers"
        in " ".join(told.output.split())
    )
