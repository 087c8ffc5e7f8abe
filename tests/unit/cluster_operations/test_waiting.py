"""A wait for a cluster says once what it waits for, and at its end what was missing.

A wait for an empty broker asks the cluster anew.
"""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from log_service.cluster_operations import waiting
from log_service.cluster_operations.waiting import (
    ClusterNotReady,
    wait_for_sync,
    wait_until_empty,
    wait_until_fenced,
    wait_until_serving,
)
from log_service.cluster_plans.layout import ClusterLayout, PlanRefused
from tests.helpers.stand_ins import returning
from tests.unit.cluster_plans.layouts import broker, layout, partition


class Cluster:
    """One that is in sync at its ``ready_at``-th look. Each look takes half a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ready_at: int) -> None:
        self._looks: Iterator[int] = count()
        self._ready_at = ready_at
        state = SimpleNamespace(layout=None, quorum=None, silent=())
        monkeypatch.setattr(waiting, "read_state", returning(state))
        monkeypatch.setattr(waiting, "obstacles", self._obstacles)

    def _obstacles(self, *_: Any) -> list[str]:
        return [] if next(self._looks) >= self._ready_at else ["broker 1 is down"]


def run(function: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
    """Run on a clock of its own, which begins at 0 and jumps to the end of each sleep."""
    return trio.run(partial(function, *arguments, **named), clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("ready_at", "said"),
    [(2, []), (30, ["waiting for up to 60 s before broker 2 restarts: broker 1 is down"])],
)
def test_only_a_long_wait_says_what_it_is_for_and_says_it_once(
    monkeypatch: pytest.MonkeyPatch, ready_at: int, said: list[str]
) -> None:
    """It used to say nothing for ten minutes, and looked like a command that hangs."""
    Cluster(monkeypatch, ready_at)
    told: list[str] = []
    admin: Any = None
    run(wait_for_sync, admin, 2, 60.0, told.append)
    assert told == said


@pytest.mark.parametrize(
    ("is_restarted", "text"),
    [
        (False, "broker 2 is not restarted: broker 1 is down"),
        (True, "not all is in sync again: broker 1 is down"),
    ],
)
def test_a_wait_that_was_in_vain_says_what_was_missing(
    monkeypatch: pytest.MonkeyPatch, is_restarted: bool, text: str
) -> None:
    Cluster(monkeypatch, 1_000)
    admin: Any = None
    with pytest.raises(ClusterNotReady, match=text):
        run(wait_for_sync, admin, 2, 10.0, is_restarted=is_restarted)


@pytest.mark.parametrize(
    ("wait", "was_fenced", "text"),
    [
        (wait_until_serving, True, "waiting for up to 60 s until broker 2 serves"),
        (
            wait_until_fenced,
            False,
            "waiting for up to 60 s until the cluster notices that broker 2 is down",
        ),
    ],
)
@pytest.mark.parametrize(("ready_at", "is_told"), [(2, False), (30, True)])
def test_a_long_wait_for_one_broker_says_what_it_is_for(
    wait: Callable[..., Awaitable[None]],
    text: str,
    ready_at: int,
    *,
    was_fenced: bool,
    is_told: bool,
) -> None:
    told = list[str]()

    async def describe_brokers() -> list[SimpleNamespace]:
        return [
            SimpleNamespace(node_id=2, is_fenced=was_fenced == (trio.current_time() < ready_at))
        ]

    admin: Any = SimpleNamespace(describe_brokers=describe_brokers)
    run(wait, admin, 2, told.append)
    assert told == ([text] if is_told else [])


HOLDING, EMPTY = (
    layout([broker(1), broker(2)], [partition("t", 0, replicas)]) for replicas in ([2, 1], [1])
)


def looks_like(monkeypatch: pytest.MonkeyPatch, *seen: ClusterLayout) -> None:
    """Let each look at the cluster see the next of those layouts; the last one stays."""
    left = list(seen)

    async def look(_admin: object) -> ClusterLayout:
        return left.pop(0) if len(left) > 1 else left[0]

    monkeypatch.setattr(waiting, "read_layout", look)


def test_a_broker_is_empty_once_the_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is asked may tell for a moment what was before."""
    admin: Any = None
    looks_like(monkeypatch, HOLDING, HOLDING, EMPTY)
    assert run(wait_until_empty, admin, 2) is EMPTY


def test_a_broker_that_gets_replicas_while_it_is_emptied_is_not_taken_for_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin: Any = None
    looks_like(monkeypatch, HOLDING)
    with pytest.raises(
        PlanRefused,
        match=r"broker 2 is not forgotten: it has 1 replica and the leaders of 1 partition, which came since",
    ):
        run(wait_until_empty, admin, 2)
