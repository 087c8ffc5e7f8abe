"""The topics that a consumer subscribes to, by name or by a pattern.

This module decides which topics match, which errors of topics are raised to the application, and
which missing topics are logged. ``subscriptions`` holds the assigned partitions.
"""

import logging
from collections.abc import Iterable, Mapping
from re import Pattern

from log_service.client.connections.cluster_metadata import REFUSED_TOPICS, ClusterMetadata
from log_service.client.consumer.subscriptions import Subscriptions
from log_service.common.errors import ErrorCode, KafkaError
from log_service.config.client import ConsumerConfig

logger = logging.getLogger(__name__)


class SubscribedTopics:
    """Maintains the topics of a subscription. ``pattern`` is None if they are given by name."""

    def __init__(
        self, cluster: ClusterMetadata, config: ConsumerConfig, subscriptions: Subscriptions
    ) -> None:
        self.pattern: Pattern[str] | None = None
        self._cluster = cluster
        self._config = config
        self._subscriptions = subscriptions
        self._refusals: Mapping[str, ErrorCode] | None = None
        self._missing: frozenset[str] = frozenset()

    async def choose(self, topics: Pattern[str] | Iterable[str]) -> None:
        """Subscribe to these topics, or to all that match a pattern.

        Raises:
            KafkaError: the topics for a pattern cannot be listed.
        """
        if isinstance(topics, Pattern):
            await self._list_topics()
            self.pattern, self._subscriptions.topics = topics, self._matching(topics)
        else:
            named = frozenset(topics)
            self._cluster.watch_only(named)
            self._cluster.watch_all(is_on=False)
            self.pattern, self._subscriptions.topics = None, named

    def clear(self) -> None:
        """Subscribe to no topics."""
        self._subscriptions.topics, self.pattern = frozenset(), None
        self._cluster.watch_all(is_on=False)

    def match_again(self) -> bool:
        """Match the pattern with the present topics. Return whether the matching ones changed."""
        if self.pattern is None:
            return False
        matching = self._matching(self.pattern)
        if matching == self._subscriptions.topics:
            return False
        logger.info(
            "group %s: %d topics match %r now",
            self._config.group_id,
            len(matching),
            self.pattern.pattern,
        )
        self._subscriptions.topics = matching
        return True

    def raise_refusal(self) -> None:
        """Raise one error for all subscribed or assigned topics that the cluster refuses.

        It is raised once for each metadata response. Topics that do not exist are only logged,
        because they may be created later. With a pattern, nothing is raised or logged.
        """
        view = self._cluster.view
        if view.errors is self._refusals or self.pattern is not None:
            # A view that changed without a response keeps its errors.
            return
        self._refusals = view.errors
        self._warn_of_missing()
        read = self._subscriptions.topics.union(each.topic for each in self._subscriptions.assigned)
        refused = {
            topic: view.errors[topic]
            for topic in sorted(read & view.errors.keys())
            if view.errors[topic] in REFUSED_TOPICS
        }
        if refused:
            named = ", ".join(f"{topic!r} ({code.name})" for topic, code in refused.items())
            raise KafkaError(next(iter(refused.values())), f"topics cannot be read: {named}")

    def _warn_of_missing(self) -> None:
        """Log each topic once that is subscribed by name and does not exist."""
        view, subscribed = self._cluster.view, self._subscriptions.topics
        missing = frozenset(
            topic
            for topic in subscribed
            if view.errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        for topic in sorted(missing - self._missing):
            text = (
                "group %s: the topic %s is subscribed and not there: nothing comes of it until it"
                " is created"
            )
            logger.warning(text, self._config.group_id, topic)
        # Earlier missing topics are kept, because a response need not cover all subscribed topics.
        self._missing = missing | (self._missing & subscribed).difference(view.topics)

    async def _list_topics(self) -> None:
        """Watch all topics of the cluster from now on. Nothing changes if they cannot be listed."""
        self._cluster.watch_all(is_on=True)
        try:
            await self._cluster.retry(
                self._cluster.refresh, self._config.default_api_timeout_ms, is_refreshing=False
            )
        except BaseException:
            self._cluster.watch_all(is_on=self.pattern is not None)
            raise

    def _matching(self, pattern: Pattern[str]) -> frozenset[str]:
        """Return the topics that match a pattern now."""
        topics = self._cluster.view.topics.values()
        is_internal_wanted = not self._config.exclude_internal_topics
        return frozenset(
            topic.name
            for topic in topics
            if (is_internal_wanted or not topic.is_internal) and pattern.fullmatch(topic.name)
        )
