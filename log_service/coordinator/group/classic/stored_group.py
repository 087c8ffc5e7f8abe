"""Convert a classic group to its record and back."""

from log_service.coordinator.group.classic.group import ClassicGroup, ClassicMember, GroupState
from log_service.coordinator.group.records.classic import (
    GenerationRecord,
    StoredGeneration,
    StoredMember,
)


def store_group(group: ClassicGroup, wall_ms: int) -> GenerationRecord:
    """Return the record of a group's current state, including assignments."""
    members = tuple(
        StoredMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            subscription=member.metadata_for(group.protocol_name),
            assignment=member.assignment,
        )
        for member in group.members.values()
    )
    generation = StoredGeneration(
        protocol_type=group.protocol_type or "",
        generation_id=group.generation_id,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        state_since_ms=group.state_since_ms if group.state_since_ms is not None else wall_ms,
        members=members,
    )
    return GenerationRecord(group_id=group.group_id, generation=generation)


def restore_group(group_id: str, stored: StoredGeneration) -> ClassicGroup:
    """Build a group from its stored generation."""
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if stored.members else GroupState.EMPTY,
        state_since_ms=stored.state_since_ms if stored.state_since_ms >= 0 else None,
        generation_id=stored.generation_id,
        protocol_name=stored.protocol_name,
    )
    for member in stored.members:
        group.add(_restored_member(member, stored))
    group.protocol_type = stored.protocol_type or None
    group.leader_id = stored.leader_id if stored.leader_id in group.members else group.leader_id
    group.note_subscriptions()
    return group


def _restored_member(member: StoredMember, stored: StoredGeneration) -> ClassicMember:
    """Build a member from its stored form. The stored form holds only the selected protocol."""
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocol_type=stored.protocol_type,
        protocols=((stored.protocol_name or "", member.subscription),),
        assignment=member.assignment,
        is_new=False,
    )
