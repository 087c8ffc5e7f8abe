"""A step refreshes a bounded part of regular expressions.

No other group waits for a group with monstrous ones.
"""

from collections.abc import Hashable, Iterable
from typing import Any

import pytest

from log_service.common.regexes import matching, program_size
from log_service.coordinator.group.consumer import regex_refresher
from log_service.coordinator.group.consumer.regex_refresher import MIN_INTERVAL_MS
from log_service.coordinator.group.group_coordinator import GroupCoordinatorShard
from tests.unit.coordinator.consumer_story import ConsumerStory

LARGE = "(a?b?c?d?e?f?g?h?i?j?k?l?m?n?o?p?)" * 200
MOST_WORK = 50_000
"""A step ends with the name that is over its bound."""


@pytest.mark.parametrize(
    "regexes",
    [
        [LARGE],
        [f"{LARGE}{number}" for number in range(3)],
        [f"orders-{number}.*" for number in range(300)],
    ],
    ids=len,
)
def test_a_step_does_little_however_large_and_many_the_expressions_are(
    regexes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four kilobytes of an expression took 100 s in one step, and every group of the node waited.

    The cluster had two thousand topics.
    """
    names = [f"orders-{number}" for number in range(40)]
    story = ConsumerStory(topics=dict.fromkeys(names, 1))
    on_timer, work_of_steps = GroupCoordinatorShard.on_timer, [0]

    def counted(regex: str, some: Iterable[str]) -> frozenset[str]:
        chosen = tuple(some)
        work_of_steps[-1] += program_size(regex) * len(chosen)
        return matching(regex, chosen)

    def step(shard: GroupCoordinatorShard, key: Hashable, decision: Any) -> None:
        work_of_steps.append(0)
        on_timer(shard, key, decision)

    monkeypatch.setattr(regex_refresher, "matching", counted)
    monkeypatch.setattr(GroupCoordinatorShard, "on_timer", step)
    for number, regex in enumerate(regexes):
        story.enter(f"member {number}", topics=None, regex=regex)
    story.advance(2 * MIN_INTERVAL_MS)
    story.told("member 0", story.group.members["member 0"].current.epoch)
    story.advance(1_000)
    assert 0 < max(work_of_steps) < MOST_WORK
    assert sorted(story.group.regexes) == sorted(regexes)
    assert story.group.regexes[regexes[-1]].topics == matching(regexes[-1], names)
