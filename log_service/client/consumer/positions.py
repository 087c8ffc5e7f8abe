"""Finding out where to read on: from the group's committed offsets, or from the log's ends and times.

Decides in which order the two are asked, and what ``auto_offset_reset`` means. Knows nothing of fetching.

Invariants: a position is set only if nobody moved the partition meanwhile; a call that fails leaves what it could not find unchanged.
"""

from collections.abc import Iterable, Mapping

from log_service.client.admin import offsets
from log_service.client.admin.groups import fetch_offsets, with_coordinator
from log_service.client.admin.values import FoundOffset, ItemsFailed, OffsetAndMetadata, OffsetSpec
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.client.consumer.subscriptions import PartitionState, Start
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig

RESETS = {"earliest": Start.EARLIEST, "latest": Start.LATEST}
LOOKED_UP = frozenset({Start.EARLIEST, Start.LATEST, Start.TIME})


async def find_positions(
    cluster: ClusterMetadata, config: ConsumerConfig, states: Iterable[PartitionState], *, is_waiting_for_leaders: bool = True
) -> None:
    """Give every partition that has none a position; without ``is_waiting_for_leaders`` only those that have a leader.

    Raises:
        KafkaError: LEADER_NOT_AVAILABLE, one has no leader, and the others have their positions; OFFSET_OUT_OF_RANGE, ``auto_offset_reset``
            is none and nothing was committed; or what the cluster refused with.
    """
    waiting = [state for state in states if not state.has_position]
    await _take_committed(cluster, config, [state for state in waiting if state.start is Start.COMMITTED])
    reset = Start.TIME if config.reset_duration_ms is not None else RESETS.get(config.auto_offset_reset)
    for state in waiting:
        if state.start is Start.RESET:
            if reset is None:
                text = f"{state.topic_partition} has no offset to read on at, and auto_offset_reset is none: seek, or set another"
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            state.seek_to(reset)
    leaderless: list[PartitionState] = []
    if not is_waiting_for_leaders:
        leaderless = await _leaderless(cluster, config, [state for state in waiting if state.start in LOOKED_UP])
    await _take_ends(cluster, config, [state for state in waiting if state.start in LOOKED_UP and state not in leaderless])
    late = [state for state in waiting if state.start is Start.LATEST]  # no record is as young as the time that was asked for
    await _take_ends(cluster, config, [state for state in late if state not in leaderless])
    if leaderless:
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{leaderless[0].topic_partition} has no leader")


async def committed_offsets(
    cluster: ClusterMetadata, config: ConsumerConfig, partitions: list[TopicPartition]
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return what the group committed; stable offsets only under read_committed (KIP-447). Raises ``KafkaError`` as it is answered."""
    group_id = config.group_id
    assert group_id is not None, "without a group nothing is committed"

    async def ask() -> dict[TopicPartition, OffsetAndMetadata]:
        connection = await cluster.coordinator(group_id)
        return await fetch_offsets(connection, group_id, partitions, is_stable_required=bool(config.isolation))

    async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        return await with_coordinator(cluster, group_id, ask)

    return await cluster.retry(attempt, config.default_api_timeout_ms)


async def _take_committed(cluster: ClusterMetadata, config: ConsumerConfig, states: list[PartitionState]) -> None:
    if not states:
        return
    versions = {state.topic_partition: state.version for state in states}
    found = await committed_offsets(cluster, config, list(versions)) if config.group_id is not None else {}
    for state in states:
        if state.version != versions[state.topic_partition] or state.start is not Start.COMMITTED:
            continue
        committed = found.get(state.topic_partition)
        if committed is None:
            state.seek_to(Start.RESET)
        else:
            state.seek(committed.offset, committed.leader_epoch)


async def _leaderless(cluster: ClusterMetadata, config: ConsumerConfig, states: list[PartitionState]) -> list[PartitionState]:
    """Return the partitions that are there, and of which even a new view knows no leader: asking for them keeps others waiting."""

    def found() -> list[PartitionState]:
        partitions = [(state, state.topic_partition) for state in states]
        return [state for state, each in partitions if cluster.view.partition(each) is not None and cluster.view.leader_of(each) < 0]

    if found() or any(state.topic_partition.topic not in cluster.view.topics for state in states):
        await cluster.retry(cluster.refresh, config.default_api_timeout_ms, is_refreshing=False)
    return found()


async def _take_ends(cluster: ClusterMetadata, config: ConsumerConfig, states: list[PartitionState]) -> None:
    """Look offsets up in the log. Partitions that are not there do not keep the others from theirs."""
    if not states:
        return
    versions = {state.topic_partition: state.version for state in states}
    specs = {state.topic_partition: _spec(cluster, config, state) for state in states}
    failure: ItemsFailed | None = None
    try:
        found: Mapping[TopicPartition, FoundOffset] = await _list_offsets(cluster, config, specs)
    except ItemsFailed as error:
        failure = error
        others = {each: spec for each, spec in specs.items() if each not in error.errors and each.topic not in error.errors}
        found = await _list_offsets(cluster, config, others) if others else {}
    for state in states:
        if state.version == versions[state.topic_partition] and state.topic_partition in found:
            offset = found[state.topic_partition].offset
            if offset >= 0:
                state.seek(offset)
            else:
                state.seek_to(Start.LATEST)
    if failure is not None:
        raise failure


def _spec(cluster: ClusterMetadata, config: ConsumerConfig, state: PartitionState) -> OffsetSpec:
    if state.start is Start.TIME and config.reset_duration_ms is not None:
        return OffsetSpec.at(max(cluster.env.clock.wall_ms() - config.reset_duration_ms, 0))
    return OffsetSpec.earliest() if state.start is Start.EARLIEST else OffsetSpec.latest()


async def _list_offsets(
    cluster: ClusterMetadata, config: ConsumerConfig, specs: Mapping[TopicPartition, OffsetSpec]
) -> dict[TopicPartition, FoundOffset]:
    return await offsets.list_offsets(cluster, specs, config.isolation, config.default_api_timeout_ms)
