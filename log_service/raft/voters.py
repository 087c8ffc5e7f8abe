"""The voters of the metadata quorum by offset.

This file decides membership and majorities, and the result of adding, removing or updating one
voter (KIP-853). It does not know the log. The caller passes in the offsets at which sets begin.

Invariants: A voter entry without a directory id matches by node id alone, any other entry by both,
so that a node with a new disk is an observer. The newest set is used, committed or not. If its
record is truncated, the set before it is used again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from log_service.common.features import DYNAMIC_QUORUM, STATIC_QUORUM
from log_service.common.types import NodeId

NO_DIRECTORY = UUID(int=0)
STATIC_OFFSET = -2
"""The offset of the configured voters. The voters of a directory's first snapshot begin at -1."""


class ReplicaKey(NamedTuple):
    """The identity of a replica of the metadata log: its node and its log directory."""

    node_id: NodeId
    directory_id: UUID = NO_DIRECTORY


class VoterEndpoint(NamedTuple):
    """An address of a node, by the name of its listener."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One voter: its directory, its controller listeners, and its range of kraft.version."""

    node_id: NodeId
    directory_id: UUID = NO_DIRECTORY
    endpoints: tuple[VoterEndpoint, ...] = ()
    min_kraft_version: int = STATIC_QUORUM
    max_kraft_version: int = DYNAMIC_QUORUM

    @property
    def key(self) -> ReplicaKey:
        """The key of the replica that votes."""
        return ReplicaKey(self.node_id, self.directory_id)

    def matches(self, key: ReplicaKey) -> bool:
        """Return whether ``key`` is this voter.

        If the voter has no directory id, only the node id is compared.
        """
        return self.node_id == key.node_id and self.directory_id in (key.directory_id, NO_DIRECTORY)

    def endpoint(self, listener_name: str) -> VoterEndpoint | None:
        """Return the address of a listener, or None if the voter has no such listener."""
        return next((each for each in self.endpoints if each.name == listener_name), None)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters at one offset of the log, ordered by node id."""

    voters: tuple[Voter, ...] = ()

    def __iter__(self) -> Iterator[Voter]:
        return iter(self.voters)

    def __len__(self) -> int:
        return len(self.voters)

    def __contains__(self, key: ReplicaKey) -> bool:
        return any(voter.matches(key) for voter in self.voters)

    @property
    def majority_count(self) -> int:
        """The number of voters in a majority."""
        return len(self.voters) // 2 + 1

    def get(self, node_id: NodeId) -> Voter | None:
        """Return the voter of a node, or None if it has none."""
        return next((voter for voter in self.voters if voter.node_id == node_id), None)

    def endpoints_of(self, node_id: NodeId) -> tuple[VoterEndpoint, ...]:
        """Return the addresses of a voter, or none for any other node."""
        voter = self.get(node_id)
        return voter.endpoints if voter is not None else ()

    def with_voter(self, added: Voter) -> "VoterSet":
        """Return the set with one more voter, or with the entry of the same node replaced."""
        others = [voter for voter in self.voters if voter.node_id != added.node_id]
        return VoterSet(tuple(sorted([*others, added], key=lambda voter: voter.node_id)))

    def without(self, key: ReplicaKey) -> "VoterSet":
        """Return the set without the voter of that node and directory."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key != key))


class VoterEntry(NamedTuple):
    """The voters that are valid from ``offset`` on."""

    offset: int
    kraft_version: int
    voters: VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChange:
    """A new kraft.version, new voters, or both, from ``offset`` on.

    It comes from a control record or from a snapshot. A value that does not change is None.
    """

    offset: int
    kraft_version: int | None = None
    voters: VoterSet | None = None


class VoterHistory:
    """The configured voters, and the voter sets of a log from its newest snapshot on."""

    def __init__(self, static_voters: VoterSet | None = None) -> None:
        self._entries = [VoterEntry(STATIC_OFFSET, STATIC_QUORUM, static_voters or VoterSet())]

    def __repr__(self) -> str:
        ids = [(entry.offset, [voter.node_id for voter in entry.voters]) for entry in self._entries]
        return f"<VoterHistory {ids}>"

    @property
    def entries(self) -> tuple[VoterEntry, ...]:
        """All entries, the oldest first."""
        return tuple(self._entries)

    @property
    def latest(self) -> VoterEntry:
        """The newest entry, committed or not, which is the valid one."""
        return self._entries[-1]

    def note(self, change: VoterChange) -> None:
        """Add a change from a control batch after all known ones."""
        latest = self.latest
        self._entries.append(
            VoterEntry(
                change.offset,
                latest.kraft_version if change.kraft_version is None else change.kraft_version,
                latest.voters if change.voters is None else change.voters,
            )
        )

    def truncate_to(self, end_offset: int) -> None:
        """Remove the entries that begin at or above ``end_offset``."""
        self._entries = [
            self._entries[0],
            *(entry for entry in self._entries[1:] if entry.offset < end_offset),
        ]

    def forget(self) -> None:
        """Forget all entries but the configured voters, because a snapshot replaces all records."""
        del self._entries[1:]

    def at(self, end_offset: int) -> VoterEntry:
        """Return the entry that is valid just below ``end_offset``, the end of a snapshot."""
        return [entry for entry in self._entries if entry.offset < end_offset or entry.offset < 0][
            -1
        ]
