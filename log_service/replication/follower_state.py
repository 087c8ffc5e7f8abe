"""One follower, as the leader of a partition knows it from the follower's fetches.

This file decides whether a follower has caught up, and whether it has all records that a member of
the ISR needs. ``partition_state`` decides which followers are members. This file reads no clock,
because the caller passes in the time of each fetch.
"""

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
_NEVER_MS = -(1 << 62)


def is_far_enough(follower_end_offset: int, high_watermark: int, epoch_start_offset: int) -> bool:
    """Return whether a follower has all records that a member of the ISR needs.

    A member needs all records below the high watermark, and all records from before the leader
    epoch.
    """
    return follower_end_offset >= max(high_watermark, epoch_start_offset)


class FollowerState:
    """The state of one follower, as the leader knows it from the follower's fetches.

    Times are monotonic milliseconds.
    """

    __slots__ = (
        "broker_epoch",
        "last_caught_up_ms",
        "last_fetch_ms",
        "leader_end_at_last_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_caught_up_ms = _NEVER_MS
        self.last_fetch_ms = _NEVER_MS
        self.leader_end_at_last_fetch = UNKNOWN_OFFSET

    def __repr__(self) -> str:
        return (
            f"<FollowerState end={self.log_end_offset} start={self.log_start_offset}"
            f" broker_epoch={self.broker_epoch}>"
        )

    def begin_epoch(self, leader_end_offset: int, now_ms: int, *, is_in_sync: bool) -> None:
        """Begin a leader epoch. A member of the ISR gets the full lag time for its next fetch."""
        self.last_caught_up_ms = now_ms if is_in_sync else _NEVER_MS
        self.last_fetch_ms = now_ms if is_in_sync else _NEVER_MS
        self.leader_end_at_last_fetch = leader_end_offset

    def note_fetch(
        self,
        offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> None:
        """Apply a fetch of the follower.

        If the follower now has the log end that the leader had at the previous fetch, it was caught
        up at the time of that fetch.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif offset >= self.leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset, self.log_start_offset, self.broker_epoch = (
            offset,
            log_start_offset,
            broker_epoch,
        )
        self.last_fetch_ms, self.leader_end_at_last_fetch = now_ms, leader_end_offset

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether the follower has the whole log, or had it at some time within the lag time."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= lag_max_ms
        )
