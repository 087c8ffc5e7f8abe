"""Each timer's key begins with its kind.

After a stall those that remove silent members are put off.
"""

from collections.abc import Hashable

import pytest

from log_service.coordinator.group.classic import joining
from log_service.coordinator.group.consumer import sessions
from log_service.coordinator.group.consumer.regex_refresher import regex_timer
from log_service.coordinator.group.member_sessions import session_timer
from log_service.coordinator.group.offsets.removals import EXPIRY_TIMER, ORPHAN_TIMER
from log_service.coordinator.group.share.groups import DELETED_TOPICS_TIMER
from log_service.coordinator.group.share.heartbeats import share_session_timer
from log_service.coordinator.group.streams.heartbeats import (
    streams_delay_timer,
    streams_rebalance_timer,
    streams_session_timer,
)
from log_service.coordinator.group.timer_kinds import TimerKind, is_about_silence

OF_SILENCE = [
    session_timer("g", "m"),
    joining.join_timer("g"),
    joining.sync_timer("g"),
    sessions.join_timer("g", "m"),
    sessions.sync_timer("g", "m"),
    sessions.rebalance_timer("g", "m", 1),
    share_session_timer("g", "m"),
    streams_session_timer("g", "m"),
    streams_rebalance_timer("g", "m"),
]
OTHERS = [
    streams_delay_timer("g"),
    regex_timer("g"),
    EXPIRY_TIMER,
    ORPHAN_TIMER,
    DELETED_TOPICS_TIMER,
]


@pytest.mark.parametrize(
    ("key", "expected"), [*((key, True) for key in OF_SILENCE), *((key, False) for key in OTHERS)]
)
def test_timers_of_silence_are_those_that_remove_members(key: Hashable, *, expected: bool) -> None:
    assert is_about_silence(key) is expected


def test_the_key_of_every_timer_begins_with_a_kind_and_every_kind_has_a_timer() -> None:
    kinds = [key[0] for key in (*OF_SILENCE, *OTHERS)]
    assert all(isinstance(kind, TimerKind) for kind in kinds)
    assert set(kinds) == set(TimerKind)
