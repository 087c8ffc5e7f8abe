"""Applies new assignments of the consumer protocol (KIP-848) inside the consumer's polls.

First the consumer commits, informs the application and gives up the revoked partitions. Only then
does it take over new ones and report its partitions. As soon as a report leaves a partition out,
the coordinator assigns it to another member. If a newer assignment arrives while a callback runs,
the current one is abandoned. The next poll applies the newer one.
"""

import logging
from collections.abc import Iterable, Sequence
from uuid import UUID

from log_service.client.connections.cluster_view import ClusterView
from log_service.client.consumer.commits import Committer
from log_service.client.consumer.consumer_membership import ConsumerMembership
from log_service.client.consumer.group_member import Owned, Wanted
from log_service.client.consumer.rebalance import News, RebalanceCallbacks, leaving, run_callback
from log_service.client.consumer.subscriptions import Start, Subscriptions
from log_service.client.metrics import ConsumerMeter
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig

logger = logging.getLogger(__name__)


class Reconciler:
    """Runs the rebalance steps of one subscribed consumer, with the consumer protocol.

    ``regex`` is the subscribed pattern that the broker matches. It is empty without a pattern.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        membership: ConsumerMembership,
        committer: Committer,
        callbacks: RebalanceCallbacks,
        *,
        regex: str,
        meter: ConsumerMeter,
    ) -> None:
        self._config = config
        self._subscriptions = subscriptions
        self._membership = membership
        self._committer = committer
        self._callbacks = callbacks
        self._regex = regex
        self._meter = meter
        self._news = News(callbacks.on_assigned)
        self._loss = News(callbacks.on_lost or callbacks.on_revoked)

    async def advance(self) -> None:
        """Run the steps that are due, such as giving up and taking over partitions.

        Raises:
            KafkaError: this member can never join.
            Exception: a callback raised.
        """
        membership = self._membership
        await self._lose()
        membership.raise_error()
        membership.start()
        await self._news.run_callback()
        new_assignment = membership.new_assignment
        if new_assignment is not None:
            await self._reconcile(new_assignment)

    def subscribed(self, reason: str) -> None:  # noqa: ARG002 - heartbeats carry no reason
        """Report the current subscription to the group."""
        self._membership.subscribe(
            Wanted(topics=tuple(sorted(self._subscriptions.topics)), regex=self._regex)
        )

    def look_at(self, view: ClusterView) -> None:
        """Do nothing, because the coordinator reacts to changes of partitions and racks itself."""

    async def leave(self, *, is_committing: bool) -> None:
        """Give up all partitions and leave the group; see ``GroupSteps.leave`` and ``leaving``."""
        async with leaving(self._membership):
            await self._lose()
            if is_committing:
                await self._committer.commit_consumed()
            await self._revoke(self._subscriptions.assigned)

    async def _reconcile(self, new_assignment: Owned) -> None:
        started_ms = self._meter.now_ms()
        lost = self._membership.owned - new_assignment
        if lost:
            await self._committer.commit_consumed()
            await self._revoke(self._named(lost))
            self._membership.give_up(lost)
        self._membership.names.update(
            await self._membership.names_of(
                {topic_id for topic_id, _ in new_assignment} - self._membership.names.keys()
            )
        )
        if self._membership.new_assignment is not new_assignment:
            return  # a newer assignment arrived meanwhile, or the member is lost
        known = frozenset(each for each in new_assignment if each[0] in self._membership.names)
        added = self._named(known - self._membership.owned)
        if len(known) < len(new_assignment):
            logger.info(
                "group %s: %d assigned partitions are of topics that are not known yet",
                self._config.group_id,
                len(new_assignment - known),
            )
        logger.info(
            "group %s: %d partitions, %d of them new", self._config.group_id, len(known), len(added)
        )
        self._committer.forget()
        self._subscriptions.assign(self._named(known), Start.COMMITTED)
        self._membership.finish(known)
        self._membership.names = {
            topic_id: self._membership.names[topic_id] for topic_id, _ in known
        }
        self._meter.note_rebalance(started_ms, is_failed=False)
        self._news.note(added)
        await self._news.run_callback()

    def _named(self, partitions: Iterable[tuple[UUID, int]]) -> list[TopicPartition]:
        return sorted(
            TopicPartition(self._membership.names[topic_id], index)
            for topic_id, index in partitions
        )

    async def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            logger.info("group %s: gives up %d partitions", self._config.group_id, len(partitions))
            await run_callback(self._callbacks.on_revoked, partitions)
            self._subscriptions.revoke(partitions)

    async def _lose(self) -> None:
        """Drop the partitions and tell the application, if the group dropped this member.

        The member joins again after that.
        """
        if not self._membership.is_lost:
            return
        lost = self._subscriptions.assigned
        self._subscriptions.revoke(lost)
        self._membership.names.clear()
        self._news.forget()
        if lost:
            logger.warning("group %s: lost %d partitions", self._config.group_id, len(lost))
            self._loss.note(lost)
        await self._loss.run_callback()
        self._membership.begin_anew()
