"""Metrics of producers and consumers, under the names that Kafka's clients use.

Counters change per request, per batch and per poll, never per record. ``metrics()`` of a client
returns one frozen value. Its ``named()`` returns the names with dashes that dashboards use. This
module knows no network.

Invariants: totals only grow. Averages and maxima cover the last 30 to 60 seconds and are 0 if
nothing happened. Times are in ms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from log_service.common.types import TopicPartition
from log_service.protocol.messages.fetch import FetchResponse

WINDOW_MS = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetrics:
    """Metrics of every client.

    ``*_byte_total`` are bytes on the wire, ``metadata_age`` is in seconds.
    """

    connection_count: int
    connection_creation_total: int
    connection_failure_total: int
    incoming_byte_total: int
    outgoing_byte_total: int
    metadata_age: float

    def named(self) -> dict[str, float]:
        """Return all numbers by Kafka's names, such as ``record-send-total``.

        Fields with several values, such as those by partition, are left out.
        """
        values = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        return {
            name.replace("_", "-"): value
            for name, value in values.items()
            if isinstance(value, int | float)
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProduceMetrics:
    """Metrics of a producer for one topic. ``byte_total`` counts batches as they were sent."""

    record_send_total: int = 0
    record_error_total: int = 0
    record_retry_total: int = 0
    byte_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics(ClientMetrics):
    """Metrics of a producer.

    ``record_send_total`` counts acknowledged records. ``record_queue_time_*`` is the time from the
    first record of a batch to its request.
    """

    record_send_total: int
    record_error_total: int
    record_retry_total: int
    byte_total: int
    batch_split_total: int
    request_total: int
    request_latency_avg: float
    request_latency_max: float
    record_queue_time_avg: float
    record_queue_time_max: float
    batch_size_avg: float
    batch_size_max: float
    records_per_request_avg: float
    produce_throttle_time_avg: float
    produce_throttle_time_max: float
    requests_in_flight: int
    waiting_threads: int
    buffer_total_bytes: int
    buffer_available_bytes: int
    topics: Mapping[str, TopicProduceMetrics]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetrics(ClientMetrics):
    """Metrics of a consumer.

    ``records_lag`` is by partition, as of its last fetch. ``last_poll_seconds_ago`` is -1 before
    the first poll.
    """

    records_consumed_total: int
    bytes_consumed_total: int
    fetch_total: int
    fetch_latency_avg: float
    fetch_latency_max: float
    fetch_size_avg: float
    fetch_size_max: float
    fetch_throttle_time_avg: float
    fetch_throttle_time_max: float
    records_lag_max: int
    buffered_bytes: int
    assigned_partitions: int
    commit_total: int
    commit_latency_avg: float
    commit_latency_max: float
    heartbeat_total: int
    heartbeat_response_time_max: float
    join_total: int
    rebalance_total: int
    failed_rebalance_total: int
    rebalance_latency_avg: float
    rebalance_latency_max: float
    last_poll_seconds_ago: float
    time_between_poll_avg: float
    time_between_poll_max: float
    records_lag: Mapping[TopicPartition, int]


class Spread:
    """Average and maximum of one quantity over the current and the previous time window."""

    __slots__ = ("_before", "_count", "_highest", "_started_ms", "_sum")

    def __init__(self) -> None:
        self._started_ms = -WINDOW_MS
        self._count, self._sum, self._highest = 0, 0.0, 0.0
        self._before = (0, 0.0, 0.0)

    def add(self, value: float, now_ms: int) -> None:
        """Count one value."""
        if now_ms - self._started_ms >= WINDOW_MS:
            self._turn(now_ms)
        self._count += 1
        self._sum += value
        self._highest = max(self._highest, value)

    def average(self, now_ms: int) -> float:
        """Return the average, or 0 if no value was recorded lately."""
        self._turn_if_over(now_ms)
        count = self._count + self._before[0]
        return (self._sum + self._before[1]) / count if count else 0.0

    def maximum(self, now_ms: int) -> float:
        """Return the highest value, or 0 if no value was recorded lately."""
        self._turn_if_over(now_ms)
        return max(self._highest, self._before[2])

    def _turn_if_over(self, now_ms: int) -> None:
        if now_ms - self._started_ms >= WINDOW_MS:
            self._turn(now_ms)

    def _turn(self, now_ms: int) -> None:
        is_recent = now_ms - self._started_ms < 2 * WINDOW_MS
        self._before = (self._count, self._sum, self._highest) if is_recent else (0, 0.0, 0.0)
        self._started_ms = now_ms
        self._count, self._sum, self._highest = 0, 0.0, 0.0


@dataclass(slots=True)
class _TopicCounts:
    send: int = 0
    error: int = 0
    retry: int = 0
    byte: int = 0


@dataclass(slots=True)
class ProducerMeter:
    """Collects the metrics of a producer. Counts nothing if ``is_on`` is false."""

    now_ms: Callable[[], int]
    is_on: bool = True
    topics: dict[str, _TopicCounts] = field(default_factory=dict)
    split_count: int = 0
    request_count: int = 0
    latency: Spread = field(default_factory=Spread)
    queue_time: Spread = field(default_factory=Spread)
    batch_size: Spread = field(default_factory=Spread)
    records_per_request: Spread = field(default_factory=Spread)
    throttle: Spread = field(default_factory=Spread)

    def note_sent(self, topic: str, size_bytes: int, queued_ms: float) -> None:
        """Count a batch that is sent."""
        if self.is_on:
            now_ms = self.now_ms()
            self.queue_time.add(queued_ms, now_ms)
            self.batch_size.add(size_bytes, now_ms)
            self._of(topic).byte += size_bytes

    def note_settled(self, topic: str, record_count: int, *, is_error: bool) -> None:
        """Count the records of a batch that was acknowledged or given up."""
        if self.is_on:
            if is_error:
                self._of(topic).error += record_count
            else:
                self._of(topic).send += record_count

    def note_retry(self, topic: str, record_count: int) -> None:
        """Count the records of a batch that is sent again."""
        if self.is_on:
            self._of(topic).retry += record_count

    def note_split(self) -> None:
        """Count a batch that is sent again in two halves."""
        self.split_count += self.is_on

    def note_request(self, started_ms: int, record_count: int, throttle_time_ms: int) -> None:
        """Count a request that got its response."""
        if self.is_on:
            now_ms = self.now_ms()
            self.request_count += 1
            self.latency.add(now_ms - started_ms, now_ms)
            self.records_per_request.add(record_count, now_ms)
            self.throttle.add(throttle_time_ms, now_ms)

    def by_topic(self) -> dict[str, TopicProduceMetrics]:
        """Return the totals of each topic."""
        return {
            name: TopicProduceMetrics(
                record_send_total=counts.send,
                record_error_total=counts.error,
                record_retry_total=counts.retry,
                byte_total=counts.byte,
            )
            for name, counts in self.topics.items()
        }

    def metrics(
        self,
        common: ClientMetrics,
        *,
        in_flight: int,
        waiting: int,
        buffer_total_bytes: int,
        buffered_bytes: int,
    ) -> ProducerMetrics:
        """Return all metrics as of now."""
        now_ms = self.now_ms()
        return ProducerMetrics(
            **{declared.name: getattr(common, declared.name) for declared in fields(common)},
            record_send_total=sum(counts.send for counts in self.topics.values()),
            record_error_total=sum(counts.error for counts in self.topics.values()),
            record_retry_total=sum(counts.retry for counts in self.topics.values()),
            byte_total=sum(counts.byte for counts in self.topics.values()),
            batch_split_total=self.split_count,
            request_total=self.request_count,
            request_latency_avg=self.latency.average(now_ms),
            request_latency_max=self.latency.maximum(now_ms),
            record_queue_time_avg=self.queue_time.average(now_ms),
            record_queue_time_max=self.queue_time.maximum(now_ms),
            batch_size_avg=self.batch_size.average(now_ms),
            batch_size_max=self.batch_size.maximum(now_ms),
            records_per_request_avg=self.records_per_request.average(now_ms),
            produce_throttle_time_avg=self.throttle.average(now_ms),
            produce_throttle_time_max=self.throttle.maximum(now_ms),
            requests_in_flight=in_flight,
            waiting_threads=waiting,
            buffer_total_bytes=buffer_total_bytes,
            buffer_available_bytes=max(buffer_total_bytes - buffered_bytes, 0),
            topics=self.by_topic(),
        )

    def _of(self, topic: str) -> _TopicCounts:
        counts = self.topics.get(topic)
        if counts is None:
            counts = self.topics[topic] = _TopicCounts()
        return counts


@dataclass(slots=True)
class ConsumerMeter:
    """Collects the metrics of a consumer. Counts nothing if ``is_on`` is false."""

    now_ms: Callable[[], int]
    is_on: bool = True
    record_count: int = 0
    byte_count: int = 0
    fetch_count: int = 0
    fetch_latency: Spread = field(default_factory=Spread)
    fetch_size: Spread = field(default_factory=Spread)
    fetch_throttle: Spread = field(default_factory=Spread)
    commit_count: int = 0
    commit_latency: Spread = field(default_factory=Spread)
    heartbeat_count: int = 0
    heartbeat_latency: Spread = field(default_factory=Spread)
    join_count: int = 0
    rebalance_count: int = 0
    failed_rebalance_count: int = 0
    rebalance_latency: Spread = field(default_factory=Spread)
    polled_ms: int = -1
    between_polls: Spread = field(default_factory=Spread)

    def note_poll(self) -> None:
        """Count a poll of the application."""
        if self.is_on:
            now_ms = self.now_ms()
            if self.polled_ms >= 0:
                self.between_polls.add(now_ms - self.polled_ms, now_ms)
            self.polled_ms = now_ms

    def note_fetch(self, started_ms: int, response: FetchResponse) -> None:
        """Count a fetch that got its response."""
        if self.is_on:
            now_ms = self.now_ms()
            sizes = (
                len(each.records)
                for topic in response.responses
                for each in topic.partitions
                if each.records is not None
            )
            self.fetch_count += 1
            self.fetch_latency.add(now_ms - started_ms, now_ms)
            self.fetch_size.add(sum(sizes), now_ms)
            self.fetch_throttle.add(response.throttle_time_ms, now_ms)

    def note_consumed(self, record_count: int, size_bytes: int) -> None:
        """Count records that a poll returned, and the bytes of responses that were fully read."""
        if self.is_on:
            self.record_count += record_count
            self.byte_count += size_bytes

    def note_commit(self, started_ms: int) -> None:
        """Count a commit that the coordinator accepted."""
        if self.is_on:
            self.commit_count += 1
            self.commit_latency.add(self.now_ms() - started_ms, self.now_ms())

    def note_heartbeat(self, started_ms: int) -> None:
        """Count a heartbeat that got its response."""
        if self.is_on:
            self.heartbeat_count += 1
            self.heartbeat_latency.add(self.now_ms() - started_ms, self.now_ms())

    def note_join(self) -> None:
        """Count a join that was sent."""
        self.join_count += self.is_on

    def note_rebalance(self, started_ms: int, *, is_failed: bool) -> None:
        """Count a join that ended with an assignment or failed for good."""
        if self.is_on:
            self.rebalance_count += not is_failed
            self.failed_rebalance_count += is_failed
            self.rebalance_latency.add(self.now_ms() - started_ms, self.now_ms())

    def metrics(
        self,
        common: ClientMetrics,
        lags: Mapping[TopicPartition, int],
        buffered_bytes: int,
        partition_count: int,
    ) -> ConsumerMetrics:
        """Return all metrics as of now."""
        now_ms = self.now_ms()
        return ConsumerMetrics(
            **{declared.name: getattr(common, declared.name) for declared in fields(common)},
            records_consumed_total=self.record_count,
            bytes_consumed_total=self.byte_count,
            fetch_total=self.fetch_count,
            fetch_latency_avg=self.fetch_latency.average(now_ms),
            fetch_latency_max=self.fetch_latency.maximum(now_ms),
            fetch_size_avg=self.fetch_size.average(now_ms),
            fetch_size_max=self.fetch_size.maximum(now_ms),
            fetch_throttle_time_avg=self.fetch_throttle.average(now_ms),
            fetch_throttle_time_max=self.fetch_throttle.maximum(now_ms),
            records_lag_max=max(lags.values(), default=0),
            buffered_bytes=buffered_bytes,
            assigned_partitions=partition_count,
            commit_total=self.commit_count,
            commit_latency_avg=self.commit_latency.average(now_ms),
            commit_latency_max=self.commit_latency.maximum(now_ms),
            heartbeat_total=self.heartbeat_count,
            heartbeat_response_time_max=self.heartbeat_latency.maximum(now_ms),
            join_total=self.join_count,
            rebalance_total=self.rebalance_count,
            failed_rebalance_total=self.failed_rebalance_count,
            rebalance_latency_avg=self.rebalance_latency.average(now_ms),
            rebalance_latency_max=self.rebalance_latency.maximum(now_ms),
            last_poll_seconds_ago=-1.0 if self.polled_ms < 0 else (now_ms - self.polled_ms) / 1_000,
            time_between_poll_avg=self.between_polls.average(now_ms),
            time_between_poll_max=self.between_polls.maximum(now_ms),
            records_lag=dict(lags),
        )
