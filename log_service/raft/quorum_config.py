"""The times and sizes of the metadata quorum: a view of ``controller.quorum.*``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Defaults are Kafka's: voters of both products in one quorum must agree on what is late.

    An election timer runs between one and two times ``election_timeout_ms``; a voter that has fetched nothing for ``fetch_timeout_ms``
    prepares an election, and a leader that no majority has fetched from for one and a half times that resigns.
    """

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20
    listener_name: str = "CONTROLLER"

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader goes without a majority."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        """How often a leader tells a voter that does not fetch who leads."""
        return self.fetch_timeout_ms // 2
