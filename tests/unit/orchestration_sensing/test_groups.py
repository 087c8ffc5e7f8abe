"""Which groups are looked at, and what of them is worth an observation."""

from orchestration.sensing.groups import GroupLag, asset_key, choose_groups, decide_groups
from orchestration.sensing.progress import TELL_INTERVAL_S, Told


def lagging(lag: int, state: str = "Stable") -> GroupLag:
    return GroupLag(kind="consumer", state=state, member_count=1, lags={"orders": lag})


def test_a_group_is_told_when_something_of_it_changes() -> None:
    told = {name: Told(value=lagging(3).value, at_s=100.0) for name in ("same", "grown", "done", "other state", "away", "unseen")}
    found = {"same": lagging(3), "grown": lagging(4), "done": lagging(0), "other state": lagging(3, "Empty"), "new": lagging(7)}
    listed = [*found, "unseen"]
    due, gone, known = decide_groups(found, listed, told, 101.0)
    assert (due, gone) == (["done", "new"], ["away"])
    assert known.keys() == {*found, "unseen"}
    due, gone, _ = decide_groups(found, listed, known, 100.0 + TELL_INTERVAL_S)
    assert (due, gone) == (["grown", "other state"], [])


def test_the_platforms_own_groups_and_those_beyond_the_bound_are_left_out() -> None:
    groups = ["b", "a", "c", "tidelog.clean_orders", "tidelog-topic.enriched"]
    assert choose_groups(groups, ["*"], 3) == (["a", "b", "c"], "")
    chosen, sentence = choose_groups(groups, ["*"], 2)
    assert chosen == ["a", "b"]
    assert "of 3 groups only the first 2" in sentence
    assert choose_groups(groups, ["c*"], 2) == (["c"], "")
    assert asset_key("a").path == ["groups", "a"]
