"""Detect two processes with one node id from the directories that each voter fetches from.

A node whose disk was replaced fetches from one directory and later from another, and never again
from the first one. If two processes have one id, the leader gets a fetch from the first directory
again. Requests other than fetches do not count.

Invariant: for each id the newest ``MAX_DIRECTORIES`` are remembered. The leader passes in only ids
of voters, so there are few.
"""

from typing import NamedTuple
from uuid import UUID

from log_service.common.types import NodeId
from log_service.storage.partition_metadata import format_uuid

MAX_DIRECTORIES = 4


class Twins(NamedTuple):
    """Two running replicas with one node id. The one that fetched last comes first."""

    node_id: NodeId
    directory_ids: tuple[UUID, UUID]

    @property
    def text(self) -> str:
        """The problem and its solution, for the operator."""
        last, other = map(format_uuid, self.directory_ids)
        return (
            f"two processes follow the metadata log as node {self.node_id}, from the directories"
            f" {last} and {other}. Stop one of them, or give it a node.id of its own: where the"
            " nodes' files name the voters both count as one, and metadata may be lost; where"
            " records name them, neither takes the place of the other"
        )


class TwinWatch:
    """The directories from which each node id has fetched, as the leader of an epoch knows them."""

    def __init__(self) -> None:
        self._requested_ms: dict[NodeId, dict[UUID, int]] = {}
        self._returned_ms: dict[NodeId, int] = {}

    def note(self, node_id: NodeId, directory_id: UUID, now_ms: int) -> None:
        """Record that a replica has fetched."""
        requested_ms = self._requested_ms.setdefault(node_id, {})
        if (
            next(reversed(requested_ms), directory_id) != directory_id
            and requested_ms.pop(directory_id, None) is not None
        ):
            self._returned_ms[node_id] = now_ms
        requested_ms[directory_id] = now_ms
        if len(requested_ms) > MAX_DIRECTORIES:
            del requested_ms[next(iter(requested_ms))]

    def of(self, node_id: NodeId, since_ms: int) -> Twins | None:
        """Return the two directories of an id that alternate, or None.

        Both have fetched after ``since_ms``.
        """
        if self._returned_ms.get(node_id, since_ms) <= since_ms:
            return None
        last, other = list(reversed(self._requested_ms[node_id].items()))[:2]
        return Twins(node_id, (last[0], other[0])) if min(last[1], other[1]) > since_ms else None
