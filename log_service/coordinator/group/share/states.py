"""Decide which partitions of a share group get a share state, and which lose it (KIP-932).

A share state is the progress of the group in one partition, which a share coordinator stores. These
plain functions change only the group's list of partitions with a state. They send no requests.

A partition is assigned to members only when its state is initialized. The group stores which states
are being initialized, so that the next coordinator initializes them again. It also stores the
topics whose states are being deleted. Until that is done, another request to delete them deletes
them again, because deleting a state twice does no harm.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from log_service.common.types import TopicId
from log_service.coordinator.group.records.share import StatePartitions, StateTopic
from log_service.coordinator.group.values.partitions import Partitions
from log_service.metadata.image import MetadataImage

NO_STATES = StatePartitions()


def partitions_of_states(topics: Mapping[UUID, StateTopic]) -> Partitions:
    """Return the partitions of ``topics``, without the topics' names."""
    return {topic_id: topic.partitions for topic_id, topic in topics.items() if topic.partitions}


def missing_states(
    states: StatePartitions, names: Iterable[str], image: MetadataImage, *, is_retry_due: bool
) -> Mapping[UUID, StateTopic]:
    """Return the partitions that have no state, of the existing topics among ``names``.

    Partitions whose state is being initialized are included only if a retry is due.
    """
    missing: dict[UUID, StateTopic] = {}
    for name in sorted(names):
        topic = image.topics.by_name.get(name)
        if topic is None:
            continue
        known = _partitions(states.initialized, topic.topic_id)
        if not is_retry_due:
            known |= _partitions(states.initializing, topic.topic_id)
        if len(known) < len(topic.partitions) or not known:
            missing[topic.topic_id] = StateTopic(
                name=name, partitions=frozenset(topic.partitions) - known
            )
    return missing


def _partitions(topics: Mapping[UUID, StateTopic], topic_id: UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def joined(
    first: Mapping[UUID, StateTopic], second: Mapping[UUID, StateTopic]
) -> Mapping[UUID, StateTopic]:
    """Return the union of both mappings. Names are taken from ``second``."""
    result = dict(first)
    for topic_id, topic in second.items():
        result[topic_id] = StateTopic(
            name=topic.name, partitions=_partitions(first, topic_id) | topic.partitions
        )
    return result


def _without(
    topics: Mapping[UUID, StateTopic], partitions: Partitions
) -> Mapping[UUID, StateTopic]:
    """Return topics without some partitions. A topic without any partition left is dropped."""
    result = {}
    for topic_id, topic in topics.items():
        rest = topic.partitions - partitions.get(topic_id, frozenset())
        if rest or topic_id not in partitions:
            result[topic_id] = StateTopic(name=topic.name, partitions=rest)
    return result


def with_initializing(
    states: StatePartitions, topics: Mapping[UUID, StateTopic]
) -> StatePartitions:
    """Return the states after the initialization of ``topics`` has begun."""
    initializing = joined(states.initializing, topics)
    deleting = {
        topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing
    }
    return StatePartitions(
        initializing=initializing, initialized=states.initialized, deleting=deleting
    )


def with_initialized(
    states: StatePartitions, partitions: Partitions, image: MetadataImage
) -> StatePartitions:
    """Return the states after ``partitions`` are initialized. Deleted topics are left out."""
    found = (
        (topic_id, image.topics.by_id.get(TopicId(topic_id)), indexes)
        for topic_id, indexes in partitions.items()
    )
    topics = {
        topic_id: StateTopic(name=topic.name, partitions=indexes)
        for topic_id, topic, indexes in found
        if topic is not None
    }
    return StatePartitions(
        initializing=_without(states.initializing, partitions),
        initialized=joined(states.initialized, topics),
        deleting=states.deleting,
    )


def without_initializing(states: StatePartitions, partitions: Partitions) -> StatePartitions:
    """Return the states after the initialization of ``partitions`` has failed."""
    initializing = _without(states.initializing, partitions)
    return StatePartitions(
        initializing=initializing, initialized=states.initialized, deleting=states.deleting
    )


def with_all_deleting(
    states: StatePartitions, image: MetadataImage
) -> tuple[StatePartitions, Partitions]:
    """Return the states after the deletion of all states has begun, and the partitions to delete.

    The partitions include those of an earlier, unfinished deletion.
    """
    topics = joined(states.initialized, states.initializing)
    left = {
        topic_id: topic
        for topic_id in states.deleting
        if (topic := image.topics.by_id.get(TopicId(topic_id))) is not None
    }
    again = {
        topic_id: StateTopic(name=topic.name, partitions=frozenset(topic.partitions))
        for topic_id, topic in left.items()
    }
    candidates = joined(topics, again)
    return StatePartitions(
        deleting={topic_id: topic.name for topic_id, topic in candidates.items()}
    ), partitions_of_states(candidates)


def with_topics_deleting(
    states: StatePartitions, topic_ids: Iterable[UUID], image: MetadataImage
) -> tuple[StatePartitions, Partitions]:
    """Return the states after the deletion for some topics has begun, and the partitions to delete.

    The partitions include those of an earlier, unfinished deletion. A topic without initialized
    states is left out.
    """
    initialized, deleting, going = (
        dict(states.initialized),
        dict(states.deleting),
        dict[UUID, frozenset[int]](),
    )
    for topic_id in topic_ids:
        topic = initialized.pop(topic_id, None)
        if topic is not None:
            deleting[topic_id] = topic.name
            going[topic_id] = topic.partitions
        elif (
            topic_id in deleting
            and (known := image.topics.by_id.get(TopicId(topic_id))) is not None
        ):
            going[topic_id] = frozenset(known.partitions)
    return (
        StatePartitions(
            initializing=states.initializing, initialized=initialized, deleting=deleting
        ),
        going,
    )


def without_deleting(states: StatePartitions, topic_ids: Iterable[UUID]) -> StatePartitions:
    """Return the states after the deletion for ``topic_ids`` has finished."""
    gone = set(topic_ids)
    deleting = {
        topic_id: name for topic_id, name in states.deleting.items() if topic_id not in gone
    }
    return StatePartitions(
        initializing=states.initializing, initialized=states.initialized, deleting=deleting
    )


def without_topics(states: StatePartitions, deleted: Iterable[UUID]) -> StatePartitions:
    """Return the states without deleted topics.

    Share coordinators delete the states of these topics without a request.
    """
    gone = set(deleted)
    return StatePartitions(
        initializing={
            topic_id: topic
            for topic_id, topic in states.initializing.items()
            if topic_id not in gone
        },
        initialized={
            topic_id: topic
            for topic_id, topic in states.initialized.items()
            if topic_id not in gone
        },
        deleting={
            topic_id: name for topic_id, name in states.deleting.items() if topic_id not in gone
        },
    )
