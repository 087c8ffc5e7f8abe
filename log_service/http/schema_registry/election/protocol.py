"""The group protocol of schema registries: the data of members, assignments, and the election.

The data and the assignments are JSON, with the field names of Confluent's registry. Unknown fields
are ignored in both, because other registries and later versions send more. The leader is the
eligible member with the smallest URL. If leadership is sticky and exactly one eligible member
reports itself as the present leader, that member stays the leader.

Source: the protocol of Confluent's registry, type ``sr``, protocol ``v0``, version 1.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from log_service.common.errors import TidelogError

PROTOCOL_TYPE = "sr"
PROTOCOL_NAME = "v0"
VERSION = 1
NO_ERROR = 0
DUPLICATE_URLS = 1


class UnreadableMember(TidelogError):  # noqa: N818 - it says what is wrong with the bytes
    """Bytes of another member are not of this protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryInstance:
    """One registry instance, with its address for the others. Only an eligible instance may lead.

    ``is_leader`` tells whether the instance considered itself the leader when it joined.
    """

    scheme: str
    host: str
    port: int
    is_eligible: bool = True
    is_leader: bool = False

    @property
    def url(self) -> str:
        """The URL for requests of other instances. URLs are compared as texts."""
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The result of an election, the same for all members.

    ``leader_id`` is the leader's member id, and ``leader`` its instance. Both are None if no member
    is eligible. ``error`` is set if members have the same URL, because a request could then not be
    forwarded to the right one.
    """

    leader_id: str | None
    leader: RegistryInstance | None
    error: int = NO_ERROR


def choose(members: Mapping[str, RegistryInstance], *, is_sticky: bool = False) -> Assignment:
    """Choose the leader of a group, and return the assignment for all members.

    ``members`` are by member id. The present leader stays if ``is_sticky`` is set and exactly one
    eligible member reports itself as the leader.
    """
    eligible = {
        member_id: instance for member_id, instance in members.items() if instance.is_eligible
    }
    present = [member_id for member_id, instance in eligible.items() if instance.is_leader]
    if is_sticky and len(present) == 1:
        leader_id: str | None = present[0]
    else:
        leader_id = min(
            eligible, key=lambda member_id: (eligible[member_id].url, member_id), default=None
        )
    urls = {instance.url for instance in members.values()}
    return Assignment(
        leader_id=leader_id,
        leader=None if leader_id is None else eligible[leader_id],
        error=NO_ERROR if len(urls) == len(members) else DUPLICATE_URLS,
    )


# Bytes


def encode_instance(instance: RegistryInstance) -> bytes:
    """Return the bytes of a member's description of itself."""
    return _encoded(_instance_fields(instance))


def decode_instance(encoded: bytes) -> RegistryInstance:
    """Decode a member's description of itself.

    Raises:
        UnreadableMember: the bytes are not of this protocol.
    """
    return _instance(_decoded(encoded))


def encode_assignment(assignment: Assignment) -> bytes:
    """Return the bytes of the assignment, which all members get."""
    fields: dict[str, Any] = {"version": VERSION, "error": assignment.error}
    if assignment.leader_id is not None:
        fields["master"] = assignment.leader_id
    if assignment.leader is not None:
        fields["master_identity"] = _instance_fields(assignment.leader)
    return _encoded(fields)


def decode_assignment(encoded: bytes) -> Assignment:
    """Decode the assignment, which all members get.

    A leader that is not eligible counts as no leader. Karapace names such a leader if no member is
    eligible.

    Raises:
        UnreadableMember: the bytes are something else.
    """
    fields = _decoded(encoded)
    leader_id, identity, error = (
        fields.get("master"),
        fields.get("master_identity"),
        fields.get("error", NO_ERROR),
    )
    if not isinstance(error, int) or not (leader_id is None or isinstance(leader_id, str)):
        raise UnreadableMember(f"an assignment has the fields {_shown(encoded)}")
    leader = _instance(identity) if isinstance(identity, dict) else None
    if leader_id is None or leader is None or not leader.is_eligible:
        return Assignment(leader_id=None, leader=None, error=error)
    return Assignment(leader_id=leader_id, leader=leader, error=error)


def _instance_fields(instance: RegistryInstance) -> dict[str, Any]:
    fields = {
        "version": VERSION,
        "host": instance.host,
        "port": instance.port,
        "master_eligibility": instance.is_eligible,
        "scheme": instance.scheme,
    }
    return fields | {"leader": True} if instance.is_leader else fields


def _instance(fields: Mapping[str, Any]) -> RegistryInstance:
    host, port, scheme = fields.get("host"), fields.get("port"), fields.get("scheme", "http")
    is_there = (
        isinstance(host, str)
        and isinstance(scheme, str)
        and type(port) is int
        and 0 < port < 1 << 16
    )
    if not is_there:
        raise UnreadableMember(f"a member tells no host, port and scheme: {sorted(fields)}")
    return RegistryInstance(
        scheme=str(scheme),
        host=str(host),
        port=int(str(port)),
        is_eligible=fields.get("master_eligibility") is True,
        is_leader=fields.get("leader") is True,
    )


def _encoded(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _decoded(encoded: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(encoded)
    except (ValueError, RecursionError) as error:
        raise UnreadableMember(f"{_shown(encoded)} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UnreadableMember(f"{_shown(encoded)} is not a JSON object")
    return fields


def _shown(encoded: bytes) -> str:
    return repr(encoded[:100])
