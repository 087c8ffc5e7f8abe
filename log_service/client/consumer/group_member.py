"""State of one member of a group of the consumer protocol (KIP-848).

Builds heartbeats and applies their responses, without network, clock and callbacks. The coordinator
sends an assignment. Then follows a *pass*: in its polls the application gives up partitions and
takes over others. When the pass is complete, the member reports the owned partitions.

Invariants: ``owned`` holds the partitions that the application may read now. Owned partitions are
not reported during a pass. If a report leaves a partition out, the coordinator assigns it to
another member. So the member takes over no partition from an assignment older than the report. If a
heartbeat may have been lost, the member drops the assignment that is not applied yet, and the next
heartbeat has all fields. The coordinator then sends the whole assignment.

Source: KIP-848 as of Kafka 4.3.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from log_service.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)

JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH = 0, -1, -2
FIRST_INTERVAL_MS = 1_000
"""Pause after a first heartbeat without a response."""

Owned = frozenset[tuple[UUID, int]]
NOTHING: Owned = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Subscription of a member: topic names, and a regular expression that the broker matches.

    The expression matches whole names.
    """

    topics: tuple[str, ...] = ()
    regex: str = ""


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """The state of one member of a group, from which its heartbeats are built.

    The client generates ``member_id``, which never changes. Times are in milliseconds.
    """

    group_id: str
    member_id: str
    rebalance_timeout_ms: int
    instance_id: str | None = None
    rack_id: str | None = None
    assignor: str | None = None
    wanted: Wanted = field(default_factory=Wanted)
    epoch: int = JOIN_EPOCH
    interval_ms: int = FIRST_INTERVAL_MS
    owned: Owned = NOTHING
    new_assignment: Owned | None = None
    """The assignment of a pass that is not complete, else None."""
    _is_everything_due: bool = True
    _is_report_due: bool = False
    _is_subscription_due: bool = True

    @property
    def is_member(self) -> bool:
        """Whether the group has accepted the member."""
        return self.epoch > JOIN_EPOCH

    @property
    def is_urgent(self) -> bool:
        """Whether to send the next heartbeat at once, because others may wait for its content."""
        return (
            not self.is_member
            or self._is_subscription_due
            or (self._is_report_due and self.new_assignment is None)
        )

    # Heartbeats

    def subscribe(self, wanted: Wanted) -> None:
        """Change the subscription."""
        self._is_subscription_due = self._is_subscription_due or wanted != self.wanted
        self.wanted = wanted

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat.

        Unchanged fields are left out, unless an earlier heartbeat may have been lost.
        """
        is_joining = not self.is_member
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        request.instance_id = self.instance_id
        if is_joining or self._is_everything_due:
            request.rack_id = self.rack_id
            request.rebalance_timeout_ms = self.rebalance_timeout_ms
            request.server_assignor = self.assignor
        if is_joining or self._is_everything_due or self._is_subscription_due:
            request.subscribed_topic_names = list(self.wanted.topics)
            request.subscribed_topic_regex = (
                self.wanted.regex if self.wanted.regex or not is_joining else None
            )
        if is_joining:
            request.topic_partitions = []
        elif self.new_assignment is None and (self._is_everything_due or self._is_report_due):
            request.topic_partitions = _as_topics(self.owned)
        return request

    def leaving(self) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat that leaves the group.

        A static member leaves temporarily, because it may come back.
        """
        epoch = LEAVE_EPOCH if self.instance_id is None else STATIC_LEAVE_EPOCH
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch
        )
        request.instance_id = self.instance_id
        return request

    # Responses

    def take_response(
        self, request: ConsumerGroupHeartbeatRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        """Apply the response to a heartbeat."""
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self.interval_ms = max(response.heartbeat_interval_ms, 1)
        subscribed = Wanted(
            topics=tuple(request.subscribed_topic_names or ()),
            regex=request.subscribed_topic_regex or "",
        )
        if request.subscribed_topic_names is not None and subscribed == self.wanted:
            self._is_subscription_due = False
        if request.topic_partitions is not None:
            self._is_everything_due = self._is_everything_due and request.rebalance_timeout_ms < 0
            self._is_report_due = False
        if response.assignment is not None:
            new_assignment = frozenset(
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            )
            self.new_assignment = None if new_assignment == self.owned else new_assignment

    def note_silence(self) -> None:
        """Note that a heartbeat or its response may be lost, so the next one has all fields."""
        self.new_assignment = None
        self._is_everything_due = True

    def lose(self) -> None:
        """Make the next heartbeat join again, because the group dropped this member.

        The owned partitions may belong to other members now. They stay in ``owned`` until the
        application knows this.
        """
        self.epoch = JOIN_EPOCH
        self.new_assignment = None
        self._is_everything_due = self._is_subscription_due = True
        self._is_report_due = False

    # Passes

    def give_up(self, partitions: Iterable[tuple[UUID, int]]) -> None:
        """Remove these partitions from the owned ones."""
        self.owned -= frozenset(partitions)

    def finish(self, owned: Owned) -> None:
        """End a pass with these owned partitions, which the next heartbeat reports.

        If they are not the whole assignment, the next heartbeat has all fields, and makes the
        coordinator send the assignment again.
        """
        self._is_everything_due = self._is_everything_due or owned != self.new_assignment
        self.owned = owned
        self.new_assignment = None
        self._is_report_due = True


def _as_topics(owned: Owned) -> list[RequestTopicPartitions]:
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(owned):
        by_topic.setdefault(topic_id, []).append(index)
    return [
        RequestTopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic.items()
    ]
