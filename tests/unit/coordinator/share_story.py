"""A story of members of share groups runs on a shard of the group coordinator (KIP-932).

States begin when the story says so.
"""

from dataclasses import dataclass, field
from typing import Any

from log_service.common.errors import KafkaError
from log_service.config.views import GroupConfig, ShareGroupConfig
from log_service.coordinator.group.records.codec import GroupRecord
from log_service.coordinator.group.share.group import ShareGroup
from log_service.coordinator.group.share.heartbeats import StatesToInitialize
from log_service.coordinator.group.values.partitions import NO_PARTITIONS, Partitions
from log_service.coordinator.request_context import RequestContext
from log_service.protocol.messages.share_group_describe import DescribedGroup
from log_service.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from log_service.state_machine.decision import Decision
from tests.unit.coordinator.consumer_story import ConsumerStory
from tests.unit.coordinator.group_story import GROUP


@dataclass
class ShareStory(ConsumerStory):
    """Members report; ``beat`` is one heartbeat and what its member hears."""

    config: GroupConfig = field(
        default_factory=lambda: GroupConfig(share=ShareGroupConfig(assignment_interval_ms=0))
    )

    def __post_init__(self) -> None:
        self.to_initialize: list[StatesToInitialize] = []
        super().__post_init__()

    def settle(self, decision: Decision[GroupRecord]) -> None:
        super().settle(decision)
        self.to_initialize += [
            each for each in decision.announcements if isinstance(each, StatesToInitialize)
        ]

    def share(self, handler: str, *arguments: Any, **named: Any) -> Any:
        """Have a handler of share groups decide, and return the reply, or why it refused."""
        token = next(self._tokens)
        decision = self.decision()
        context = RequestContext(
            api_version=1, client_id="client", client_host="/127.0.0.1", reply_to=token
        )
        try:
            getattr(self.shard.share_groups, f"handle_{handler}")(
                *arguments, context, decision, **named
            )
        except KafkaError as error:
            decision.take_back()
            return error
        self.settle(decision)
        return self.replies[token]

    def beat(  # type: ignore[override]
        self,
        member_id: str,
        epoch: int,
        *,
        topics: tuple[str, ...] | None = None,
        group: str = GROUP,
        rack: str | None = None,
    ) -> Any:
        names = None if topics is None else list(topics)
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=names,
            rack_id=rack,
        )
        return self.share("heartbeat", request)

    def told(self, member_id: str, epoch: int, **said: Any) -> ShareGroupHeartbeatResponse:  # type: ignore[override]
        """Send a heartbeat that succeeds."""
        response = self.beat(member_id, epoch, **said)
        assert isinstance(response, ShareGroupHeartbeatResponse), response
        return response

    def refused(self, member_id: str, epoch: int, **said: Any) -> int:  # type: ignore[override]
        """Send a heartbeat that is refused, and return the code."""
        response = self.beat(member_id, epoch, **said)
        assert isinstance(response, KafkaError), response
        return response.code

    def enter(self, member_id: str, *topics: str) -> ShareGroupHeartbeatResponse:  # type: ignore[override]
        """Join."""
        return self.told(member_id, 0, topics=topics or ("orders",))

    def begin(self, *, fails: bool = False) -> None:
        """Have all states that are to begin do so, or fail."""
        while self.to_initialize:
            wanted = self.to_initialize.pop(0)
            well: Partitions = NO_PARTITIONS if fails else wanted.partitions
            failed: Partitions = wanted.partitions if fails else NO_PARTITIONS
            decision = self.decision()
            self.shard.share_groups.handle_initialized(
                wanted.group_id, well, failed, next(self._tokens), decision
            )
            self.settle(decision)

    @property
    def group(self) -> ShareGroup:  # type: ignore[override]
        group = self.shard.share_groups.get(GROUP)
        assert group is not None
        return group

    def described(self) -> DescribedGroup:  # type: ignore[override]
        described = self.share("describe", GROUP)
        assert isinstance(described, DescribedGroup)
        return described


def assigned(response: ShareGroupHeartbeatResponse) -> dict[Any, list[int]] | None:
    """Return the assignment in a response, or None without one."""
    if response.assignment is None:
        return None
    return {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}
