"""Groups and their lag, under kafka_exporter's names: ``kafka_consumergroup_*``.

Decides the names. Lag is high watermark - committed offset, and never negative. Committed offsets
in partitions that this node does not lead have no lag here.
"""

from collections.abc import Iterator, Mapping, Sequence

from log_service.coordinator.group.listing import GroupOverview
from log_service.metrics.exposition import Family, Sample, escaped, labels
from log_service.replication.partition import Partition

Partitions = Mapping[tuple[str, int], Partition]


def group_families(groups: Sequence[GroupOverview], partitions: Partitions) -> Iterator[Family]:
    """Yield members, committed offsets and lag of every group."""
    yield _family("members", "Members of the group.", _members(groups))
    yield _family("current_offset", "Committed offset.", _positions(groups))
    yield _family(
        "current_offset_sum",
        "Sum of a topic's committed offsets.",
        _sums(groups, partitions, is_lag=False),
    )
    yield _family("lag", "High watermark - committed offset.", _lags(groups, partitions))
    yield _family("lag_sum", "Sum of a topic's lags.", _sums(groups, partitions, is_lag=True))


def _family(name: str, text: str, samples: Iterator[Sample]) -> Family:
    return Family(name=f"kafka_consumergroup_{name}", type="gauge", help=text, samples=samples)


def _members(groups: Sequence[GroupOverview]) -> Iterator[Sample]:
    for group in groups:
        yield "", labels({"consumergroup": group.group_id}), group.member_count


def _positions(groups: Sequence[GroupOverview]) -> Iterator[Sample]:
    for group in groups:
        name = escaped(group.group_id)
        for (topic, index), offset in group.offsets.items():
            yield "", f'consumergroup="{name}",topic="{topic}",partition="{index}"', offset


def lag_of(partitions: Partitions, where: tuple[str, int], offset: int) -> int | None:
    """Return high watermark - ``offset``, at least 0. None if this node does not lead ``where``."""
    partition = partitions.get(where)
    return (
        None
        if partition is None or not partition.is_leader
        else max(0, partition.high_watermark - offset)
    )


def _lags(groups: Sequence[GroupOverview], partitions: Partitions) -> Iterator[Sample]:
    for group in groups:
        name = escaped(group.group_id)
        for (topic, index), offset in group.offsets.items():
            lag = lag_of(partitions, (topic, index), offset)
            if lag is not None:
                yield "", f'consumergroup="{name}",topic="{topic}",partition="{index}"', lag


def _sums(
    groups: Sequence[GroupOverview], partitions: Partitions, *, is_lag: bool
) -> Iterator[Sample]:
    for group in groups:
        sums: dict[str, int] = {}
        for where, offset in group.offsets.items():
            value = lag_of(partitions, where, offset) if is_lag else offset
            if value is not None:
                sums[where.topic] = sums.get(where.topic, 0) + value
        for topic, value in sums.items():
            yield "", labels({"consumergroup": group.group_id, "topic": topic}), value
