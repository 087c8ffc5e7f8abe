"""Check whether a client may commit offsets to a group.

This file decides which error a commit gets, by the type and the state of the group. A client that
is not a member may commit to a group that is empty or unknown. ``committed`` stores the offsets.
"""

from collections.abc import Callable, Mapping

from log_service.common.errors import ErrorCode
from log_service.coordinator.group.classic.group import ClassicGroup, GroupState
from log_service.coordinator.group.classic.joining import GroupDecision
from log_service.coordinator.group.classic.membership import Membership
from log_service.coordinator.group.consumer.group import ConsumerGroup
from log_service.coordinator.group.consumer.listing import (
    validate_commit,
    validate_commit_in_transaction,
)
from log_service.coordinator.group.offsets.removals import Group
from log_service.coordinator.group.streams.group import StreamsGroup
from log_service.coordinator.group.streams.listing import (
    validate_streams_commit,
    validate_streams_commit_in_transaction,
)
from log_service.coordinator.request_context import RequestContext
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.offset_commit import OffsetCommitRequest
from log_service.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FIRST_COMMIT_VERSION_WITH_NOT_FOUND = 9


class CommitChecks:
    """Checks commits to one shard's groups. ``groups`` maps group ids to groups."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        membership: Membership,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._groups = groups
        self._membership = membership
        self._image = image

    def validate(
        self, request: OffsetCommitRequest, context: RequestContext, decision: GroupDecision
    ) -> ErrorCode:
        """Return NONE if an OffsetCommit is valid, else its error.

        A valid commit restarts the session of a classic group's member.
        """
        group = self._groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            return self._validate_epoch_commit(group, request, context)
        is_outsider = request.generation_id_or_member_epoch < 0
        if group is None or group.is_in(GroupState.DEAD):
            return ErrorCode.NONE if is_outsider else _commit_without_group(context)
        if is_outsider and group.is_in(GroupState.EMPTY):
            return ErrorCode.NONE
        error = self._membership.validate_request(
            group,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
        )
        if error is not ErrorCode.NONE:
            return error
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._membership.keep_alive(group, group.members[request.member_id], decision)
        return ErrorCode.NONE

    def _validate_epoch_commit(
        self,
        group: ConsumerGroup | StreamsGroup,
        request: OffsetCommitRequest,
        context: RequestContext,
    ) -> ErrorCode:
        if isinstance(group, StreamsGroup):
            return validate_streams_commit(group, request, context)
        return validate_commit(group, request, context, self._image())

    def validate_in_transaction(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        """Return NONE if a transactional commit is valid, else its error.

        There are fewer checks than for other commits, because older producers send neither a member
        nor a generation. A rebalance in progress does not matter.
        """
        if request.group_id == "":
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return validate_commit_in_transaction(group, request, self._image())
        if isinstance(group, StreamsGroup):
            return validate_streams_commit_in_transaction(group, request)
        is_outsider = request.generation_id < 0
        if group is None or group.is_in(GroupState.DEAD):
            return ErrorCode.NONE if is_outsider else ErrorCode.ILLEGAL_GENERATION
        if is_outsider and (
            group.is_in(GroupState.EMPTY)
            or (request.member_id == "" and request.group_instance_id is None)
        ):
            return ErrorCode.NONE
        return self._membership.validate_request(
            group, request.member_id, request.group_instance_id, request.generation_id
        )


def _commit_without_group(context: RequestContext) -> ErrorCode:
    """Return the error for a member's commit to a group that does not exist."""
    return (
        ErrorCode.GROUP_ID_NOT_FOUND
        if context.api_version >= FIRST_COMMIT_VERSION_WITH_NOT_FOUND
        else ErrorCode.ILLEGAL_GENERATION
    )
