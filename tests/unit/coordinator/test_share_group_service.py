"""Clients of share groups get responses when the coordinator moves between two of its steps
(KIP-932).
"""

from collections.abc import Callable, Hashable
from typing import Any

from log_service.common.errors import ErrorCode, KafkaError
from log_service.coordinator.request_context import RequestContext
from log_service.coordinator.share.share_state import ShareKey
from log_service.coordinator.share_group_service import ShareGroupService
from log_service.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.unit.coordinator.group_story import GROUP
from tests.unit.coordinator.share_story import ShareStory


class Steps:
    """A service over the shard of a story, which goes when ``is_gone``.

    States are initialized when the story says so.
    """

    def __init__(self) -> None:
        self.story = ShareStory()
        self.is_gone = False
        self.initialized: list[tuple[ShareKey, int]] = []
        self.waiting: list[Callable[[KafkaError | None], None]] = []
        self.replies: list[Any] = []
        self.service = ShareGroupService(self._ask, self, lambda: self.story.image)

    def _ask(
        self,
        _group_id: str,
        decide: Any,
        on_reply: Callable[[Any], None],
        refuse: Callable[[KafkaError], Any],
    ) -> None:
        if self.is_gone:
            on_reply(
                refuse(
                    KafkaError(ErrorCode.NOT_COORDINATOR, "this node does not lead the partition")
                )
            )
            return
        token, decision = object(), self.story.decision()
        decide(self.story.shard, decision, token)
        self.story.settle(decision)
        on_reply(self.story.replies[token])

    def initialize(
        self,
        key: ShareKey,
        *,
        state_epoch: int,
        start_offset: int,
        on_done: Callable[[KafkaError | None], None],
    ) -> None:
        self.initialized.append((key, start_offset))
        self.waiting.append(on_done)

    def delete(self, key: ShareKey, *, on_done: Callable[[KafkaError | None], None]) -> None:
        raise AssertionError(f"{key} is deleted, which no story asks for: {on_done}")

    def alter(self, start_offset: int) -> None:
        part = AlterShareGroupOffsetsRequestPartition(partition_index=1, start_offset=start_offset)
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[part])
        self.service.alter_offsets(
            AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic]),
            context,
            self.replies.append,
        )


def context(token: Hashable) -> RequestContext:
    return RequestContext(api_version=0, client_id="c", client_host="/h", reply_to=token)


def test_offsets_are_altered_once_the_group_remembers_their_states() -> None:
    steps = Steps()
    steps.alter(7)
    assert [offset for _, offset in steps.initialized] == [7]
    assert steps.replies == []
    steps.waiting.pop()(None)
    (reply,) = steps.replies
    assert (
        reply.error_code,
        [part.error_code for topic in reply.responses for part in topic.partitions],
    ) == (0, [0])


def test_offsets_whose_states_the_group_does_not_remember_are_not_said_to_be_altered() -> None:
    """The next coordinator initializes them again, at no offset: who altered them has to do so
    again.
    """
    steps = Steps()
    steps.alter(7)
    steps.is_gone = True
    steps.waiting.pop()(None)
    (reply,) = steps.replies
    assert reply.error_code == ErrorCode.NOT_COORDINATOR
    assert reply.error_message
