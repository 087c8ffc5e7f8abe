"""Gives the rules the partitions as one decision sees them, with the changes made so far.

This file decides how partitions change when brokers stop and return, which brokers may lead, and
how a new partition begins. ``partition_change`` decides on each single change. This file does not
know requests.

Invariants: later changes of a decision see its earlier changes. So the records of a decision never
contradict each other, even if a request repeats a partition. A broker that is fenced, in controlled
shutdown, or without the partition's log directory leads nothing. A broker that is only presumed
alive is not elected.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import LeaderEpoch, NodeId, PartitionEpoch, TopicId
from log_service.config.broker import ALL_DIRECTORIES
from log_service.config.definition import split_list
from log_service.config.resolve import Layers, holding
from log_service.controller.rules.partition_change import (
    Election,
    PartitionPolicy,
    Target,
    change_of,
    unchanged,
)
from log_service.metadata.features import keeps_eligible_leaders
from log_service.metadata.image import BrokerRegistration, MetadataImage, ResourceType, TopicImage
from log_service.metadata.observers import Observers, observers_of
from log_service.metadata.partition import (
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
    changed_partition,
)
from log_service.protocol.stored.metadata_records import PartitionChangeRecord

MIN_ISR, UNCLEAN_ELECTION = "min.insync.replicas", "unclean.leader.election.enable"

CORDONED_LOG_DIRS = "cordoned.log.dirs"


# Brokers


def is_active(image: MetadataImage, node_id: NodeId) -> bool:
    """Whether a broker may lead and be in sync."""
    broker = image.cluster.brokers.get(node_id)
    return broker is not None and broker.is_active


def default_directory(image: MetadataImage, node_id: NodeId) -> UUID:
    """Return the log directory of a new replica.

    If the broker has several, the result means "unassigned", and the broker chooses one.
    """
    broker = image.cluster.brokers.get(node_id)
    if broker is None or len(broker.log_dirs) > 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0] if broker.log_dirs else MIGRATING_DIRECTORY


def placeable_brokers(image: MetadataImage) -> list[BrokerRegistration]:
    """Return the brokers that may get new replicas, by node id.

    Fenced brokers are among them. Brokers in controlled shutdown, cordoned brokers and observers
    are not. An observer gets a replica only if a request names it.
    """
    observers = observers_of(image).node_ids
    return [
        broker
        for node_id, broker in sorted(image.cluster.brokers.items())
        if (broker.is_fenced or not broker.is_in_controlled_shutdown)
        and not is_cordoned(image, node_id)
        and node_id not in observers
    ]


def is_cordoned(image: MetadataImage, node_id: NodeId) -> bool:
    """Whether none of a broker's log directories takes new partitions (KIP-1066).

    The broker is cordoned if its heartbeats report all its directories as cordoned, or if
    ``cordoned.log.dirs`` means all directories. Before its first report, it is also cordoned if
    the setting names as many directories as the broker has. The controller knows neither the names
    of the directories nor which have failed, so it can only compare their number.
    """
    broker = image.cluster.brokers[node_id]
    if broker.log_dirs and set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ()):
        return True
    directories = split_list(
        image.configs.of(ResourceType.BROKER, str(node_id)).get(CORDONED_LOG_DIRS, "")
    )
    are_all_named = (
        broker.cordoned_log_dirs is None and len(set(directories)) >= len(broker.log_dirs) > 0
    )
    return ALL_DIRECTORIES in directories or are_all_named


def new_partition(image: MetadataImage, replicas: Sequence[NodeId]) -> PartitionRegistration | None:
    """Return a partition on the given brokers, or None if none of them may lead.

    The first active broker that is not an observer leads.
    """
    observers = observers_of(image).node_ids
    isr = tuple(
        node_id for node_id in replicas if is_active(image, node_id) and node_id not in observers
    )
    if not isr:
        return None
    return PartitionRegistration(
        replicas=tuple(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        directories=tuple(default_directory(image, node_id) for node_id in replicas),
    )


# Changes


class Partitions:
    """The partitions of ``image`` with the changes of one decision on top.

    ``static_texts`` has the keys of the controller's properties file. ``presumed`` are unfenced
    brokers that may be dead: they have sent this controller no heartbeat yet, or none since it
    suspects them. They keep their leaderships, but are not elected until their next heartbeat.
    """

    def __init__(
        self,
        image: MetadataImage,
        *,
        node_id: NodeId,
        static_texts: Mapping[str, str],
        presumed: frozenset[NodeId] = frozenset(),
    ) -> None:
        self.image = image
        self.presumed = presumed
        self.records: list[PartitionChangeRecord] = []
        self._node_id = node_id
        self._static_texts = static_texts
        self._changed: dict[
            tuple[str, int], tuple[PartitionRegistration, PartitionChangeRecord]
        ] = {}
        """By topic name and index: the partition before the decision, and its last change."""
        self._policies: dict[str, PartitionPolicy] = {}

    def __repr__(self) -> str:
        return f"<Partitions of {self.image!r} changed={len(self._changed)}>"

    def find(self, topic: TopicImage, index: int) -> PartitionRegistration | None:
        """Return a partition with the changes so far, or None if there is none."""
        changed = self._changed.get((topic.name, index))
        return topic.partitions.get(index) if changed is None else changed_partition(*changed)

    def get(self, topic: str | TopicId, index: int) -> tuple[TopicImage, PartitionRegistration]:
        """Return a topic by name or id, and one of its partitions with the changes so far.

        Raises:
            KafkaError: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
        """
        topics = self.image.topics
        found = topics.by_name.get(topic) if isinstance(topic, str) else topics.by_id.get(topic)
        if found is None:
            if isinstance(topic, str):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic of id {topic}")
        partition = self.find(found, index)
        if partition is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {found.name}-{index}"
            )
        return found, partition

    def iterate(self) -> Iterator[tuple[TopicImage, int, PartitionRegistration]]:
        """Yield every partition with its topic and index, by topic id.

        The loop may change the partition that was yielded last.
        """
        changed = self._changed.copy()
        for topic in self.image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                known = changed.get((topic.name, index)) if changed else None
                yield topic, index, partition if known is None else changed_partition(*known)

    def policy_of(self, topic: TopicImage) -> PartitionPolicy:
        """Return the policy of a topic's partitions."""
        policy = self._policies.get(topic.name)
        if policy is None:
            policy = self._policies[topic.name] = self._new_policy(topic)
        return policy

    def change(
        self,
        topic: TopicImage,
        index: int,
        target: Target,
        *,
        election: Election | None = None,
        gone: Collection[NodeId] = (),
        returned: NodeId | None = None,
    ) -> PartitionChangeRecord | None:
        """Change a partition, and return its record, or None if nothing changes.

        ``election`` replaces the topic's own rule on who may lead. Whatever the image says, brokers
        in ``gone`` may not lead, and the broker ``returned`` may.
        """
        partition = self.find(topic, index)
        assert partition is not None, "a change is of a partition that exists"
        return self._change(
            topic, index, partition, target, election=election, gone=gone, returned=returned
        )

    def _change(
        self,
        topic: TopicImage,
        index: int,
        partition: PartitionRegistration,
        target: Target,
        *,
        election: Election | None = None,
        gone: Collection[NodeId] = (),
        returned: NodeId | None = None,
    ) -> PartitionChangeRecord | None:
        policy = self.policy_of(topic)
        if election is not None and election is not policy.election:
            policy = PartitionPolicy(
                min_isr=policy.min_isr, keeps_eligible=policy.keeps_eligible, election=election
            )

        awaited = self.awaited.difference(gone, () if returned is None else (returned,))

        def may_lead(node_id: NodeId) -> bool:
            if node_id in gone or not (node_id == returned or node_id in self._active):
                return False
            if node_id in awaited and not (node_id == partition.leader and node_id in target.isr):
                return False
            if node_id in self.observers.node_ids and node_id not in (
                *partition.isr,
                *partition.eligible_leader_replicas,
            ):
                return False
            directory_id = target.directories.get(node_id) or partition.directory_of(node_id)
            return directory_id is not None and self.image.cluster.brokers[node_id].has_online(
                directory_id
            )

        record = change_of(
            partition,
            target,
            policy,
            may_lead=may_lead,
            default_directory=lambda node_id: default_directory(self.image, node_id),
            observers=self.observers.node_ids,
            awaited=awaited,
        )
        if record is not None:
            record.topic_id, record.partition_id = topic.topic_id, index
            self.records.append(record)
            self._changed[(topic.name, index)] = partition, record
        return record

    # Brokers come and go

    def take_from(self, *node_ids: NodeId) -> None:
        """Remove brokers from every in-sync set in one change, and move their leaderships.

        The brokers may become ELR. A partition without a leader whose only replica is on such a
        broker stays as it is, because the broker gave up its leaderships in a controlled shutdown,
        and its next process will register. If an awaited eligible broker is removed, an unclean
        election may become due.
        """
        for topic, index, partition in self.iterate():
            has_more = partition.has_leader or len(partition.replicas) > 1
            members = (
                partition.isr
                if partition.has_leader
                else (*partition.isr, *partition.eligible_leader_replicas)
            )
            if partition.leader in node_ids or (has_more and not set(node_ids).isdisjoint(members)):
                self._take_out(topic, index, partition, *node_ids)

    def take_from_unclean(self, node_id: NodeId) -> None:
        """Remove a broker that stopped uncleanly from every in-sync set and ELR.

        It may have lost records (KIP-966).
        """
        for topic, index, partition in self.iterate():
            if (
                node_id in partition.isr
                or node_id in partition.eligible_leader_replicas
                or partition.leader == node_id
            ):
                isr = tuple(each for each in partition.isr if each != node_id)
                self._change(
                    topic,
                    index,
                    partition,
                    unchanged(partition, isr=isr, unclean_shutdown=node_id),
                    gone=[node_id],
                )

    def take_directory(self, node_id: NodeId, directory_id: UUID) -> None:
        """Remove the replicas in a broker's offline log directory from their in-sync sets."""
        for topic, index, partition in self.iterate():
            if partition.directory_of(node_id) == directory_id:
                self._take_out(topic, index, partition, node_id)

    def take_replica(self, topic: TopicImage, index: int, node_id: NodeId) -> None:
        """Remove one replica from its in-sync set, so that it does not lead."""
        partition = self.find(topic, index)
        assert partition is not None, "a replica is of a partition that exists"
        self._take_out(topic, index, partition, node_id)

    def _take_out(
        self, topic: TopicImage, index: int, partition: PartitionRegistration, *node_ids: NodeId
    ) -> None:
        isr = tuple(each for each in partition.isr if each not in node_ids)
        if keeps_eligible_leaders(self.image.features):
            if len(isr) < len(partition.isr) and self.presumed.issuperset(isr):
                # Those that would stay may be dead and have lost their records: all become
                # eligible, and the first that is heard of leads.
                isr = ()
        elif not isr and len(partition.isr) > 1:
            # One member stays in the set; a leader that was in it has every record that any of them
            # has.
            isr = (partition.leader,) if partition.leader in partition.isr else partition.isr[:1]
        self._change(topic, index, partition, unchanged(partition, isr=isr), gone=node_ids)

    def lead_again(self, node_id: NodeId) -> None:
        """Let a returned broker lead partitions that have no leader."""
        for topic, index, partition in self.iterate():
            if not partition.has_leader:
                self._change(topic, index, partition, unchanged(partition), returned=node_id)

    def leads_any(self, node_id: NodeId) -> bool:
        """Whether a broker leads a partition."""
        return any(partition.leader == node_id for _, _, partition in self.iterate())

    # What holds for a topic

    @cached_property
    def _active(self) -> frozenset[NodeId]:
        return frozenset(
            node_id for node_id in self.image.cluster.brokers if is_active(self.image, node_id)
        )

    @cached_property
    def awaited(self) -> frozenset[NodeId]:
        """The brokers that are not elected before their next heartbeat.

        The controller fences them if no heartbeat comes.
        """
        return self.presumed & self._active

    @cached_property
    def observers(self) -> Observers:
        """The brokers that never lead, and are in sync only while a partition needs them."""
        return observers_of(self.image)

    @cached_property
    def _default_values(self) -> tuple[int, bool]:
        return self._values({})

    def _values(self, texts: Mapping[str, str]) -> tuple[int, bool]:
        """Return min.insync.replicas, and whether unclean elections are allowed.

        ``texts`` are the topic's own values, which take precedence.
        """
        configs = self.image.configs
        layers = Layers(
            topic=texts,
            broker=configs.of(ResourceType.BROKER, str(self._node_id)),
            cluster=configs.of(ResourceType.BROKER, ""),
            static=self._static_texts,
        )
        min_isr, is_unclean = (
            holding(MIN_ISR, layers).value,
            holding(UNCLEAN_ELECTION, layers).value,
        )
        assert isinstance(min_isr, int)
        return min_isr, bool(is_unclean)

    def _new_policy(self, topic: TopicImage) -> PartitionPolicy:
        texts = self.image.configs.of(ResourceType.TOPIC, topic.name)
        min_isr, is_unclean = (
            self._values(texts)
            if MIN_ISR in texts or UNCLEAN_ELECTION in texts
            else self._default_values
        )
        return PartitionPolicy(
            min_isr=min(min_isr, len(topic.partitions[0].replicas)),
            keeps_eligible=keeps_eligible_leaders(self.image.features),
            election=Election.UNCLEAN if is_unclean else Election.CLEAN,
        )
