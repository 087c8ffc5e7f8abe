"""Records of classic groups in ``__consumer_offsets``, as values and as stored bytes."""

from dataclasses import dataclass

from log_service.common.types import Buffer
from log_service.protocol.stored.group_records import GroupMetadataValue, MemberMetadata
from log_service.protocol.stored.serde import decode_versioned, encode_versioned

GROUP_VALUE_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGeneration:
    """A generation whose leader has synced, or a generation without members."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRecord:
    """The newest generation of a group. If ``generation`` is None, the record removes the group."""

    group_id: str
    generation: StoredGeneration | None


def encode_generation(generation: StoredGeneration | None) -> bytes | None:
    """Return the stored value, or None (a tombstone) if the group is removed."""
    if generation is None:
        return None
    value = GroupMetadataValue(
        protocol_type=generation.protocol_type,
        generation=generation.generation_id,
        protocol=generation.protocol_name,
        leader=generation.leader_id,
        current_state_timestamp=generation.state_since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in generation.members
        ],
    )
    return encode_versioned(value, GROUP_VALUE_VERSION)


def decode_generation(value: Buffer | None) -> StoredGeneration | None:
    """Return the generation of a stored value.

    Raises:
        ProtocolError: the bytes are not a generation.
    """
    if value is None:
        return None
    stored = decode_versioned(GroupMetadataValue, value)
    return StoredGeneration(
        protocol_type=stored.protocol_type,
        generation_id=stored.generation,
        protocol_name=stored.protocol,
        leader_id=stored.leader,
        state_since_ms=stored.current_state_timestamp,
        members=tuple(
            StoredMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=(
                    member.rebalance_timeout
                    if member.rebalance_timeout >= 0
                    else member.session_timeout
                ),
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in stored.members
        ),
    )
