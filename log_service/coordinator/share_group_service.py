"""Serve the share group APIs of a node (KIP-932) with a group's shard and share coordinators.

This file decides in which order the shard and the share coordinators get requests. It also decides
which error a client gets if one of them refuses. It knows neither groups nor states. No method
waits. Each method calls ``on_reply`` once, now or later.

A shard stores its intent before share coordinators get a request, and the outcome afterwards. If
the shard is lost in between, its next coordinator finds the intent in the log. The next heartbeat
then initializes the states again, and the next delete request deletes them again.
"""

import logging
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.gathering import Gathering
from log_service.coordinator.group.group_coordinator import GroupCoordinatorShard
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.share.groups import OffsetsToAlter, StatesToDelete, names_of
from log_service.coordinator.group.share.heartbeats import StatesToInitialize
from log_service.coordinator.group.values.partitions import Partitions, in_order
from log_service.coordinator.refusals import api_error
from log_service.coordinator.request_context import RequestContext
from log_service.coordinator.share.share_state import ShareKey
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from log_service.protocol.messages.delete_groups import DeletableGroupResult
from log_service.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from log_service.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from log_service.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from log_service.state_machine.decision import Decision
from log_service.state_machine.runtime import OnReply, Refuse

logger = logging.getLogger(__name__)

Decide = Callable[[GroupCoordinatorShard, Decision[GroupRecord], Hashable], None]
Ask = Callable[[str, Decide, OnReply, Refuse], None]
"""Sends a request to the shard of a group."""
Errors = Mapping[UUID, Mapping[int, KafkaError]]
ContextOf = Callable[[Hashable], RequestContext]
"""Builds the context of a request from its reply address."""


class ShareStates(Protocol):
    """Sends requests to share coordinators to initialize and delete states."""

    def initialize(
        self,
        key: ShareKey,
        *,
        state_epoch: int,
        start_offset: int,
        on_done: Callable[[KafkaError | None], None],
    ) -> None:
        """Initialize a state for the first time or again.

        ``on_done`` is called once, now or later, with the error or None.
        """

    def delete(self, key: ShareKey, *, on_done: Callable[[KafkaError | None], None]) -> None:
        """Delete a state. ``on_done`` is called once, now or later, with the error or None."""


class NoShareStates:
    """Refuses every request, because there are no share coordinators."""

    def initialize(
        self,
        key: ShareKey,
        *,
        state_epoch: int,  # noqa: ARG002 - as above
        start_offset: int,  # noqa: ARG002 - as above
        on_done: Callable[[KafkaError | None], None],
    ) -> None:
        """Call ``on_done`` with COORDINATOR_NOT_AVAILABLE."""
        self.delete(key, on_done=on_done)

    def delete(self, key: ShareKey, *, on_done: Callable[[KafkaError | None], None]) -> None:
        """Call ``on_done`` with COORDINATOR_NOT_AVAILABLE."""
        on_done(
            KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no share coordinator keeps {key}")
        )


