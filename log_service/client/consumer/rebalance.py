"""Runs the steps of a rebalance in the classic protocol, inside the consumer's polls.

The consumer commits, gives up partitions, takes others over, and informs the application. Eager
members give up all partitions before they join. Cooperative members join first. Then they give up
only the partitions that go to other members (KIP-429). All steps run inside the application's own
poll, so no partition is taken away while its records are processed.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from inspect import isawaitable

import trio

from log_service.client.connections.cluster_view import ClusterView
from log_service.client.consumer.assignors import ASSIGNORS
from log_service.client.consumer.commits import Committer
from log_service.client.consumer.consumer_membership import ConsumerMembership
from log_service.client.consumer.membership import JoinOutcome, Membership
from log_service.client.consumer.subscriptions import Start, Subscriptions
from log_service.client.group_protocol import encode_subscription, subscription_for
from log_service.common.types import TopicPartition
from log_service.config.client import ConsumerConfig

logger = logging.getLogger(__name__)

LEAVE_S = 5.0
"""Time limit of the request that leaves the group.

A coordinator that takes longer is unreachable.
"""
RebalanceCallback = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]
"""Called inside ``poll`` with the affected partitions.

It may be async, and may commit and seek. If a poll is cancelled in the callback, the next poll
calls it again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCallbacks:
    """Rebalance callbacks of the application. ``on_lost`` None means ``on_revoked``."""

    on_assigned: RebalanceCallback | None = None
    on_revoked: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None


class Rebalancer:
    """Runs the rebalance steps of one subscribed consumer, with the classic protocol."""

    def __init__(
        self,
        config: ConsumerConfig,
        subscriptions: Subscriptions,
        membership: Membership,
        committer: Committer,
        callbacks: RebalanceCallbacks,
        *,
        is_creating_topics: bool,
    ) -> None:
        self._config = config
        self._subscriptions = subscriptions
        self._membership = membership
        self._committer = committer
        self._callbacks = callbacks
        self._is_creating_topics = is_creating_topics
        self._previous: tuple[TopicPartition, ...] = ()
        self._previous_generation = -1
        self._news = News(callbacks.on_assigned)
        self._loss = News(callbacks.on_lost or callbacks.on_revoked)
        self.is_cooperative = all(
            ASSIGNORS[name].is_cooperative for name in config.partition_assignment_strategy
        )

    async def advance(self) -> None:
        """Run the steps that are due, such as giving up and taking over partitions.

        Raises:
            KafkaError: this member can never join.
            Exception: a callback raised.
        """
        membership = self._membership
        await self._lose()
        membership.raise_error()
        await self._news.run_callback()
        if membership.outcome is not None:
            await self._take_over(membership.outcome)
        if membership.is_join_needed and not membership.is_joining:
            await self._prepare()
            membership.start_join(self._subscribing, is_creating_topics=self._is_creating_topics)

    def subscribed(self, reason: str) -> None:
        """Join again, because the subscription changed."""
        self._membership.request_join(reason)

    def look_at(self, view: ClusterView) -> None:
        """Join again if this member assigned by partition counts or racks that changed."""
        if self._membership.is_outdated_by(view):
            self._membership.request_join("partitions of subscribed topics changed")

    async def leave(self, *, is_committing: bool) -> None:
        """Give up all partitions and leave the group; see ``GroupSteps.leave`` and ``leaving``."""
        async with leaving(self._membership):
            await self._lose()
            if is_committing:
                await self._committer.commit_consumed()
            await self._revoke(self._subscriptions.assigned)

    async def _prepare(self) -> None:
        """Commit, and give up the partitions that a member must not own while it joins.

        An eager member gives up all. A cooperative one gives up those of topics that it no longer
        subscribes to.
        """
        await self._committer.commit_consumed()
        owned = self._subscriptions.assigned
        if self._membership.is_member:
            self._previous, self._previous_generation = tuple(owned), self._membership.generation_id
        if self.is_cooperative:
            await self._revoke(
                [each for each in owned if each.topic not in self._subscriptions.topics]
            )
        else:
            await self._revoke(owned)

    async def _take_over(self, outcome: JoinOutcome) -> None:
        """Give up revoked partitions and take over the assigned ones.

        If a poll ends before this is complete, the next poll does all of it again.
        """
        membership = self._membership
        owned = set(self._subscriptions.assigned)
        assigned = set(outcome.assigned)
        revoked = sorted(owned - assigned)
        if revoked:
            await self._committer.commit_consumed()
            await self._revoke(revoked)
        if membership.take_outcome() is not outcome:
            return  # the member was lost meanwhile
        text = "group %s: generation %d by %s: %d partitions, %d of them new"
        logger.info(
            text,
            self._config.group_id,
            outcome.generation_id,
            outcome.assignor,
            len(assigned),
            len(assigned - owned),
        )
        self._committer.forget()
        self._subscriptions.assign(sorted(assigned), Start.COMMITTED)
        if revoked and self.is_cooperative:
            membership.request_join("gave up partitions that others wait for")
        self._news.note(sorted(assigned - owned))
        await self._news.run_callback()

    async def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            logger.info("group %s: gives up %d partitions", self._config.group_id, len(partitions))
            await run_callback(self._callbacks.on_revoked, partitions)
            self._subscriptions.revoke(partitions)

    async def _lose(self) -> None:
        """Drop the partitions and tell the application, if the group dropped this member."""
        if self._membership.take_lost():
            lost = self._subscriptions.assigned
            self._previous, self._previous_generation = (), -1
            self._news.forget()
            self._subscriptions.revoke(lost)
            if lost:
                logger.warning("group %s: lost %d partitions", self._config.group_id, len(lost))
                self._loss.note(lost)
        await self._loss.run_callback()

    def _subscribing(self, assignor: str) -> bytes:
        owned = self._subscriptions.assigned if self.is_cooperative else self._previous
        generation_id = (
            self._membership.generation_id
            if self._membership.is_member
            else self._previous_generation
        )
        subscription = subscription_for(
            assignor,
            sorted(self._subscriptions.topics),
            owned,
            generation_id,
            self._config.client_rack,
        )
        return encode_subscription(subscription)


@asynccontextmanager
async def leaving(membership: Membership | ConsumerMembership) -> AsyncIterator[None]:
    """Run a block that gives up all partitions, then leave the group.

    The group is also left if the block fails or is cancelled, because other members wait for the
    partitions. Leaving takes at most ``LEAVE_S``.
    """
    try:
        yield
    finally:
        membership.end()  # it would join again
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LEAVE_S):
            await membership.leave("the consumer was closed")


class News:
    """The partitions that are still to be passed to one callback.

    If a call of the callback is cancelled, the next poll calls it again. If it raised, it is not
    called again.
    """

    def __init__(self, callback: RebalanceCallback | None) -> None:
        self._callback = callback
        self._partitions: Sequence[TopicPartition] | None = None

    def note(self, partitions: Sequence[TopicPartition]) -> None:
        """Set the partitions for the next call of the callback."""
        self._partitions = partitions

    def forget(self) -> None:
        """Drop the partitions, so that the callback is not called."""
        self._partitions = None

    async def run_callback(self) -> None:
        """Call the callback if partitions are pending."""
        if self._partitions is None:
            return
        try:
            await run_callback(self._callback, self._partitions)
        except Exception:
            self.forget()
            raise
        self.forget()


async def run_callback(
    callback: RebalanceCallback | None, partitions: Sequence[TopicPartition]
) -> None:
    """Call a callback, if there is one, and wait for its end."""
    if callback is not None:
        result = callback(partitions)
        if isawaitable(result):
            await result
