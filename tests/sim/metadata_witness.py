"""Compares the metadata of simulated nodes with what the controller promises.

It watches what they know of partitions and brokers.

Decides nothing for the nodes. The promises, each checked on every node whenever it has applied
something new:

* the in-sync replicas of a partition are replicas of it that are alive: registered, not fenced and
  not leaving. Only the last one stays in the set when it dies, so that it may lead again;
* the leader is in sync; the leader epoch and the partition epoch never go back;
* a leader that was neither in sync nor eligible is elected where that is allowed, and only while
  none of those that were lives. Excused is the last known leader (KIP-966). So is any other, in the
  change that says that the log of that one is gone with its directory;
* a broker that was let go does not come back before it has registered again;
* in the term of a controller a broker that lives is fenced at most once for a connection that
  ended.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from log_service.common.types import NodeId
from log_service.controller.death_watch import DeathWatch
from log_service.metadata.image import BrokerRegistration, MetadataImage
from log_service.metadata.partition import FIRST_FREE_DIRECTORY_ID, PartitionRegistration
from tests.sim.node_host import Incarnation, NodeHost
from tests.sim.quorum_witness import Report

RULE = "metadata"
Epochs = tuple[int, int]
"""Of a leader, and of a partition."""


@dataclass(slots=True)
class MetadataWitness:
    """Watches the nodes that it is shown; ``report`` takes what contradicts a promise.

    ``may_be_unclean(topic)`` says whether unclean elections may be held for a topic;
    ``unclean_count`` is how many were.
    """

    report: Report
    may_be_unclean: Callable[[str], bool] = lambda _topic: False
    unclean_count: int = 0
    _known: dict[tuple[str, int], MetadataImage] = field(default_factory=dict)
    _fenced: dict[tuple[DeathWatch, int, int], int] = field(default_factory=dict)

    def look(self, host: NodeHost, incarnation: Incarnation) -> None:
        """Look at what a process has applied since the last look."""
        rooms = incarnation.broker.open_rooms
        if rooms is None:
            return
        who, image = (host.name, incarnation.number), incarnation.broker.image
        before = self._known.get(who)
        if before is image:
            return
        self._known[who] = image
        if (
            before is None
            or before.topics is not image.topics
            or before.cluster is not image.cluster
        ):
            self._check(who, image, before)
            self._check_brokers(who, image, before)

    def note_fenced_by_connection(
        self, who: tuple[str, int], term: DeathWatch, broker_id: int, broker_epoch: int
    ) -> None:
        """Note that a controller fences a broker because its connection has ended.

        It does so in the term that has this watch.
        """
        key = (term, broker_id, broker_epoch)
        self._fenced[key] = self._fenced.get(key, 0) + 1
        if self._fenced[key] > 1:
            text = f"fences broker {broker_id} of epoch {broker_epoch} for the {self._fenced[key]}. time, because its connection has ended"
            self.report(RULE, f"{who}, in one term as controller, {text}")

    def _check(
        self, who: tuple[str, int], image: MetadataImage, before: MetadataImage | None
    ) -> None:
        for name, topic in image.topics.by_name.items():
            earlier = None if before is None else before.topics.by_id.get(topic.topic_id)
            for index, partition in topic.partitions.items():
                was = None if earlier is None else earlier.partitions.get(index)
                self._check_partition(f"{name}-{index} as {who} knows it", partition, was, image)
                if (
                    before is not None
                    and was is not None
                    and was.partition_epoch + 1 == partition.partition_epoch
                ):
                    self._check_election(name, partition, was, (before, image))

    def _check_brokers(
        self, who: tuple[str, int], image: MetadataImage, before: MetadataImage | None
    ) -> None:
        for node_id, broker in image.cluster.brokers.items():
            was = None if before is None else before.cluster.brokers.get(node_id)
            has_left = (
                was is not None
                and was.epoch == broker.epoch
                and was.is_fenced
                and was.is_in_controlled_shutdown
            )
            if has_left and not broker.is_fenced:
                self.report(
                    RULE,
                    f"{node_id} leads again as {who} knows it, though it has left: {was}, then {broker}",
                )

    def _check_election(
        self,
        topic: str,
        partition: PartitionRegistration,
        was: PartitionRegistration,
        images: tuple[MetadataImage, MetadataImage],
    ) -> None:
        """Check one change of a partition, between two images. One that ends a move makes the new
        replicas in-sync ones as well.
        """
        if was.adding_replicas or was.removing_replicas:
            return
        able = {*was.isr, *was.eligible_leader_replicas}
        if partition.leader == was.leader or not partition.has_leader or partition.leader in able:
            return
        self.unclean_count += 1
        if partition.leader in was.last_known_elr:
            return
        earlier, now = (image.cluster.brokers for image in images)
        if not able and _is_last_log_lost(partition, was, now):
            return
        if not self.may_be_unclean(topic):
            self.report(
                RULE, f"{topic} has an unclean leader, and may have none: {was}, then {partition}"
            )
        for node_id in able:
            old, new = earlier.get(node_id), now.get(node_id)
            if (
                old is not None
                and new is not None
                and old.epoch == new.epoch
                and old.is_active
                and new.is_active
            ):
                self.report(
                    RULE,
                    f"{topic} has an unclean leader, though {node_id} lives: {was}, then {partition}",
                )

    def _check_partition(
        self,
        name: str,
        partition: PartitionRegistration,
        was: PartitionRegistration | None,
        image: MetadataImage,
    ) -> None:
        isr = partition.isr
        if not set(isr) <= set(partition.replicas) or len(set(isr)) != len(isr):
            self.report(RULE, f"{name} has in-sync replicas that are none: {partition}")
        if partition.has_leader and partition.leader not in isr:
            self.report(RULE, f"{name} is led by one that is not in sync: {partition}")
        if was is not None and (
            partition.leader_epoch < was.leader_epoch
            or partition.partition_epoch < was.partition_epoch
        ):
            self.report(RULE, f"the epochs of {name} went back: {was}, then {partition}")
        brokers = image.cluster.brokers
        for node_id in isr if len(isr) > 1 or partition.has_leader else ():
            broker = brokers.get(node_id)
            if broker is None or not broker.is_active:
                self.report(
                    RULE,
                    f"{node_id} is in sync in {name}, and does not live: {broker}; {partition}",
                )


def _is_last_log_lost(
    partition: PartitionRegistration,
    was: PartitionRegistration,
    brokers: Mapping[NodeId, BrokerRegistration],
) -> bool:
    """Whether the last leader has a new log directory for the partition.

    The one where its log was is gone then.
    """
    if len(was.last_known_elr) != 1:
        return False
    (last,) = was.last_known_elr
    old, broker = was.directory_of(last), brokers.get(last)
    if old is None or old.int < FIRST_FREE_DIRECTORY_ID or broker is None:
        return False
    return old not in broker.log_dirs and partition.directory_of(last) in broker.log_dirs
