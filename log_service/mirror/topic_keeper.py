"""Creates and changes topics of the target at intervals, so that they are like the source's.

``topic_plan`` decides the changes. A topic that cannot be created or changed causes a complaint and
does not delay other topics. A config that the target refuses causes a complaint, and the topic is
mirrored without the config. ``TopicKeeper.topics`` has the mirrored topics by name. It is replaced
as a whole and never changed in place.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, ItemsFailed, NewTopic, TopicListing
from log_service.common.errors import ErrorCode, KafkaError
from log_service.mirror.complaints import Complaints
from log_service.mirror.progress import Lineage
from log_service.mirror.refused_configs import alter_configs, create_topics
from log_service.mirror.retries import Retries
from log_service.mirror.settings import FlowSettings
from log_service.mirror.topic_plan import (
    TopicChanges,
    mirrored_topics,
    missing_topics,
    own_configs,
    plan_topics,
)

AGAIN_S = 2
"""Pause before the next refresh after a first failure or a ``doubt``."""
CLUSTERS = ""
"""Stands for the failed item if a request to a cluster failed. No topic has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTopic:
    """A mirrored topic of the source, and its topic in the target."""

    name: str
    remote_name: str
    lineage: Lineage
    partition_count: int


class TopicKeeper:
    """Keeps the target's topics of one flow up to date. ``flows`` are all enabled flows."""

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        flow: FlowSettings,
        source: Admin,
        target: Admin,
        complaints: Complaints,
    ) -> None:
        self._flows = flows
        self._flow = flow
        self._source = source
        self._target = target
        self._complaints = complaints
        self._doubt = trio.Event()
        self._retries = Retries(AGAIN_S, flow.refresh_topics_s)
        self.topics: Mapping[str, MirroredTopic] = {}

    async def run(self) -> None:
        """Call ``refresh`` at intervals, until cancelled.

        The pause is the flow's interval. It is short after ``doubt`` was called and after a first
        failure, and doubles with every further failure up to the interval.
        """
        while True:
            with trio.move_on_after(self._retries.wait_s(trio.current_time())):
                await self._doubt.wait()
                await trio.sleep(min(AGAIN_S, self._flow.refresh_topics_s))
            self._doubt = trio.Event()
            try:
                await self.refresh()
            except KafkaError as error:
                self._retries.settle({CLUSTERS}, trio.current_time())
                self._complaints.note(f"the topics cannot be looked at: {error}")

    def doubt(self) -> None:
        """Cause a refresh soon, because a topic may have been deleted or created anew."""
        self._doubt.set()

    async def refresh(self) -> None:
        """Update the topics of the target as far as possible, and replace ``topics``.

        Topics that must not be mirrored, are missing or cannot be changed cause complaints.

        Raises:
            KafkaError: a request to a cluster failed.
        """
        listed = {each.name: each for each in await self._source.list_topics()}
        names, refused = mirrored_topics(self._flows, self._flow, listed)
        for sentence in (
            *refused.values(),
            *map(self._missing, missing_topics(self._flow, listed)),
        ):
            self._complaints.note(sentence)
        source = {name: listed[name] for name in names}
        target = {
            each.name: each for each in await self._target.list_topics(is_internal_included=True)
        }
        remote_names = {name: self._flow.remote_topic(name) for name in source}
        changes = plan_topics(
            self._flow,
            source,
            target,
            await self._configs(self._source, source),
            await self._configs(
                self._target, [name for name in remote_names.values() if name in target]
            ),
        )
        created, failed = await self._change(changes)
        ids = {name: str(each.topic_id) for name, each in target.items()} | created
        self.topics = {
            name: MirroredTopic(
                name=name,
                remote_name=remote_names[name],
                lineage=Lineage(
                    source_topic_id=str(topic.topic_id), target_topic_id=ids[remote_names[name]]
                ),
                partition_count=_writable_count(
                    topic, target.get(remote_names[name]), changes, failed
                ),
            )
            for name, topic in source.items()
            if remote_names[name] in ids
        }
        self._retries.settle(failed, trio.current_time())

    def _missing(self, name: str) -> str:
        return (
            f"{self._flow.source.alias} has no topic {name}, which {self._flow.name}.topics names:"
            " it is mirrored once it is there"
        )

    async def _configs(self, admin: Admin, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the configs that are set for each topic itself, by topic.

        Topics whose configs cannot be read are left out. They cause a complaint, unless the topic
        does not exist.
        """
        resources = [ConfigResource.topic(topic) for topic in topics]
        if not resources:
            return {}
        try:
            described = await admin.describe_configs(resources)
        except ItemsFailed as error:
            described = dict(error.results)
            for resource, each in error.errors.items():
                if each.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._complaints.note(
                        f"the configs of the topic {resource.name} cannot be read: {each}"
                    )
        return {
            resource.name: own_configs(self._flow, entries)
            for resource, entries in described.items()
        }

    async def _change(self, changes: TopicChanges) -> tuple[dict[str, str], set[str]]:
        """Make the planned changes in the target.

        Return the ids of the created topics by name, and the names of topics whose change failed.
        """
        created: dict[str, str] = {}
        failed: set[str] = set()

        async def create() -> None:
            await self._create(changes.create, created)

        async def grow() -> None:
            await self._target.create_partitions(changes.grow)

        async def alter() -> None:
            await alter_configs(self._target, changes.alter, self._note_refused)

        for items, what, change in (
            (changes.create, "created", create),
            (changes.grow, "given more partitions", grow),
            (changes.alter, "configured", alter),
        ):
            if items:
                failed |= await self._attempt(what, change)
        return created, failed

    async def _create(self, topics: Sequence[NewTopic], created: dict[str, str]) -> None:
        try:
            ids: Mapping[str, object] = await create_topics(
                self._target, topics, self._note_refused
            )
        except ItemsFailed as error:
            created |= {name: str(topic_id) for name, topic_id in error.results.items()}
            raise
        created |= {name: str(topic_id) for name, topic_id in ids.items()}

    def _note_refused(self, topic: str, refused: str) -> None:
        alias = self._flow.target.alias
        if refused:
            self._complaints.note(
                f"the topic {topic} of {alias} is mirrored without what {alias} refuses: {refused}"
            )

    async def _attempt(self, what: str, change: Callable[[], Awaitable[None]]) -> set[str]:
        """Await ``change``, and return the names of the topics for which it failed.

        ``what`` is a participle for complaints, such as "created".
        """
        try:
            await change()
        except ItemsFailed as error:
            for name, each in error.errors.items():
                if each.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    self._complaints.note(
                        f"the topic {name} of {self._flow.target.alias} cannot be {what}: {each}"
                    )
            return set(error.errors)
        return set()


def _writable_count(
    topic: TopicListing, there: TopicListing | None, changes: TopicChanges, failed: set[str]
) -> int:
    """Return how many partitions of a topic can be mirrored, after ``changes`` were tried.

    ``there`` is the target's topic before the changes. The result is lower than the source's count
    if the target could not get as many partitions.
    """
    if there is None or (there.name in changes.grow and there.name not in failed):
        return topic.partition_count
    return min(topic.partition_count, there.partition_count)
