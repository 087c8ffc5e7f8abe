"""Interfaces of a consumer's group membership, common to both group protocols.

``Membership`` and ``Rebalancer`` implement the classic protocol, ``ConsumerMembership`` and
``Reconciler`` that of KIP-848. Nothing is decided here.
"""

from typing import Protocol

from log_service.client.connections.cluster_view import ClusterView
from log_service.common.errors import ErrorCode


class CommittingMember(Protocol):
    """The member that commits offsets."""

    @property
    def member_id(self) -> str:
        """The member's id."""

    @property
    def generation_id(self) -> int:
        """The generation, or the member epoch, -1 outside the group."""

    @property
    def is_member(self) -> bool:
        """Whether commits may carry the generation."""

    def note_commit_error(self, code: ErrorCode) -> None:
        """Act on a refused commit."""

    async def await_epoch(self) -> bool:
        """Wait until the coordinator has sent the newest epoch.

        Return whether that epoch may differ from the epoch of the refused commit.
        """


class GroupSteps(Protocol):
    """Steps that a consumer takes for its group inside its polls."""

    async def advance(self) -> None:
        """Run the next steps, if there are any."""

    def subscribed(self, reason: str) -> None:
        """Note that the subscription changed."""

    def look_at(self, view: ClusterView) -> None:
        """Note that the cluster changed."""

    async def leave(self, *, is_committing: bool) -> None:
        """Give up all partitions and leave the group."""
