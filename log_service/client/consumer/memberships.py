"""What a consumer asks of its part in a group, whichever protocol it speaks: the classic one or that of KIP-848.

``Membership`` and ``Rebalancer`` are of the classic protocol, ``ConsumerMembership`` and ``Reconciler`` of the other. Only shapes; nothing
is decided here.
"""

from typing import Protocol

from log_service.client.connections.cluster_view import ClusterView
from log_service.common.errors import ErrorCode


class CommittingMember(Protocol):
    """As whom offsets are committed."""

    @property
    def member_id(self) -> str:
        """The member's id."""

    @property
    def generation_id(self) -> int:
        """The generation, or the member epoch; -1 outside of the group."""

    @property
    def is_member(self) -> bool:
        """Whether commits may carry the generation."""

    def note_commit_error(self, code: ErrorCode) -> None:
        """Act on a refused commit."""

    async def hear_epoch(self) -> bool:
        """Wait until the coordinator has told the newest epoch. Whether there may be another than the one that a commit carried."""


class GroupSteps(Protocol):
    """What a consumer does for its group inside its polls."""

    async def advance(self) -> None:
        """Take the next steps, if there are any."""

    def subscribed(self, reason: str) -> None:
        """Note that the consumer wants other topics."""

    def look_at(self, view: ClusterView) -> None:
        """Note that the cluster changed."""

    async def leave(self, *, is_committing: bool) -> None:
        """Give everything up and leave the group."""
