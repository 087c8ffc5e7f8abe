"""The sensor looks at groups that match, and observes those that changed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from orchestration.resources.log_service import LogServiceResource
from orchestration.sensing import groups
from orchestration.sensing.groups import (
    GroupLag,
    asset_key,
    choose_groups,
    decide_groups,
    group_sensor,
    read_reported,
    read_stop,
    written,
)
from orchestration.sensing.progress import REPORT_INTERVAL_S, Reported


def lagging(lag: int, state: str = "Stable") -> GroupLag:
    return GroupLag(kind="consumer", state=state, member_count=1, lags={"orders": lag})


def test_a_group_is_told_when_something_of_it_changes() -> None:
    told = {
        name: Reported(value=lagging(3).value, at_s=100.0)
        for name in ("same", "grown", "done", "other state", "away", "unseen")
    }
    found = {
        "same": lagging(3),
        "grown": lagging(4),
        "done": lagging(0),
        "other state": lagging(3, "Empty"),
        "new": lagging(7),
    }
    listed = [*found, "unseen"]
    due, gone, known = decide_groups(found, listed, told, 101.0)
    assert (due, gone) == (["done", "new"], ["away"])
    assert known.keys() == {*found, "unseen"}
    due, gone, _ = decide_groups(found, listed, known, 100.0 + REPORT_INTERVAL_S)
    assert (due, gone) == (["grown", "other state"], [])


def test_the_platforms_own_groups_and_those_beyond_the_bound_are_left_out() -> None:
    groups = ["b", "a", "c", "tidelog.clean_orders", "tidelog-topic.enriched"]
    assert choose_groups(groups, ["*"], 3) == (["a", "b", "c"], "")
    chosen, sentence = choose_groups(groups, ["*"], 2)
    assert chosen == ["a", "b"]
    assert "of 3 groups only the first 2" in sentence
    assert choose_groups(groups, ["c*"], 2) == (["c"], "")
    assert asset_key("a").path == ["groups", "a"]


class SlowCluster(LogServiceResource):
    """A cluster of five groups."""

    @contextmanager
    def open_admin(self, *, timeout_ms: int | None = None) -> Iterator[Any]:
        """Yield what lists the groups."""
        assert timeout_ms
        yield SimpleNamespace(
            list_groups=lambda: [SimpleNamespace(group_id=name) for name in "ecbda"]
        )


CLUSTER = SlowCluster(bootstrap_servers="none:1")


def test_a_look_begins_after_the_group_at_which_the_last_one_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def look(*_: object) -> GroupLag:
        nonlocal now_s
        now_s += groups.LOOK_S * 0.6
        return lagging(3)

    monkeypatch.setattr(groups, "look", look)
    after = ""
    for wanted in ("ab", "cd", "ea", "bc"):
        looked = groups.look_at_groups(CLUSTER, ["*"], 50, after=after, clock_s=lambda: now_s)
        after = looked.stopped_at
        assert "".join(looked.found) == wanted
        assert looked.listed == set("abcde")
        assert (
            f"3 groups were not looked at, because the others took {groups.LOOK_S:.0f} s"
            in looked.reasons[0]
        )


def test_every_group_has_its_turn_where_a_tick_has_time_for_one_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "look", lambda *_: lagging(3))
    monkeypatch.setattr(groups, "LOOK_S", -1.0)
    sensor, cursor, told = group_sensor(now_s=lambda: 1_000.0), None, []
    for _ in range(6):
        result: Any = sensor(
            dg.build_sensor_context(cursor=cursor, resources={"log_service": CLUSTER})
        )
        cursor = result.cursor
        told += [event.asset_key.path[-1] for event in result.asset_events]
    assert told == list("abcde")


def test_a_tick_that_looked_at_all_groups_is_followed_by_one_that_begins_with_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    def look(_: object, listed: Any, __: object) -> GroupLag:
        seen.append(listed.group_id)
        return lagging(3)

    monkeypatch.setattr(groups, "look", look)
    sensor = group_sensor(now_s=lambda: 1_000.0)
    cursor: str | None = written({}, "c")
    for wanted in ("deabc", "abcde"):
        seen.clear()
        result: Any = sensor(
            dg.build_sensor_context(cursor=cursor, resources={"log_service": CLUSTER})
        )
        cursor = result.cursor
        assert "".join(seen) == wanted


def test_cursors_are_read_back_and_those_of_before_too() -> None:
    told = {name: Reported(value="3", at_s=1.0) for name in ("a", "told", "stopped_at")}
    assert read_reported(written(told, "b")) == told
    assert read_stop(written(told, "b")) == "b"
    older = json.dumps({name: ["3", 1.0] for name in told})
    assert read_reported(older) == told
    assert read_stop(older) == ""
    for lost in (None, "", "{", "[1]", "3"):
        assert read_reported(lost) == {}
        assert read_stop(lost) == ""
