"""Records of streams groups (KIP-1071) in ``__consumer_offsets``: types 17 and 19 to 23.

A record whose content is None deletes an earlier one. Subtopologies, partitions and tags are stored
in order, so that equal values have equal bytes. A topology is stored as the member sent it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from log_service.common.types import Buffer
from log_service.coordinator.group.values.epochs import TargetEpoch
from log_service.coordinator.group.values.partitions import in_order
from log_service.coordinator.group.values.streams_tasks import (
    ActiveTasks,
    HeldTasks,
    StreamsMetadata,
    TaskAssignment,
    Tasks,
    TaskSet,
    TaskState,
    tasks_of,
)
from log_service.coordinator.group.values.streams_topology import (
    Topology,
    stored_topology,
    topology_of,
)
from log_service.protocol.schema import Message
from log_service.protocol.stored.serde import decode_versioned, encode_key, encode_versioned
from log_service.protocol.stored.streams_group_records import (
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValueTaskIds,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMemberValueTaskIds,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)

VALUE_VERSION = 0
NOT_VALIDATED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsEpoch:
    """The epoch of a group, the hash of its topics, and the settings of its assignor.

    ``validated_topology_epoch`` is the epoch of the topology if its tasks can be assigned, else -1.
    """

    epoch: int
    metadata_hash: int = 0
    validated_topology_epoch: int = NOT_VALIDATED
    assignment_configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsEpochRecord:
    """Type 17: the group epoch. None removes the group."""

    group_id: str
    content: StreamsEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMemberRecord:
    """Type 19: the metadata of one member. None removes the member."""

    group_id: str
    member_id: str
    content: StreamsMetadata | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTargetEpochRecord:
    """Type 20: the epoch of the targets."""

    group_id: str
    content: TargetEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsTargetRecord:
    """Type 21: the target of one member."""

    group_id: str
    member_id: str
    content: Tasks | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsAssignmentRecord:
    """Type 22: the current assignment of one member."""

    group_id: str
    member_id: str
    content: TaskAssignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRecord:
    """Type 23: the topology of a group."""

    group_id: str
    content: Topology | None


StreamsGroupRecord = (
    StreamsEpochRecord
    | StreamsMemberRecord
    | StreamsTargetEpochRecord
    | StreamsTargetRecord
    | StreamsAssignmentRecord
    | TopologyRecord
)
STREAMS_GROUP_RECORDS = (
    StreamsEpochRecord,
    StreamsMemberRecord,
    StreamsTargetEpochRecord,
    StreamsTargetRecord,
    StreamsAssignmentRecord,
    TopologyRecord,
)

_KEYS: Mapping[type[StreamsGroupRecord], Callable[..., Message]] = {
    StreamsEpochRecord: StreamsGroupMetadataKey,
    StreamsMemberRecord: StreamsGroupMemberMetadataKey,
    StreamsTargetEpochRecord: StreamsGroupTargetAssignmentMetadataKey,
    StreamsTargetRecord: StreamsGroupTargetAssignmentMemberKey,
    StreamsAssignmentRecord: StreamsGroupCurrentMemberAssignmentKey,
    TopologyRecord: StreamsGroupTopologyKey,
}


def encode_streams_record(record: StreamsGroupRecord) -> tuple[bytes, bytes | None]:
    """Return the stored key and value. A value of None is a tombstone."""
    cls = _KEYS[type(record)]
    match record:
        case StreamsMemberRecord() | StreamsTargetRecord() | StreamsAssignmentRecord():
            key = cls(group_id=record.group_id, member_id=record.member_id)
        case _:
            key = cls(group_id=record.group_id)
    return encode_key(key), (
        None if record.content is None else encode_versioned(_value(record.content), VALUE_VERSION)
    )


def _value(
    content: StreamsEpoch | StreamsMetadata | TargetEpoch | Tasks | TaskAssignment | Topology,
) -> Message:
    match content:
        case StreamsEpoch():
            configs = [
                LastAssignmentConfig(key=key, value=value)
                for key, value in sorted(content.assignment_configs.items())
            ]
            return StreamsGroupMetadataValue(
                epoch=content.epoch,
                metadata_hash=content.metadata_hash,
                validated_topology_epoch=content.validated_topology_epoch,
                last_assignment_configs=configs,
            )
        case StreamsMetadata():
            return _member_value(content)
        case TargetEpoch():
            return StreamsGroupTargetAssignmentMetadataValue(
                assignment_epoch=content.epoch, assignment_timestamp=content.computed_ms
            )
        case Tasks():
            active, standby, warmup = (
                _target_ids(each) for each in (content.active, content.standby, content.warmup)
            )
            return StreamsGroupTargetAssignmentMemberValue(
                active_tasks=active, standby_tasks=standby, warmup_tasks=warmup
            )
        case TaskAssignment():
            return assignment_value(content)
        case _:
            return stored_topology(content)


def _member_value(content: StreamsMetadata) -> StreamsGroupMemberMetadataValue:
    endpoint = None
    if content.endpoint is not None:
        host, port = content.endpoint
        endpoint = Endpoint(host=host, port=port)
    return StreamsGroupMemberMetadataValue(
        instance_id=content.instance_id,
        rack_id=content.rack_id,
        client_id=content.client_id,
        client_host=content.client_host,
        rebalance_timeout_ms=content.rebalance_timeout_ms,
        topology_epoch=content.topology_epoch,
        process_id=content.process_id,
        user_endpoint=endpoint,
        client_tags=[KeyValue(key=key, value=value) for key, value in content.client_tags],
    )


def assignment_value(content: TaskAssignment) -> StreamsGroupCurrentMemberAssignmentValue:
    """Convert a member's tasks to the stored value of their record."""
    assigned, pending = content.assigned, content.pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=content.epoch,
        previous_member_epoch=content.previous_epoch,
        state=content.state,
        active_tasks=_active_ids(assigned.active),
        standby_tasks=_held_ids(assigned.standby),
        warmup_tasks=_held_ids(assigned.warmup),
        active_tasks_pending_revocation=_active_ids(pending.active),
        standby_tasks_pending_revocation=_held_ids(pending.standby),
        warmup_tasks_pending_revocation=_held_ids(pending.warmup),
    )


