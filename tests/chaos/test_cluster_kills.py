"""Every run of the tests plays a few faults of three loaded nodes, a long one of five.

``make chaos NODES=3 KILLS=500`` plays hundreds.
"""

from collections import Counter
from pathlib import Path
from typing import Self
from unittest.mock import Mock

import pytest

from tests.chaos.cluster_faults import KINDS, OF_DISKS, Fault, Step, Striker, steps
from tests.chaos.cluster_kills import Outcome, run
from tests.chaos.operator import Operator
from tests.helpers.whole import of_a_run


@pytest.mark.integration
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [3, pytest.param(5, marks=pytest.mark.repeats)])
def test_faults_of_loaded_nodes_break_no_promise(size: int, tmp_path: Path) -> None:
    outcome = run(tmp_path, 10, seed=6, size=size, pause_seconds=of_a_run(0.02, whole=0.004))
    assert not outcome.faults, str(outcome)
    assert outcome.kinds.total() == 10
    assert all(count > 100 for count in outcome.acknowledged.values()), str(outcome)
    assert outcome.operations["reassign"] > 0, str(outcome)


def test_a_seed_plays_the_same_faults_and_another_one_others() -> None:
    assert steps(1, 50) == steps(1, 50)
    assert steps(1, 50) != steps(2, 50)
    assert sum(len(step.faults) for step in steps(1, 50)) == 50


def test_every_kind_of_fault_comes_and_none_of_disks_without_disks() -> None:
    def kinds(*, has_disks: bool) -> set[str]:
        return {
            fault.kind for step in steps(1, 1_000, has_disks=has_disks) for fault in step.faults
        }

    assert kinds(has_disks=True) == set(KINDS)
    assert kinds(has_disks=False) == set(KINDS) - set(OF_DISKS)


def test_pauses_strike_one_node_most_of_them_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minority that hangs leaves a quorum; a majority does not, and comes back as it was."""
    monkeypatch.setattr(Striker, "_holder", lambda _striker, _fault, _free, default: default)
    nodes, paused = Mock(running=(1, 2, 3, 4, 5), node_ids=(1, 2, 3, 4, 5)), Counter[int]()
    for draw in (0.1, 0.3, 0.5, 0.8, 0.95):
        striker = Striker(nodes, Mock(), lambda _: None)
        striker.play(
            Step(
                faults=(Fault(kind="pause", role="any", partition=0, seconds=0, draw=draw),),
                gap_seconds=0,
                calm_seconds=0,
                is_whole=False,
            )
        )
        assert nodes.pause.call_count == nodes.resume.call_count
        paused[nodes.pause.call_count] += 1
        nodes.reset_mock()
    assert paused == {1: 3, 3: 1, 5: 1}


def test_a_broken_promise_is_told_with_the_place_of_the_logs(tmp_path: Path) -> None:
    told = str(Outcome(folder=tmp_path, size=3, seed=7, faults=["a record is lost"]))
    assert "seed 7" in told
    assert "a record is lost" in told
    assert str(tmp_path) in told


def test_the_operator_holds_the_cluster_to_what_it_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Admin:
        def __init__(self, _bootstrap: str) -> None: ...
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...
        def list_topics(self) -> list[object]:
            return [type("Topic", (), {"name": "deleted"})]

    monkeypatch.setattr("tests.chaos.operator.BlockingAdmin", Admin)
    monkeypatch.setattr("tests.chaos.operator.SEEN_SECONDS", 0.0)
    operator = Operator("nowhere:1", 1, (1, 2, 3))
    operator.created, operator.deleted = {"created"}, {"deleted"}
    missing, left = operator.verdict()
    assert "created was created, acknowledged, and is not there" in missing
    assert "deleted was deleted, acknowledged, and is there" in left
