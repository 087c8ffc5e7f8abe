"""The result of an append to a log."""

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Offsets and timestamp of appended batches.

    ``last_offset`` is inclusive. ``append_time_ms`` is -1 unless the log stamps its own time. For a
    repeated batch it is that batch's latest timestamp. ``must_sync`` asks for a ``sync`` before the
    append is acknowledged (``flush.messages``).
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    is_duplicate: bool
    must_sync: bool