def _target_ids(tasks: TaskSet) -> list[StreamsGroupTargetAssignmentMemberValueTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberValueTaskIds(subtopology_id=each, partitions=indexes)
        for each, indexes in in_order(tasks)
    ]


def _held_ids(tasks: TaskSet) -> list[StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    ids = StreamsGroupCurrentMemberAssignmentValueTaskIds
    return [ids(subtopology_id=each, partitions=indexes) for each, indexes in in_order(tasks)]


def _active_ids(tasks: ActiveTasks) -> list[StreamsGroupCurrentMemberAssignmentValueTaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentValueTaskIds(
            subtopology_id=each,
            partitions=indexes,
            assignment_epochs=[tasks[each][index] for index in indexes],
        )
        for each, indexes in in_order(tasks)
    ]


# Decoding


def _decode_epoch(key: StreamsGroupMetadataKey, value: Buffer | None) -> StreamsEpochRecord:
    content = None
    if value is not None:
        stored = decode_versioned(StreamsGroupMetadataValue, value)
        content = StreamsEpoch(
            epoch=stored.epoch,
            metadata_hash=stored.metadata_hash,
            validated_topology_epoch=stored.validated_topology_epoch,
            assignment_configs={
                each.key: each.value for each in stored.last_assignment_configs or ()
            },
        )
    return StreamsEpochRecord(group_id=key.group_id, content=content)


def _decode_member(key: StreamsGroupMemberMetadataKey, value: Buffer | None) -> StreamsMemberRecord:
    content = None
    if value is not None:
        stored = decode_versioned(StreamsGroupMemberMetadataValue, value)
        endpoint = stored.user_endpoint
        content = StreamsMetadata(
            instance_id=stored.instance_id,
            rack_id=stored.rack_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            topology_epoch=stored.topology_epoch,
            process_id=stored.process_id,
            endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=tuple((each.key, each.value) for each in stored.client_tags),
        )
    return StreamsMemberRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _decode_target_epoch(
    key: StreamsGroupTargetAssignmentMetadataKey, value: Buffer | None
) -> StreamsTargetEpochRecord:
    stored = (
        None
        if value is None
        else decode_versioned(StreamsGroupTargetAssignmentMetadataValue, value)
    )
    content = (
        None
        if stored is None
        else TargetEpoch(epoch=stored.assignment_epoch, computed_ms=stored.assignment_timestamp)
    )
    return StreamsTargetEpochRecord(group_id=key.group_id, content=content)


def _decode_target(
    key: StreamsGroupTargetAssignmentMemberKey, value: Buffer | None
) -> StreamsTargetRecord:
    content = None
    if value is not None:
        stored = decode_versioned(StreamsGroupTargetAssignmentMemberValue, value)
        active, standby, warmup = (
            tasks_of(each)
            for each in (stored.active_tasks, stored.standby_tasks, stored.warmup_tasks)
        )
        content = Tasks(active=active, standby=standby, warmup=warmup)
    return StreamsTargetRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _decode_assignment(
    key: StreamsGroupCurrentMemberAssignmentKey, value: Buffer | None
) -> StreamsAssignmentRecord:
    content = None
    if value is not None:
        stored = decode_versioned(StreamsGroupCurrentMemberAssignmentValue, value)
        states = {int(state): state for state in TaskState}
        assigned = HeldTasks(
            active=_active(stored.active_tasks, stored.member_epoch),
            standby=tasks_of(stored.standby_tasks),
            warmup=tasks_of(stored.warmup_tasks),
        )
        pending = HeldTasks(
            active=_active(stored.active_tasks_pending_revocation, stored.member_epoch),
            standby=tasks_of(stored.standby_tasks_pending_revocation),
            warmup=tasks_of(stored.warmup_tasks_pending_revocation),
        )
        content = TaskAssignment(
            epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            state=states.get(stored.state, TaskState.UNKNOWN),
            assigned=assigned,
            pending_revocation=pending,
        )
    return StreamsAssignmentRecord(group_id=key.group_id, member_id=key.member_id, content=content)


def _active(
    stored: Iterable[StreamsGroupCurrentMemberAssignmentValueTaskIds], member_epoch: int
) -> ActiveTasks:
    """Return active tasks with their assignment epochs.

    A record of an older version has no assignment epochs. Its tasks get the member epoch.
    """
    held: dict[str, dict[int, int]] = {}
    for each in (each for each in stored if each.partitions):
        epochs = each.assignment_epochs or []
        if len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        held.setdefault(each.subtopology_id, {}).update(zip(each.partitions, epochs, strict=True))
    return held


def _decode_topology(key: StreamsGroupTopologyKey, value: Buffer | None) -> TopologyRecord:
    content = (
        None if value is None else topology_of(decode_versioned(StreamsGroupTopologyValue, value))
    )
    return TopologyRecord(group_id=key.group_id, content=content)


STREAMS_DECODERS: Mapping[type[Message], Callable[[Any, Buffer | None], StreamsGroupRecord]] = {
    StreamsGroupMetadataKey: _decode_epoch,
    StreamsGroupMemberMetadataKey: _decode_member,
    StreamsGroupTargetAssignmentMetadataKey: _decode_target_epoch,
    StreamsGroupTargetAssignmentMemberKey: _decode_target,
    StreamsGroupCurrentMemberAssignmentKey: _decode_assignment,
    StreamsGroupTopologyKey: _decode_topology,
}
"""The decoder of each key's value."""