class ShareGroupService:
    """The share groups that this node coordinates.

    ``ask`` sends a request to the shard of a group. ``image`` returns the newest metadata.
    """

    def __init__(self, ask: Ask, states: ShareStates, image: Callable[[], MetadataImage]) -> None:
        self._ask = ask
        self._states = states
        self._image = image

    # Members

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, context_of: ContextOf, on_reply: OnReply
    ) -> None:
        """Respond with ShareGroupHeartbeatResponse."""
        self._ask(
            request.group_id,
            lambda shard, decision, token: shard.share_groups.handle_heartbeat(
                request, context_of(token), decision
            ),
            on_reply,
            lambda error: ShareGroupHeartbeatResponse(
                error_code=api_error(error), error_message=str(error)
            ),
        )

    def describe(
        self, request: ShareGroupDescribeRequest, context_of: ContextOf, on_reply: OnReply
    ) -> None:
        """Respond with ShareGroupDescribeResponse."""
        gather = Gathering(
            len(request.group_ids),
            lambda groups: on_reply(ShareGroupDescribeResponse(groups=groups)),
        )
        for index, group_id in enumerate(request.group_ids):
            self._ask(
                group_id,
                partial(_describe, group_id, context_of),
                gather.part(index),
                partial(_refused_describe, group_id),
            )

    def initialize_states(self, to_initialize: StatesToInitialize) -> None:
        """Initialize states that a shard has announced, and report the outcome to the shard."""
        self._initialize(to_initialize, lambda _errors, _refusal: None)

    def _initialize(
        self,
        to_initialize: StatesToInitialize,
        on_settled: Callable[[Errors, KafkaError | None], None],
    ) -> None:
        """Send requests to share coordinators, and let the shard store the outcome.

        ``on_settled`` is called afterwards. It gets the errors of share coordinators, and an error
        or None that tells whether the shard has stored the outcome.
        """
        asked = [
            (topic_id, index)
            for topic_id, indexes in in_order(to_initialize.partitions)
            for index in indexes
        ]

        def on_all(results: list[KafkaError | None]) -> None:
            errors: dict[UUID, dict[int, KafkaError]] = {}
            for (topic_id, index), error in zip(asked, results, strict=True):
                if error is not None:
                    errors.setdefault(topic_id, {})[index] = error
            if errors:
                text = (
                    "States of share group %r could not be initialized for %d of %d partitions, the"
                    " first one because of %s"
                )
                logger.info(
                    text,
                    to_initialize.group_id,
                    sum(map(len, errors.values())),
                    len(asked),
                    next(filter(None, results)),
                )
            self._note_initialized(to_initialize, errors, partial(on_settled, errors))

        gather = Gathering(len(asked), on_all)
        for place, (topic_id, index) in enumerate(asked):
            self._states.initialize(
                ShareKey(group_id=to_initialize.group_id, topic_id=topic_id, partition=index),
                state_epoch=to_initialize.state_epoch,
                start_offset=to_initialize.start_offsets[topic_id][index],
                on_done=gather.part(place),
            )

    def _note_initialized(
        self,
        to_initialize: StatesToInitialize,
        errors: Errors,
        on_noted: Callable[[KafkaError | None], None],
    ) -> None:
        def refuse(error: KafkaError) -> KafkaError:
            logger.info(
                "Share group %r could not store which of its states are initialized: %s",
                to_initialize.group_id,
                error,
            )
            return error

        failed = {topic_id: frozenset(each) for topic_id, each in errors.items()}
        initialized = {
            topic_id: rest
            for topic_id, each in to_initialize.partitions.items()
            if (rest := each - failed.get(topic_id, frozenset()))
        }
        self._ask(
            to_initialize.group_id,
            lambda shard, decision, token: shard.share_groups.handle_initialized(
                to_initialize.group_id, initialized, failed, token, decision
            ),
            on_noted,
            refuse,
        )

    # Administration

    def initialized_partitions(
        self, group_id: str, on_reply: Callable[[Partitions | KafkaError], None]
    ) -> None:
        """Reply with the partitions of a group whose states are initialized, or with an error."""
        self._ask(
            group_id,
            lambda shard, decision, token: shard.share_groups.handle_initialized_partitions(
                group_id, token, decision
            ),
            on_reply,
            lambda error: KafkaError(api_error(error), str(error)),
        )

    def alter_offsets(
        self, request: AlterShareGroupOffsetsRequest, context_of: ContextOf, on_reply: OnReply
    ) -> None:
        """Respond with AlterShareGroupOffsetsResponse.

        If the shard is lost before it has stored the outcome, the client gets an error. The next
        coordinator then initializes the states again, without the requested offsets.
        """

        def refuse(error: KafkaError) -> AlterShareGroupOffsetsResponse:
            return AlterShareGroupOffsetsResponse(
                error_code=api_error(error), error_message=str(error)
            )

        def on_decided(decided: OffsetsToAlter | AlterShareGroupOffsetsResponse) -> None:
            if isinstance(decided, AlterShareGroupOffsetsResponse):
                on_reply(decided)
            else:
                to_initialize, altered = decided.to_initialize, partial(_altered, decided)
                self._initialize(
                    to_initialize,
                    lambda errors, refusal: on_reply(
                        altered(errors) if refusal is None else refuse(refusal)
                    ),
                )

        self._ask(
            request.group_id,
            lambda shard, decision, token: shard.share_groups.handle_alter_offsets(
                request, context_of(token), decision
            ),
            on_decided,
            refuse,
        )

    def delete_offsets(
        self, request: DeleteShareGroupOffsetsRequest, context_of: ContextOf, on_reply: OnReply
    ) -> None:
        """Respond with DeleteShareGroupOffsetsResponse."""

        def on_decided(decided: StatesToDelete | DeleteShareGroupOffsetsResponse) -> None:
            if isinstance(decided, DeleteShareGroupOffsetsResponse):
                on_reply(decided)
            else:
                self._delete(decided, partial(self._note_deleted, decided, on_reply))

        self._ask(
            request.group_id,
            lambda shard, decision, token: shard.share_groups.handle_delete_offsets(
                request, context_of(token), decision
            ),
            on_decided,
            lambda error: DeleteShareGroupOffsetsResponse(
                error_code=api_error(error), error_message=str(error)
            ),
        )

    def delete_group(
        self,
        group_id: str,
        context_of: ContextOf,
        on_reply: OnReply,
        *,
        are_states_deleted: bool = False,
    ) -> None:
        """Respond with DeletableGroupResult, for a group of any kind.

        The share states of a share group are deleted first.
        """

        def on_deleted(errors: Mapping[UUID, KafkaError]) -> None:
            if errors:
                on_reply(
                    DeletableGroupResult(
                        group_id=group_id, error_code=next(iter(errors.values())).code
                    )
                )
            else:
                self.delete_group(group_id, context_of, on_reply, are_states_deleted=True)

        def on_decided(decided: StatesToDelete | DeletableGroupResult) -> None:
            if isinstance(decided, StatesToDelete):
                self._delete(decided, on_deleted)
            else:
                on_reply(decided)

        self._ask(
            group_id,
            lambda shard, decision, token: shard.handle_delete_group(
                group_id, context_of(token), decision, are_states_deleted=are_states_deleted
            ),
            on_decided,
            lambda error: DeletableGroupResult(group_id=group_id, error_code=api_error(error)),
        )

    def _delete(
        self, to_delete: StatesToDelete, on_all: Callable[[Mapping[UUID, KafkaError]], None]
    ) -> None:
        """Delete share states. ``on_all`` gets an error for each topic whose states remain."""
        asked = [
            (topic_id, index)
            for topic_id, indexes in in_order(to_delete.partitions)
            for index in indexes
        ]

        def on_results(results: list[KafkaError | None]) -> None:
            on_all(
                {
                    topic_id: error
                    for (topic_id, _), error in zip(asked, results, strict=True)
                    if error is not None
                }
            )

        gather = Gathering(len(asked), on_results)
        for place, (topic_id, index) in enumerate(asked):
            self._states.delete(
                ShareKey(group_id=to_delete.group_id, topic_id=topic_id, partition=index),
                on_done=gather.part(place),
            )

    def _note_deleted(
        self, to_delete: StatesToDelete, on_reply: OnReply, errors: Mapping[UUID, KafkaError]
    ) -> None:
        names = names_of(to_delete.partitions, self._image())
        gone = [topic_id for topic_id in to_delete.partitions if topic_id not in errors]
        deleted = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_id=topic_id, topic_name=names.get(topic_id, "")
            )
            for topic_id in gone
        ]
        failed = [
            DeleteShareGroupOffsetsResponseTopic(
                topic_id=topic_id,
                topic_name=names.get(topic_id, ""),
                error_code=error.code,
                error_message=str(error),
            )
            for topic_id, error in errors.items()
        ]
        response = DeleteShareGroupOffsetsResponse(
            responses=[*deleted, *to_delete.refused, *failed]
        )
        if not gone:
            on_reply(response)
            return
        group_id = to_delete.group_id
        self._ask(
            group_id,
            lambda shard, decision, token: shard.share_groups.handle_deleted(
                group_id, gone, token, decision
            ),
            lambda refused: on_reply(refused or response),
            lambda error: DeleteShareGroupOffsetsResponse(
                error_code=api_error(error), error_message=str(error)
            ),
        )


def _describe(
    group_id: str,
    context_of: ContextOf,
    shard: GroupCoordinatorShard,
    decision: Decision[GroupRecord],
    token: Hashable,
) -> None:
    shard.share_groups.handle_describe(group_id, context_of(token), decision)


def _refused_describe(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=api_error(error), error_message=str(error))


def _altered(decided: OffsetsToAlter, errors: Errors) -> AlterShareGroupOffsetsResponse:
    """Return the response to AlterShareGroupOffsets, including errors of share coordinators."""
    for topic in decided.topics:
        refused: Mapping[int, Any] = errors.get(topic.topic_id, {})
        for partition in topic.partitions:
            error = refused.get(partition.partition_index)
            if error is not None and not partition.error_code:
                partition.error_code, partition.error_message = error.code, str(error)
    return AlterShareGroupOffsetsResponse(responses=decided.topics)
