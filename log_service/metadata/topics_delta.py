"""The changes of topics and partitions between two images, gathered record by record.

This module decides what the records of topics and partitions change. Replaying a record changes one
topic. ``build`` then replaces only the changed topics in the maps and shares the rest, so that one
change costs the same however many topics there are.

Invariant: a record that refers to an unknown topic or partition means a broken log, and is refused
with ``MetadataError``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from log_service.common.sorted_map import changed_map, sorted_map
from log_service.common.types import TopicId
from log_service.metadata.errors import MetadataError
from log_service.metadata.image import TopicImage, TopicsById, TopicsImage, colliding_key
from log_service.metadata.partition import PartitionRegistration, changed_partition, partition_of
from log_service.protocol.stored.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTopic:
    """The change of one topic that exists in the new image.

    The topic is new, or has new or changed partitions.
    """

    topic: TopicImage
    changed_partitions: Mapping[int, PartitionRegistration]
    is_new: bool


class _TopicChanges:
    """The changes of one topic while records are replayed.

    ``base`` is None for a topic that the delta creates.
    """

    __slots__ = ("base", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: TopicId, base: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.base = base
        self.partitions: dict[int, PartitionRegistration] = {}

    def partition(self, index: int) -> PartitionRegistration | None:
        if index in self.partitions:
            return self.partitions[index]
        return self.base.partitions.get(index) if self.base else None

    def all_partitions(self) -> Iterator[tuple[int, PartitionRegistration]]:
        if self.base is not None:
            yield from (
                (index, partition)
                for index, partition in self.base.partitions.items()
                if index not in self.partitions
            )
        yield from self.partitions.items()

    def build(self) -> TopicImage:
        partitions = (
            sorted_map(self.partitions)
            if self.base is None
            else changed_map(self.base.partitions, self.partitions)
        )
        return TopicImage(name=self.name, topic_id=self.topic_id, partitions=partitions)


class TopicsDelta:
    """The changes of the topics in ``base``.

    ``deleted`` holds the topics of ``base`` that were removed. ``changed`` is complete after
    ``build``.
    """

    def __init__(self, base: TopicsImage) -> None:
        self.base = base
        self.deleted: dict[TopicId, TopicImage] = {}
        self.changed: dict[TopicId, ChangedTopic] = {}
        self._topics: dict[TopicId, _TopicChanges] = {}
        self._ids_by_name: dict[str, TopicId | None] = {}

    @classmethod
    def between(cls, base: TopicsImage, image: TopicsImage) -> "TopicsDelta":
        """Return the changes that lead from ``base`` to ``image``, as if they had been built.

        No more records are replayed into them.
        """
        delta = cls(base)
        delta.deleted.update(
            (topic_id, topic)
            for topic_id, topic in base.by_id.items()
            if topic_id not in image.by_id
        )
        for topic in image.by_name.values():
            before = base.by_id.get(topic.topic_id)
            if before is None:
                delta.changed[topic.topic_id] = ChangedTopic(
                    topic=topic, changed_partitions=topic.partitions, is_new=True
                )
            elif changed := {
                index: each
                for index, each in topic.partitions.items()
                if before.partitions.get(index) != each
            }:
                delta.changed[topic.topic_id] = ChangedTopic(
                    topic=topic, changed_partitions=changed, is_new=False
                )
        return delta

    def create_topic(self, record: TopicRecord) -> None:
        """Add a topic without partitions.

        Raises:
            MetadataError: a topic of that name exists.
        """
        topic_id = TopicId(record.topic_id)
        if self._id_of(record.name) is not None:
            raise MetadataError(f"topic {record.name} is created twice")
        self._topics[topic_id] = _TopicChanges(record.name, topic_id, None)
        self._ids_by_name[record.name] = topic_id

    def create_partition(self, record: PartitionRecord) -> None:
        """Add a partition, or replace an existing one.

        Raises:
            MetadataError: there is no such topic.
        """
        self._topic(record.topic_id).partitions[record.partition_id] = partition_of(record)

    def change_partition(self, record: PartitionChangeRecord) -> None:
        """Apply a record to its partition.

        Fields that are missing in the record are unchanged.

        Raises:
            MetadataError: there is no such topic or partition.
        """
        topic = self._topic(record.topic_id)
        partition = topic.partition(record.partition_id)
        if partition is None:
            raise MetadataError(
                f"a change of partition {topic.name}-{record.partition_id}, which does not exist"
            )
        topic.partitions[record.partition_id] = changed_partition(partition, record)

    def clear_eligible_leaders(self, record: ClearElrRecord) -> None:
        """Clear the eligible leader replicas (KIP-966) of one topic, or of all if none is named.

        Raises:
            MetadataError: there is no such topic.
        """
        for topic_id in self._named_or_all(record.topic_name):
            topic = self._topic(topic_id)
            for index, partition in list(topic.all_partitions()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
                    topic.partitions[index] = changed_partition(partition, cleared)

    def remove_topic(self, record: RemoveTopicRecord) -> str:
        """Remove a topic with its partitions and return its name.

        Raises:
            MetadataError: there is no such topic.
        """
        topic = self._topic(record.topic_id)
        del self._topics[topic.topic_id]
        self._ids_by_name[topic.name] = None
        if topic.base is not None:
            self.deleted[topic.topic_id] = topic.base
        return topic.name

    def build(self) -> TopicsImage:
        """Return the topics after the last record."""
        if not self._topics and not self.deleted:
            return self.base
        by_name: dict[str, TopicImage | None] = {
            topic.name: None for topic in self.deleted.values()
        }
        names: dict[int, str | None] = {topic_id.int: None for topic_id in self.deleted}
        by_key: dict[str, str | None] = {
            key: None for topic in self.deleted.values() if (key := colliding_key(topic.name))
        }
        for topic_id, changes in self._topics.items():
            if changes.base is not None and not changes.partitions:
                continue
            topic = by_name[changes.name] = changes.build()
            if changes.base is None:
                names[topic_id.int] = changes.name
                if key := colliding_key(changes.name):
                    by_key[key] = changes.name
            self.changed[topic_id] = ChangedTopic(
                topic=topic, changed_partitions=changes.partitions, is_new=changes.base is None
            )
        if not by_name:
            return self.base
        next_by_name = changed_map(self.base.by_name, by_name)
        return TopicsImage(
            by_name=next_by_name,
            by_id=TopicsById(changed_map(self.base.by_id.names, names), next_by_name),
            by_colliding_key=changed_map(self.base.by_colliding_key, by_key),
        )

    def _id_of(self, name: str) -> TopicId | None:
        if name in self._ids_by_name:
            return self._ids_by_name[name]
        topic = self.base.by_name.get(name)
        return topic.topic_id if topic else None

    def _named_or_all(self, name: str) -> list[TopicId]:
        if not name:
            there = [topic_id for topic_id in self.base.by_id if topic_id not in self.deleted]
            return [
                *there,
                *(topic_id for topic_id, changes in self._topics.items() if changes.base is None),
            ]
        topic_id = self._id_of(name)
        if topic_id is None:
            raise MetadataError(
                f"the eligible leader replicas of topic {name} are cleared, which does not exist"
            )
        return [topic_id]

    def _topic(self, topic_id: UUID) -> _TopicChanges:
        changes = self._topics.get(TopicId(topic_id))
        if changes is None:
            base = None if topic_id in self.deleted else self.base.by_id.get(TopicId(topic_id))
            if base is None:
                raise MetadataError(f"a change of topic {topic_id}, which does not exist")
            changes = self._topics[TopicId(topic_id)] = _TopicChanges(
                base.name, base.topic_id, base
            )
        return changes
