"""Measures the lag of a table behind its topic, per partition and in all.

The lag is the high watermark less the committed offset. Reads offsets from the log service and
checkpoints from the table, and writes nothing. Sensors and checks decide which lag is too large.
Invariant: a partition that was never committed counts from its log start.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from orchestration.lake.tables import Lake, TableSnapshot
from orchestration.log_client.protocol import LogClient, LogServiceError, TopicDescription
from orchestration.offsets.planning import Checkpoint, PartitionOffsets
from orchestration.offsets.ranges import OffsetRange

MAX_LOOKED_AT = 8
Load = Callable[[], TableSnapshot | None]
"""Loads a table of the lake. None if it does not exist yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The progress of a table in one partition.

    ``lag`` also counts records that retention removed. ``pending`` counts readable offsets only.
    """

    partition: int
    log_start_offset: int
    committed_offset: int
    last_stable_offset: int
    high_watermark: int

    @property
    def lag(self) -> int:
        """Offsets below the high watermark that are not committed."""
        return max(self.high_watermark - self.committed_offset, 0)

    @property
    def next_readable_offset(self) -> int:
        """The first offset that is not committed and still in the log."""
        return max(self.committed_offset, self.log_start_offset)

    @property
    def pending(self) -> int:
        """The number of offsets that a run could read now.

        They begin at the next readable one and end at the last stable offset.
        """
        return max(self.last_stable_offset - self.next_readable_offset, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLag:
    """The progress of a table in its topic, and in ``others`` if it reads several topics.

    ``lag`` and ``pending`` cover all of them.
    """

    topic: str
    topic_id: str
    committed: Mapping[int, Checkpoint]
    partitions: tuple[PartitionLag, ...]
    others: tuple["TopicLag", ...] = ()

    @property
    def each(self) -> tuple["TopicLag", ...]:
        """The progress in each topic."""
        return (self, *self.others)

    @property
    def lag(self) -> int:
        """The lag of all partitions."""
        return sum(one.lag for one in self.partitions) + sum(other.lag for other in self.others)

    @property
    def pending(self) -> int:
        """The number of offsets that a run could read now."""
        return sum(one.pending for one in self.partitions) + sum(
            other.pending for other in self.others
        )

    @property
    def high_watermark(self) -> int:
        """The sum of the high watermarks of the topic's partitions. It grows with every record."""
        return sum(one.high_watermark for one in self.partitions)


def lag_of(
    topic: str, topic_id: str, log: Sequence[PartitionOffsets], committed: Mapping[int, Checkpoint]
) -> TopicLag:
    """Return the lag of a table, from the offsets of the log and those that the table committed."""
    partitions = tuple(
        PartitionLag(
            partition=one.partition,
            log_start_offset=one.log_start_offset,
            committed_offset=(
                committed[one.partition].next_offset
                if one.partition in committed
                else one.log_start_offset
            ),
            last_stable_offset=one.last_stable_offset,
            high_watermark=one.high_watermark,
        )
        for one in log
    )
    return TopicLag(
        topic=topic, topic_id=topic_id, committed=dict(committed), partitions=partitions
    )


def measure_lag(
    log: LogClient, lake: Lake, *, topic: str, table: str, also: Sequence[str] = ()
) -> TopicLag | None:
    """Return the lag of ``table`` behind ``topic``, and behind the topics that it reads ``also``.

    Return None if one of the topics does not exist.

    :raises LogServiceError: the log service does not respond.
    """
    found = [log.describe_topic(one) for one in (topic, *also)]
    known = [one for one in found if one is not None]
    return (
        lag_behind(log, known, lambda: lake.snapshot(table)) if len(known) == len(found) else None
    )


def lag_behind(log: LogClient, descriptions: Sequence[TopicDescription], load: Load) -> TopicLag:
    """Return the lag of a table behind one or more existing topics.

    The result is the lag behind the first topic. Its ``others`` have those behind the other topics.
    ``load`` loads the table.

    :raises LogServiceError: the offsets of a topic cannot be read.
    :raises DeltaError, OSError: the table cannot be read.
    """
    first, *others = [lag_in(log, one, load) for one in descriptions]
    return replace(first, others=tuple(others))


def lag_in(log: LogClient, description: TopicDescription, load: Load) -> TopicLag:
    """Return the lag of a table behind one existing topic.

    :raises LogServiceError: the topic's offsets cannot be read.
    :raises DeltaError, OSError: the table cannot be read.
    """
    topic = description.topic
    offsets = log.partition_offsets(topic)
    snapshot = load()
    committed = (
        snapshot.checkpoints(description.topic_id, [one.partition for one in offsets])
        if snapshot
        else {}
    )
    return lag_of(topic, description.topic_id, offsets, committed)


def seconds_behind(log: LogClient, lag: TopicLag, now_s: float) -> float | None:
    """Return for how long the oldest uncommitted record has waited, in seconds.

    It is 0.0 if no record waits, and None if it is unknown. Looks at the partitions that lag most,
    up to ``MAX_LOOKED_AT``. A record without timestamp, or one that was compacted away, does not
    count.
    """
    pending = [(of.topic, one) for of in lag.each for one in of.partitions if one.pending]
    waiting = sorted(pending, key=lambda found: found[1].pending, reverse=True)[:MAX_LOOKED_AT]
    if not waiting:
        return 0.0
    read = log.range_reader()
    times_s: list[float] = []
    # retention was faster, or the log went away: lag is reported all the same, and no more time is
    # spent
    with suppress(LogServiceError):
        for topic, one in waiting:
            first = OffsetRange(
                partition=one.partition,
                start=one.next_readable_offset,
                end=one.next_readable_offset + 1,
            )
            times_s += [
                moment.timestamp()
                for batch in read(topic, first)
                for moment in batch["timestamp"].to_pylist()
                if moment
            ]
    return max(round(now_s - min(times_s), 3), 0.0) if times_s else None
