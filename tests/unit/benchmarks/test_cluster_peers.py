"""The benchmark of three nodes measures each figure.

A run that is cut off keeps some, and loads are laid on the nodes.
"""

import argparse
import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benchmarks import cluster_nodes, cluster_peers
from benchmarks.broker_process import BenchmarkError
from benchmarks.cluster_moves import other_than
from benchmarks.cluster_nodes import Nodes, accepts, led_by, spread, until
from benchmarks.cluster_partitions import counted, is_in_sync
from benchmarks.cluster_peers import FIGURES, MOST_ROUNDS, Report, measure, names
from benchmarks.clusters import ClusterBench, ClusterFamily, as_one_node
from benchmarks.failover import Acknowledged
from benchmarks.measured import Asked, Measured
from benchmarks.rounds import Results, Sides
from benchmarks.table import Row


def a_bench() -> ClusterBench:
    return ClusterBench(scale=1.0, has_peer=True, warm_up=lambda _nodes, _bench: None)


def family_that_counts(turns: list[str], name: str) -> ClusterFamily:
    def measure_round() -> list[Row]:
        turns.append(name)
        return [Row(figure=name, unit="", rounds=(1.0,))]

    @contextlib.contextmanager
    def family(_bench: ClusterBench) -> Iterator[Sides]:
        yield Sides(measures={"tidelog": measure_round})

    return family


def options(*figures: str, rounds: int = 3, minutes: float = 25.0) -> argparse.Namespace:
    return argparse.Namespace(figures=figures, rounds=rounds, minutes=minutes)


def test_figures_are_named_in_a_list() -> None:
    assert names("produce,latency") == ("produce", "latency")


def test_unknown_figure_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"no figure latncy; there are produce, .*latency"
    ):
        names("produce,latncy")


def test_long_families_have_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[str]()
    monkeypatch.setattr(
        cluster_peers,
        "FIGURES",
        {name: family_that_counts(turns, name) for name in ("produce", "partitions")},
    )
    measure(options("produce", "partitions"), a_bench(), Results())
    assert turns == ["produce"] * 3 + ["partitions"]
    assert set(MOST_ROUNDS) <= set(FIGURES)


def test_family_that_would_begin_too_late_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, results = list[str](), Results()
    monkeypatch.setattr(
        cluster_peers, "FIGURES", {name: family_that_counts(turns, name) for name in ("one", "two")}
    )
    clock = iter([0.0, 59.0, 59.0, 59.5, 61.0])
    monkeypatch.setattr(cluster_peers, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    measure(options("one", "two", rounds=1, minutes=1), a_bench(), results)
    assert turns == ["one"]
    assert results.failures == {"two": "left out: 1 minutes were over"}


def test_figure_of_one_node_is_taken_on_all_nodes_of_a_cluster() -> None:
    laid = list[list[list[int]]]()

    @contextlib.contextmanager
    def topic(assignment: list[list[int]]) -> Iterator[str]:
        laid.append(assignment)
        yield "new"

    def measure_one(broker: Measured, bench: Asked) -> list[Row]:
        with broker.topic(2) as name:
            return [
                Row(
                    figure=f"{name} at {broker.address}",
                    unit="",
                    rounds=(broker.cpu_s(), bench.count(7)),
                )
            ]

    nodes = SimpleNamespace(
        bootstrap="a:1,b:2,c:3", cpu_s=lambda: 4.5, rss_bytes=lambda: 1, topic=topic
    )
    (row,) = as_one_node(measure_one, 0.5)(cast("Nodes", nodes), a_bench())
    assert (row.figure, row.rounds) == ("new at a:1,b:2,c:3", (4.5, 3))
    assert laid == [[[1, 2, 3], [2, 3, 1]]]


def test_families_are_described_where_figures_are_read() -> None:
    described = Path(cluster_peers.__file__).with_name("README.md").read_text()
    assert [name for name in FIGURES if f"| `{name}` |" not in described] == []


def test_report_is_written_anew_with_what_was_measured_and_what_failed(tmp_path: Path) -> None:
    report = Report(tmp_path / "new", {"machine": "two cores"})
    row = Row(figure="produce", unit="MB/s", rounds=(2.0,), peer="Apache Kafka", peer_rounds=(1.0,))
    report.write([], {})
    report.write([row], {"faults": "there is no java"})
    told = json.loads(report.json_file.read_text())
    assert (told["machine"], told["failures"], told["rows"][0]["ratio"]) == (
        "two cores",
        {"faults": "there is no java"},
        2.0,
    )
    text = report.markdown_file.read_text()
    assert "| produce | MB/s | 2 | 2 - 2 | 1 | 1 - 1 | 2.00 |" in text
    assert "faults failed: there is no java" in text
    assert sorted(path.name for path in report.json_file.parent.iterdir()) == [
        "cluster_peers.json",
        "cluster_peers.md",
    ]


def test_every_node_has_the_same_share_of_leaders_and_replicas() -> None:
    assert spread(4) == [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert spread(3, 2) == [[1, 2], [2, 3], [3, 1]]
    assert led_by(2) == [[2, 1, 3]]


def test_node_that_is_gone_accepts_no_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert accepts(address)
    assert not accepts(address)


def test_move_goes_to_the_node_that_has_nothing() -> None:
    assert [other_than(*each) for each in spread(3, 2)] == [3, 1, 2]


def test_longest_time_between_two_acknowledgements_counts() -> None:
    seen = Acknowledged(moments=[1.0, 1.25, 3.25, 3.5])
    assert seen.longest_gap_s() == 2.0


def test_record_that_fails_is_no_acknowledgement() -> None:
    seen = Acknowledged()
    seen.note("timed out", None)
    assert (seen.moments, seen.failures) == ([], ["timed out"])


@dataclass
class Told:
    leader: int
    isrs: list[int]


def test_partition_is_in_sync_with_a_leader_and_three_replicas() -> None:
    told = [Told(1, [1, 2, 3]), Told(-1, [1, 2, 3]), Told(1, [1, 2])]
    assert counted(told, is_in_sync) == 1


def test_wait_ends_with_what_was_waited_for() -> None:
    with pytest.raises(BenchmarkError, match="a topic is moved: not within 0 s"):
        until(lambda: False, 0.0, "a topic is moved", deadline_s=0.0)


def test_wait_begins_anew_where_what_was_so_is_so_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    slept, looks = [0.0], iter([False, True, True, False, True, True, True])
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(cluster_nodes, "time", clock)
    assert until(lambda: next(looks), 1.0, "the cluster is whole", calm_s=2.0) == 3.0
    assert (sum(slept), next(looks, None)) == (5.0, None)


def test_run_without_the_peers_jars_ends_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_KAFKA_LIBS", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["cluster_peers", "--out", str(tmp_path / "out")])
    with pytest.raises(
        SystemExit,
        match=r"there are no jars of Apache Kafka in .*; --alone leaves Apache Kafka out",
    ):
        cluster_peers.main()
    assert not (tmp_path / "out").exists()
