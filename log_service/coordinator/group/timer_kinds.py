"""The kinds of the timers of groups. A timer's key is a tuple that begins with its kind.

Modules that set timers build their keys from these kinds. ``GroupCoordinatorShard.on_timer`` and
the streams groups dispatch on them. The values are strings, because strings are hashed fast.
"""

from collections.abc import Hashable
from enum import StrEnum


class TimerKind(StrEnum):
    """The first element of a timer's key."""

    SESSION = "session"
    """A member of a classic or a consumer group was silent."""
    JOIN = "join"
    """A classic group's join phase ends, or a classic member of a consumer group did not rejoin."""
    SYNC = "sync"
    """Members did not sync."""
    REBALANCE = "rebalance"
    """A member of a consumer group did not revoke its partitions."""
    SHARE_SESSION = "share session"
    """A member of a share group was silent."""
    SHARE_TOPICS = "share topics"
    """States of deleted topics are removed from share groups."""
    STREAMS_SESSION = "streams session"
    """A member of a streams group was silent."""
    STREAMS_REBALANCE = "streams rebalance"
    """A member of a streams group did not revoke its tasks."""
    STREAMS_DELAY = "streams delay"
    """A new streams group no longer waits for more members."""
    REGEX = "regex"
    """The regular expressions of a consumer group are resolved again."""
    FORGET_ORPHANS = "forget-orphans"
    """Offsets of deleted partitions are removed."""
    EXPIRE_OFFSETS = "expire-offsets"
    """Expired offsets are removed."""


KINDS_OF_SILENCE = frozenset(
    {
        TimerKind.SESSION,
        TimerKind.JOIN,
        TimerKind.SYNC,
        TimerKind.REBALANCE,
        TimerKind.SHARE_SESSION,
        TimerKind.STREAMS_SESSION,
        TimerKind.STREAMS_REBALANCE,
    }
)
"""The kinds of timers that remove silent members, in every kind of group."""


def is_about_silence(key: Hashable) -> bool:
    """Whether a timer removes a member that did not send a request in time."""
    return isinstance(key, tuple) and key[0] in KINDS_OF_SILENCE
