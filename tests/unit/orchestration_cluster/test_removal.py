"""A broker is stopped and forgotten only once the cluster says that it is empty, whether a command or a job empties it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from log_service.cli import cluster_moves
from log_service.cluster_plans import plans
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.plan import Plan
from orchestration.cluster import jobs
from orchestration.cluster.jobs import RemoveConfig
from orchestration.resources.log_service import LogServiceResource
from tests.unit.cluster_plans.layouts import broker, layout, partition

LAYOUT = layout([broker(1), broker(2, is_fenced=True)], [partition("t", 0, [1])])
DONE: list[str] = []


class Admin:
    """One that notes what it was to do."""

    def unregister_broker(self, node_id: int) -> None:
        DONE.append(f"forget {node_id}")


class LogService(LogServiceResource):
    """The log service with that admin."""

    @contextmanager
    def open_admin(self, *, timeout_ms: int | None = None) -> Iterator[Any]:
        assert timeout_ms is None
        yield Admin()


def not_empty(_admin: Any, _broker_id: int) -> ClusterLayout:
    raise PlanRefused("it has 1 replica")


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 is down, a voter no more, and as empty as the plan could make it."""
    DONE.clear()

    def remove_voter(_admin: Any, node_id: int) -> bool:
        DONE.append(f"end the vote of {node_id}")
        return True

    monkeypatch.setattr(jobs, "read_layout", lambda _admin: LAYOUT)
    monkeypatch.setattr(jobs, "refuse_removal", lambda *_: [])
    monkeypatch.setattr(plans, "drain", lambda *_, **__: Plan(moves=()))
    for module in (jobs, cluster_moves):
        monkeypatch.setattr(module, "remove_voter", remove_voter)
        monkeypatch.setattr(module, "wait_until_empty", lambda *_: LAYOUT)


def play(*, dry_run: bool) -> None:
    jobs.remove(dg.build_op_context(resources={"log_service": LogService()}), RemoveConfig(broker=2, dry_run=dry_run))


def test_a_job_forgets_a_broker_that_is_empty() -> None:
    play(dry_run=True)
    assert DONE == []
    play(dry_run=False)
    assert DONE == ["end the vote of 2", "forget 2"]


def test_a_job_leaves_a_broker_that_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its moves may have been taken back, of which the job only warned."""
    monkeypatch.setattr(jobs, "wait_until_empty", not_empty)
    with pytest.raises(dg.Failure, match="it has 1 replica"):
        play(dry_run=False)
    assert DONE == []


def test_a_command_forgets_a_broker_that_is_empty_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    admin: Any = Admin()
    assert cluster_moves.forget(admin, 2, None) == "broker 2 is forgotten"
    assert DONE == ["end the vote of 2", "forget 2"]
    monkeypatch.setattr(cluster_moves, "wait_until_empty", not_empty)
    with pytest.raises(PlanRefused):
        cluster_moves.forget(admin, 2, Path("nowhere"))
    assert DONE == ["end the vote of 2", "forget 2"]
