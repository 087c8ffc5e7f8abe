"""Sends the in-sync replicas that this node's leaders propose, by AlterPartition (KIP-497).

This file decides when proposals are sent to the controller. Waiting proposals are sent together
when no request is in flight. If the controller could not be reached or refused for a temporary
reason, they are sent again after a pause. ``PartitionState`` decides the content of a proposal and
the effect of a response. The controller decides whether to accept the proposal. This module also
checks for lagging followers, twice within the permitted lag time.

Invariants:

- One request of this node is in flight at a time.
- A proposal that newer metadata voided is not sent.
- A proposal that the controller refused is not sent again if only newer metadata can resolve the
  refusal.
"""

import logging
from collections.abc import Callable, Iterable
from uuid import UUID

import trio

from log_service.common.env import Clock
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import TopicPartition
from log_service.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from log_service.replication.links import ClusterLinks
from log_service.replication.partition import Partition
from log_service.replication.partition_state import Change, IsrProposal

logger = logging.getLogger(__name__)

RESEND_MS = 50
MAX_PARTITIONS_PER_REQUEST = 2_000

Sent = dict[tuple[UUID, int], tuple[Partition, IsrProposal]]
"""The proposals of one request, by topic id and partition."""


class IsrChanges:
    """The ISR proposals of one node.

    ``led`` yields the partitions that this node leads. ``on_change`` is called with the changes
    that a response caused. ``shrink_count``, ``expand_count`` and ``refused_count`` count the
    results of all proposals so far.
    """

    def __init__(
        self,
        *,
        node_id: int,
        links: ClusterLinks,
        clock: Clock,
        nursery: trio.Nursery,
        led: Callable[[], Iterable[Partition]],
        on_change: Callable[[Partition, Change], None],
    ) -> None:
        self._node_id = node_id
        self._links = links
        self._clock = clock
        self._nursery = nursery
        self._led = led
        self._on_change = on_change
        self.shrink_count = 0
        self.expand_count = 0
        self.refused_count = 0
        self._waiting: dict[Partition, None] = {}
        self._is_sending = False
        self._quiet = QuietLogger(logger, clock.monotonic_ms)
        nursery.start_soon(self._look_for_laggards)

    def __repr__(self) -> str:
        return f"<IsrChanges waiting={len(self._waiting)}{' sending' if self._is_sending else ''}>"

    def request(self, partition: Partition) -> None:
        """Send a partition's proposal as soon as possible."""
        self._waiting[partition] = None
        if not self._is_sending:
            self._is_sending = True
            self._nursery.start_soon(self._send_all)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                if not await self._send_some():
                    await trio.sleep(RESEND_MS / 1_000)
        finally:
            self._is_sending = False

    async def _send_some(self) -> bool:
        """Send the waiting proposals and process the response.

        Return whether no proposal is left to send.
        """
        sent = self._take_waiting()
        if not sent:
            return True
        try:
            response = await self._links.controller.request(
                self._message(sent), AlterPartitionResponse
            )
        except KafkaError as error:
            self._quiet.warning(
                "refused",
                "In-sync replicas of %d partitions were not changed: %s",
                len(sent),
                error,
            )
            self._waiting = {**{partition: None for partition, _ in sent.values()}, **self._waiting}
            return False
        return self._take_response(sent, response)

    def _take_waiting(self) -> Sent:
        sent: Sent = {}
        while self._waiting and len(sent) < MAX_PARTITIONS_PER_REQUEST:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            proposal = partition.state.proposal
            if proposal is not None and partition.is_leader:
                sent[partition.topic_id, partition.topic_partition.partition] = partition, proposal
        return sent

    def _message(self, sent: Sent) -> AlterPartitionRequest:
        topics: dict[UUID, RequestTopicData] = {}
        for (topic_id, index), (_, proposal) in sent.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = RequestTopicData(topic_id=topic_id)
            members = [
                BrokerState(broker_id=broker_id, broker_epoch=epoch)
                for broker_id, epoch in proposal.members
            ]
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=self._links.broker_epoch(),
            topics=list(topics.values()),
        )

    def _take_response(self, sent: Sent, response: AlterPartitionResponse) -> bool:
        """Pass every result to its partition, and return whether no proposal is left to send.

        A proposal that the response does not contain is sent again.
        """
        refused: dict[ErrorCode, list[TopicPartition]] = {}
        for topic in response.topics:
            for result in topic.partitions:
                found = sent.pop((topic.topic_id, result.partition_index), None)
                if found is not None:
                    self._take_result(*found, result)
                    if result.error_code:
                        refused.setdefault(ErrorCode.of(result.error_code), []).append(
                            found[0].topic_partition
                        )
        for code, partitions in refused.items():
            text = "The controller refuses the in-sync replicas of %d partition%s, as %s: %s"
            self._quiet.info(
                code, text, len(partitions), "s" * (len(partitions) > 1), partitions[0], code.name
            )
        for partition, _ in sent.values():
            self._waiting[partition] = None
        return not self._waiting

    def _take_result(
        self, partition: Partition, proposal: IsrProposal, result: ResponsePartitionData
    ) -> None:
        now_ms, state = self._clock.monotonic_ms(), partition.state
        if result.error_code:
            code = ErrorCode.of(result.error_code)
            self.refused_count += 1
            change = state.refuse_isr(proposal, code, now_ms)
        else:
            # Count by the proposal. The metadata usually arrives before the response, and the state
            # has the new ISR by then.
            self.shrink_count += not proposal.is_expansion
            self.expand_count += proposal.is_expansion
            change = state.accept_isr(
                proposal, tuple(result.isr), result.leader_epoch, result.partition_epoch, now_ms
            )
        if Change.MUST_RESEND in change:
            self._waiting[partition] = None
        elif change:
            self._on_change(partition, change)

    async def _look_for_laggards(self) -> None:
        while True:
            await trio.sleep(self._links.config.lag_max_ms / 2_000)
            self.look_for_laggards()

    def look_for_laggards(self) -> None:
        """Propose an ISR without the followers that have lagged for too long."""
        now_ms = self._clock.monotonic_ms()
        for partition in self._led():
            state = partition.state
            if not state.followers:
                continue
            change = state.look_again(now_ms)
            if state.propose_shrink(now_ms) is not None:
                self.request(partition)
            if change:
                self._on_change(partition, change)
