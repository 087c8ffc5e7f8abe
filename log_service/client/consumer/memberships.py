"""Interfaces of a consumer's group membership, common to both group protocols.

``Membership`` and ``Rebalancer`` implement the classic protocol, ``ConsumerMembership`` and
``Reconciler`` that of KIP-848. Nothing is decided here.
"""

from typing import Protocol

from log_service.client.connections.cluster_view import ClusterView
from log_service.common.errors import ErrorCode


class CommittingMember(Protocol):
    """The interface of a group member for the code that commits offsets in its name."""

    @property
    def member_id(self) -> str:
        """The member's id."""

    @property
    def generation_id(self) -> int:
        """The generation or, with KIP-848, the member epoch. It is -1 without membership."""

    @property
    def is_member(self) -> bool:
        """Whether this is a member of the group, so that commits may carry its generation."""

    def note_commit_error(self, code: ErrorCode) -> None:
        """Handle the error of a refused commit, for example by joining again."""

    async def await_epoch(self) -> bool:
        """Wait until the coordinator has sent the newest epoch.

        Return whether a refused commit may succeed with that epoch.
        """


class GroupSteps(Protocol):
    """Steps that a consumer takes for its group inside its polls."""

    async def advance(self) -> None:
        """Run the steps that are due, such as giving up and taking over partitions."""

    def subscribed(self, reason: str) -> None:
        """Pass a changed subscription on to the group."""

    def look_at(self, view: ClusterView) -> None:
        """React to a new view of the cluster, if it changes the assignment."""

    async def leave(self, *, is_committing: bool) -> None:
        """Give up all partitions and leave the group.

        With ``is_committing`` the positions are committed first, if commits are automatic.
        """
