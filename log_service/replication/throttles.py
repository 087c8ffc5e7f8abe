"""Replication throttles: rate limits for copying replicas that are being moved.

This file decides which partitions of this node are throttled, on the side of the leader or of the
follower, and whether a side has exceeded its rate. A leader throttles a follower only while the
follower is out of sync. A follower throttles a partition only while it lags. Replication that keeps
a partition safe is never slowed down. The topic names the replicas
(``leader.replication.throttled.replicas`` and ``follower...``: ``*``, or partition:broker pairs).
The broker has the rates (``leader.replication.throttled.rate`` and ``follower...``, in bytes a
second).

This file reads no clock. Invariant: without a rate nothing is throttled, whatever topics name.
"""

from collections import deque
from collections.abc import Mapping
from enum import Enum

from log_service.common.types import TopicPartition

SAMPLE_MS = 1_000
SAMPLE_COUNT = 10
"""The number of whole samples that the rate covers in addition to the current one.

This is the default of Apache Kafka's replication.quota.window.num.
"""
NO_RATE = -1
ALL = "*"


class ThrottledSide(Enum):
    """The two sides of replication that can be limited: leaders read, and followers write."""

    LEADER = "leader"
    FOLLOWER = "follower"

    @property
    def replicas_key(self) -> str:
        """The topic config that names the replicas."""
        return f"{self.value}.replication.throttled.replicas"

    @property
    def rate_key(self) -> str:
        """The broker config that sets the rate."""
        return f"{self.value}.replication.throttled.rate"


class ByteRate:
    """The number of bytes a second over the last samples."""

    __slots__ = ("_began_ms", "_bytes", "_samples")

    def __init__(self, now_ms: int) -> None:
        self._began_ms = now_ms
        self._bytes = 0
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that passed at ``now_ms``."""
        self._forget(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < SAMPLE_MS:
            began_ms, counted = self._samples.pop()
            self._samples.append((began_ms, counted + size_bytes))
        else:
            self._samples.append((now_ms, size_bytes))
        self._bytes += size_bytes

    def per_second(self, now_ms: int) -> float:
        """Return the rate in bytes a second.

        The rate is averaged over at least nine samples, so that short bursts are not throttled.
        """
        self._forget(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        return self._bytes * 1_000 / max(elapsed_ms, (SAMPLE_COUNT - 1) * SAMPLE_MS)

    def _forget(self, now_ms: int) -> None:
        while self._samples and now_ms - self._samples[0][0] > (SAMPLE_COUNT + 1) * SAMPLE_MS:
            self._bytes -= self._samples.popleft()[1]


class Throttle:
    """The throttle of the leaders or of the followers on one node."""

    __slots__ = ("_named", "_passed", "broker_id", "rate", "side")

    def __init__(self, side: ThrottledSide, broker_id: int, now_ms: int) -> None:
        self.side = side
        self.broker_id = broker_id
        self.rate = NO_RATE
        self._named: dict[str, frozenset[int] | None] = {}
        self._passed = ByteRate(now_ms)

    def __repr__(self) -> str:
        return f"<Throttle {self.side.value} rate={self.rate} topics={sorted(self._named)}>"

    def set_rate(self, text: str | None) -> None:
        """Limit the rate to that of a config text from now on. None means no limit."""
        self.rate = NO_RATE if text is None else int(text)

    def set_topic(self, topic: str, text: str | None) -> None:
        """Throttle the replicas that a topic's configuration names, from now on."""
        named = throttled_partitions(text or "", self.broker_id)
        if named is not None and not named:
            self._named.pop(topic, None)
        else:
            self._named[topic] = named

    def covers(self, partition: TopicPartition) -> bool:
        """Whether a partition of this node is throttled. Only then are its bytes counted."""
        if self.rate == NO_RATE or partition.topic not in self._named:
            return False
        named = self._named[partition.topic]
        return named is None or partition.partition in named

    def note(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes of a throttled partition that passed at ``now_ms``."""
        self._passed.note(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the rate of the counted bytes is above the limit."""
        return self.rate != NO_RATE and self._passed.per_second(now_ms) > self.rate


def throttled_partitions(text: str, broker_id: int) -> frozenset[int] | None:
    """Return the partitions of a broker that a topic's list names. None means all partitions."""
    items = [item.strip() for item in text.split(",") if item.strip()]
    if items == [ALL]:
        return None
    pairs = (item.partition(":") for item in items)
    return frozenset(int(partition) for partition, _, broker in pairs if int(broker) == broker_id)


class Throttles:
    """The throttles of both sides of one node, configured by its brokers and topics."""

    __slots__ = ("follower", "leader")

    def __init__(self, broker_id: int, now_ms: int) -> None:
        self.leader = Throttle(ThrottledSide.LEADER, broker_id, now_ms)
        self.follower = Throttle(ThrottledSide.FOLLOWER, broker_id, now_ms)

    def set_topic(self, topic: str, configs: Mapping[str, str]) -> None:
        """Apply a topic's configuration."""
        for throttle in (self.leader, self.follower):
            throttle.set_topic(topic, configs.get(throttle.side.replicas_key))

    def set_broker(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the default configuration of all brokers, overridden by this broker's own."""
        for throttle in (self.leader, self.follower):
            throttle.set_rate(own.get(throttle.side.rate_key, cluster.get(throttle.side.rate_key)))
