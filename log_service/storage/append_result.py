"""What an append to a log returns. Decides nothing."""

from typing import NamedTuple


class AppendResult(NamedTuple):
    """Where batches went.

    ``last_offset`` is inclusive; ``append_time_ms`` is -1 unless the log stamps its own time, or the latest timestamp of a batch that was
    repeated; ``must_sync`` asks for a ``sync`` before the append is acknowledged (``flush.messages``).
    """

    base_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    is_duplicate: bool
    must_sync: bool
