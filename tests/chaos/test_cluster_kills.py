"""A few faults of three loaded nodes in every run of the tests; ``make chaos NODES=3 KILLS=500`` plays hundreds."""

from pathlib import Path
from typing import Self

import pytest

from tests.chaos.cluster_faults import KINDS, OF_DISKS, steps
from tests.chaos.cluster_kills import Outcome, run
from tests.chaos.operator import Operator
from tests.helpers.whole import of_a_run


@pytest.mark.integration
@pytest.mark.timeout(900)
def test_faults_of_three_loaded_nodes_break_no_promise(tmp_path: Path) -> None:
    outcome = run(tmp_path, 10, seed=6, pause_seconds=of_a_run(0.02, whole=0.004))
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
        return {fault.kind for step in steps(1, 1_000, has_disks=has_disks) for fault in step.faults}

    assert kinds(has_disks=True) == set(KINDS)
    assert kinds(has_disks=False) == set(KINDS) - set(OF_DISKS)


def test_a_broken_promise_is_told_with_the_place_of_the_logs(tmp_path: Path) -> None:
    told = str(Outcome(folder=tmp_path, size=3, seed=7, faults=["a record is lost"]))
    assert "seed 7" in told
    assert "a record is lost" in told
    assert str(tmp_path) in told


def test_the_operator_holds_the_cluster_to_what_it_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
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
