"""The result of an append to a log."""

from typing import NamedTuple


class AppendResult(NamedTuple):
    """The offsets and the timestamp of appended batches.

    ``last_offset`` is inclusive. ``append_time_ms`` is the log append time, or -1 if the log keeps
    the producer's timestamps. For a repeated batch, ``append_time_ms`` is the latest timestamp of
    the first copy. If ``must_sync`` is true, a ``sync`` must precede the acknowledgement
    (``flush.messages``).
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    is_duplicate: bool
    must_sync: bool
