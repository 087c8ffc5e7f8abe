"""Metrics of a share consumer, under the names that Kafka's clients use (KIP-932).

Counters change per request and per poll.

Invariants: as in ``client.metrics``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from log_service.client.metrics import ClientMetrics, Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerMetrics(ClientMetrics):
    """Metrics of a share consumer.

    ``records_in_hand`` counts returned records that are not acknowledged yet. A refused
    acknowledgement counts as sent and as an error.
    """

    records_consumed_total: int
    records_in_hand: int
    fetch_total: int
    fetch_latency_avg: float
    fetch_latency_max: float
    acknowledgements_send_total: int
    acknowledgements_error_total: int
    heartbeat_total: int
    heartbeat_response_time_max: float
    assigned_partitions: int


@dataclass(slots=True)
class ShareConsumerMeter:
    """Collects the metrics of a share consumer. Counts nothing if ``is_on`` is false."""

    now_ms: Callable[[], int]
    is_on: bool = True
    record_count: int = 0
    fetch_count: int = 0
    fetch_latency: Spread = field(default_factory=Spread)
    acknowledged_count: int = 0
    refused_count: int = 0
    heartbeat_count: int = 0
    heartbeat_latency: Spread = field(default_factory=Spread)

    def note_consumed(self, record_count: int) -> None:
        """Count records that a poll returned."""
        self.record_count += record_count * self.is_on

    def note_fetch(self, latency_ms: float) -> None:
        """Count a fetch that ended."""
        if self.is_on:
            self.fetch_count += 1
            self.fetch_latency.add(latency_ms, self.now_ms())

    def note_acknowledged(self, count: int, *, is_refused: bool) -> None:
        """Count offsets whose acknowledgement a leader accepted or refused."""
        if self.is_on:
            self.acknowledged_count += count
            self.refused_count += count * is_refused

    def note_heartbeat(self, started_ms: int) -> None:
        """Count a heartbeat that got its response."""
        if self.is_on:
            self.heartbeat_count += 1
            self.heartbeat_latency.add(self.now_ms() - started_ms, self.now_ms())

    def metrics(
        self, common: ClientMetrics, in_hand_count: int, partition_count: int
    ) -> ShareConsumerMetrics:
        """Return all metrics as of now."""
        now_ms = self.now_ms()
        return ShareConsumerMetrics(
            **{declared.name: getattr(common, declared.name) for declared in fields(common)},
            records_consumed_total=self.record_count,
            records_in_hand=in_hand_count,
            fetch_total=self.fetch_count,
            fetch_latency_avg=self.fetch_latency.average(now_ms),
            fetch_latency_max=self.fetch_latency.maximum(now_ms),
            acknowledgements_send_total=self.acknowledged_count,
            acknowledgements_error_total=self.refused_count,
            heartbeat_total=self.heartbeat_count,
            heartbeat_response_time_max=self.heartbeat_latency.maximum(now_ms),
            assigned_partitions=partition_count,
        )
