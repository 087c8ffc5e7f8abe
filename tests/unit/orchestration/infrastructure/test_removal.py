"""A broker is stopped and forgotten only once the cluster says that it is empty.

A command or a job empties it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
import trio
from click.testing import CliRunner

from log_service.cli import cluster_moves
from log_service.cli.main import tidelog
from log_service.client.admin.values import ConfigResource
from log_service.cluster_operations import removal
from log_service.cluster_operations.cordoning import Cordon
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from log_service.cluster_plans.plan import Plan
from orchestration.infrastructure.cluster import jobs
from orchestration.infrastructure.cluster.jobs import RemoveConfig
from orchestration.resources.log_service import LogServiceResource
from tests.helpers.stand_ins import InThread, opening, returning
from tests.unit.cluster_plans.layouts import broker, layout, partition

LAYOUT = layout([broker(1), broker(2, is_fenced=True)], [partition("t", 0, [1])])
DONE: list[str] = []


class Admin:
    """One that notes what it was to do, of a cluster whose brokers 1 and 2 serve and take new
    partitions.
    """

    async def describe_cluster(self) -> SimpleNamespace:
        return SimpleNamespace(
            cluster_id="c", nodes=[SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)]
        )

    async def describe_configs(
        self, resources: list[ConfigResource]
    ) -> dict[ConfigResource, dict[str, Any]]:
        return {
            each: {"cordoned.log.dirs": SimpleNamespace(value="", source="DEFAULT_CONFIG")}
            for each in resources
        }

    async def alter_configs(self, changes: dict[ConfigResource, dict[str, str | None]]) -> None:
        for resource, values in changes.items():
            DONE.append(
                f"{'cordon' if values['cordoned.log.dirs'] == '*' else 'uncordon'} {resource.name}"
            )

    async def unregister_broker(self, node_id: int) -> None:
        DONE.append(f"forget {node_id}")


class LogService(LogServiceResource):
    """The log service with that admin."""

    @contextmanager
    def open_admin(self, *, timeout_ms: int | None = None) -> Iterator[Any]:
        assert timeout_ms is None
        yield InThread(Admin())


async def stop(node_id: int) -> None:
    DONE.append(f"stop {node_id}")


async def not_empty(_admin: Any, _broker_id: int) -> ClusterLayout:
    raise PlanRefused("it has 1 replica")


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 is down, a voter no more, and as empty as the plan could make it."""
    DONE.clear()

    async def remove_voter(_admin: Any, node_id: int) -> bool:
        DONE.append(f"end the vote of {node_id}")
        return True

    monkeypatch.setattr(jobs, "read_layout", returning(LAYOUT))
    monkeypatch.setattr(jobs, "refuse_removal", returning({}))
    monkeypatch.setattr(removal, "drain", lambda *_, **__: Plan(moves=()))
    monkeypatch.setattr(removal, "remove_voter", remove_voter)
    monkeypatch.setattr(removal, "wait_until_empty", returning(LAYOUT))


def play(*, dry_run: bool) -> None:
    jobs.remove(
        dg.build_op_context(resources={"log_service": LogService()}),
        RemoveConfig(broker=2, dry_run=dry_run),
    )


def test_a_job_forgets_a_broker_that_is_empty() -> None:
    play(dry_run=True)
    assert DONE == []
    play(dry_run=False)
    assert DONE == ["end the vote of 2", "forget 2"]


def test_a_job_leaves_a_broker_that_is_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its moves may have been taken back, of which the job only warned."""
    monkeypatch.setattr(removal, "wait_until_empty", not_empty)
    with pytest.raises(dg.Failure, match="it has 1 replica"):
        play(dry_run=False)
    assert DONE == []


def test_a_command_forgets_a_broker_that_is_empty_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin: Any = Admin()
    cordon = Cordon(DONE.append)
    assert trio.run(removal.forget, admin, 2, None, cordon) == "broker 2 is forgotten"
    assert DONE == ["end the vote of 2", "forget 2"]
    monkeypatch.setattr(removal, "wait_until_empty", not_empty)
    with pytest.raises(PlanRefused):
        trio.run(removal.forget, admin, 2, stop, cordon)
    assert DONE == ["end the vote of 2", "forget 2"]


# New partitions meanwhile

SERVING = layout([broker(1), broker(2)], [partition("t", 0, [1])])


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 2 serves, and a supervisor on the data directory runs it."""

    async def look(_admin: Any) -> ClusterLayout:
        DONE.append("look")
        return SERVING

    installation = SimpleNamespace(stop_for_good=stop, runs=lambda *_: True)
    monkeypatch.setattr(jobs, "refuse_to_stop", lambda *_: None)
    monkeypatch.setattr(cluster_moves, "refuse_to_stop", lambda *_: None)
    monkeypatch.setattr(cluster_moves, "refuse_removal", returning({}))
    monkeypatch.setattr(cluster_moves, "refuse_unknown_brokers", returning(None))
    monkeypatch.setattr(cluster_moves, "open_admin", opening(Admin()))
    monkeypatch.setattr(jobs, "_installation", lambda: installation)
    monkeypatch.setattr(cluster_moves, "Installation", lambda _data: installation)
    for module in (jobs, cluster_moves, removal):
        monkeypatch.setattr(module, "read_layout", look)
    monkeypatch.setattr(removal, "wait_until_empty", returning(SERVING))
    monkeypatch.setattr(removal, "wait_until_fenced", returning(None))


def command(name: str, *arguments: str) -> int:
    return CliRunner().invoke(tidelog, ["cluster", name, "2", *arguments]).exit_code


@pytest.mark.usefixtures("serving")
def test_a_broker_takes_no_new_partitions_from_before_it_is_planned_until_it_is_forgotten() -> None:
    """A topic that was created after the plan, or between the last look and the stop, landed on it."""
    gone = ["look", "cordon 2", "look", "end the vote of 2", "stop 2", "forget 2"]
    play(dry_run=False)
    assert gone == DONE
    DONE.clear()
    assert command("remove", "--execute") == 0
    assert gone == DONE


@pytest.mark.usefixtures("serving")
def test_a_plan_that_is_only_shown_cordons_nothing() -> None:
    play(dry_run=True)
    assert (command("remove"), command("remove", "--execute", "--dry-run"), command("drain")) == (
        0,
        2,
        0,
    )
    assert set(DONE) == {"look"}


@pytest.mark.usefixtures("serving")
def test_a_broker_that_stays_takes_new_partitions_again(monkeypatch: pytest.MonkeyPatch) -> None:
    back = ["look", "cordon 2", "look", "uncordon 2"]
    monkeypatch.setattr(removal, "wait_until_empty", not_empty)
    with pytest.raises(dg.Failure, match="it has 1 replica"):
        play(dry_run=False)
    assert back == DONE
    DONE.clear()
    assert command("remove", "--execute") == 1
    assert back == DONE
    DONE.clear()
    assert command("drain", "--execute") == 0
    assert back == DONE


@pytest.mark.usefixtures("serving")
def test_a_broker_whose_moves_are_interrupted_takes_new_partitions_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any, **__: Any) -> bool:
        raise KeyboardInterrupt

    async def present(*_: Any, **__: Any) -> bool:
        return interrupted()

    monkeypatch.setattr(cluster_moves, "present", present)
    monkeypatch.setattr(jobs, "_done", interrupted)
    with pytest.raises(KeyboardInterrupt):
        play(dry_run=False)
    assert command("remove", "--execute") != 0
    assert DONE == ["look", "cordon 2", "look", "uncordon 2"] * 2
