"""Reads a cluster through an admin client, as values from which plans and checks are made.

If a broker does not respond, everything else is read. Its directories, and whether it is an
observer, stay unknown, and ``silent`` names it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import trio

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import (
    BrokerDescription,
    ClusterDescription,
    ConfigResource,
    LogDirDescription,
    QuorumDescription,
    Reassignment,
)
from log_service.client.connections.cluster_metadata import MANY_PARTITIONS
from log_service.client.connections.cluster_view import PartitionView
from log_service.cluster_plans.health import QuorumMember, QuorumState
from log_service.cluster_plans.layout import (
    NO_LEADER,
    BrokerLayout,
    ClusterLayout,
    LogDirectory,
    PartitionLayout,
)
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import OBSERVERS
from log_service.common.types import TopicPartition
from log_service.config.runtime_keys import OBSERVER

MIN_ISR = "min.insync.replicas"
QUORUM_TIMEOUT_MS = 5_000
"""How long the quorum's description may take. Without a leader brokers would wait much longer."""
NO_QUORUM = QuorumState(leader_id=NO_LEADER, leader_epoch=-1, members=())
CORDONED = "cordoned.log.dirs"
CORDON_PLACES = {
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "the cluster's default",
    "STATIC_BROKER_CONFIG": "its properties file",
}
"""Places that cordon a broker beside its own setting, by the config source in the response."""
BROKER_TIMEOUT_MS = 5_000
"""How long a broker's description may take.

A broker that hangs, or has just died, must not delay the others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A cluster at about one moment.

    ``silent`` has the brokers that are not fenced and did not respond, each with the reason.
    ``is_hidden`` tells that the login may not describe the cluster.
    """

    cluster_id: str
    layout: ClusterLayout
    quorum: QuorumState
    silent: Mapping[int, str]
    is_hidden: bool = False

    def state_of(self, broker: BrokerLayout) -> str:
        """Return a broker's state: fenced, silent or serves.

        A broker is silent if it did not respond. If the login may not describe the cluster, a
        broker that is not fenced counts as serving.
        """
        if broker.is_fenced:
            return "fenced"
        return "silent" if broker.broker_id in self.silent and not self.is_hidden else "serves"


async def read_state(admin: Admin) -> ClusterState:
    """Read the state of the whole cluster.

    If the quorum has no leader, the brokers that respond report the rest, and moves stay unknown.

    Raises:
        KafkaError: no broker responds.
    """
    cluster_id = (await admin.describe_cluster()).cluster_id
    layout, silent = await _read(admin)
    # Last, because without a leader of the quorum a broker waits for one, and what is asked on the
    # same connection waits with it.
    is_hidden = False
    try:
        quorum = await read_quorum(admin, QUORUM_TIMEOUT_MS)
    except KafkaError as error:
        quorum, is_hidden = NO_QUORUM, error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if quorum.leader_id != NO_LEADER:
        layout = _with_moves(layout, await admin.list_partition_reassignments())
    return ClusterState(
        cluster_id=cluster_id, layout=layout, quorum=quorum, silent=silent, is_hidden=is_hidden
    )


async def read_layout(admin: Admin) -> ClusterLayout:
    """Read brokers and partitions, for a plan.

    Raises:
        KafkaError: a broker that serves does not respond. Without its sizes, a plan cannot count
            the bytes that it copies.
    """
    layout, silent = await _read(admin)
    for broker_id, why in silent.items():
        text = (
            f"broker {broker_id} does not tell of itself, and a plan must know its log directories:"
            f" {why}"
        )
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
    return _with_moves(layout, await admin.list_partition_reassignments())


def _with_moves(
    layout: ClusterLayout, moving: Mapping[TopicPartition, Reassignment]
) -> ClusterLayout:
    if not moving:
        return layout
    return replace(
        layout,
        partitions=tuple(
            (
                replace(
                    each,
                    adding=moving[each.where].adding_replicas,
                    removing=moving[each.where].removing_replicas,
                )
                if each.where in moving
                else each
            )
            for each in layout.partitions
        ),
    )


async def _read(admin: Admin) -> tuple[ClusterLayout, dict[int, str]]:
    brokers = await admin.describe_brokers()
    directories, silent = await _directories(
        admin, [broker.node_id for broker in brokers if not broker.is_fenced]
    )
    names = [topic.name for topic in await admin.list_topics(is_internal_included=True)]
    described = await admin.describe_topics(names) if names else {}
    partitions = {
        TopicPartition(name, partition.partition): partition
        for name in sorted(described)
        for partition in described[name].partitions
    }
    min_isr = await _min_isr(admin, partitions)
    observers, fell_silent = await observers_among(
        admin,
        [
            broker.node_id
            for broker in brokers
            if not broker.is_fenced and broker.node_id not in silent
        ],
    )
    layout = ClusterLayout(
        brokers=tuple(
            [
                await _with_cordon(admin, _broker(broker, directories.get(broker.node_id, {})))
                for broker in brokers
            ]
        ),
        partitions=await _partitions(partitions, directories, min_isr),
        observers=observers,
    )
    return layout, silent | fell_silent


async def _directories(
    admin: Admin, broker_ids: Iterable[int]
) -> tuple[dict[int, dict[str, LogDirDescription]], dict[int, str]]:
    directories: dict[int, dict[str, LogDirDescription]] = {}
    silent: dict[int, str] = {}
    for broker_id in broker_ids:
        try:
            directories |= await admin.describe_log_dirs([broker_id], timeout_ms=BROKER_TIMEOUT_MS)
        except KafkaError as error:
            silent[broker_id] = str(error)
    return directories, silent


def _replicas_of(
    directories: Mapping[int, Mapping[str, LogDirDescription]],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, dict[int, int]]]:
    """Return by partition the size of the largest replica, and the replicas' lags by broker."""
    sizes: dict[TopicPartition, int] = {}
    lags: dict[TopicPartition, dict[int, int]] = {}
    for broker_id, by_path in directories.items():
        for directory in by_path.values():
            for where, replica in directory.replicas.items():
                if not replica.is_future:
                    sizes[where] = max(sizes.get(where, 0), replica.size_bytes)
                    lags.setdefault(where, {})[broker_id] = replica.offset_lag
    return sizes, lags


async def _min_isr(
    admin: Admin, partitions: Mapping[TopicPartition, PartitionView]
) -> dict[str, int]:
    """Return ``min.insync.replicas`` of each topic that has a replica out of sync.

    For other topics it does not matter.
    """
    topics = sorted(
        {
            where.topic
            for where, partition in partitions.items()
            if len(partition.isr) < len(partition.replicas)
        }
    )
    found = (
        await admin.describe_configs([ConfigResource.topic(topic) for topic in topics])
        if topics
        else {}
    )
    return {
        resource.name: int(entries[MIN_ISR].value or 1)
        for resource, entries in found.items()
        if MIN_ISR in entries
    }


async def observers_among(
    admin: Admin, broker_ids: Iterable[int]
) -> tuple[frozenset[int], dict[int, str]]:
    """Return which of these brokers are observers, and which did not respond, with the reasons.

    Brokers get requests only if the cluster has finalized the feature ``OBSERVERS``.
    """
    observers: set[int] = set()
    silent: dict[int, str] = {}
    if not (await admin.describe_features()).finalized.get(OBSERVERS):
        return frozenset(), silent
    for broker_id in broker_ids:
        resource = ConfigResource.broker(broker_id)
        try:
            entries = (await admin.describe_configs([resource], timeout_ms=BROKER_TIMEOUT_MS))[
                resource
            ]
        except KafkaError as error:
            silent[broker_id] = str(error)
        else:
            if OBSERVER in entries and entries[OBSERVER].value == "true":
                observers.add(broker_id)
    return frozenset(observers), silent


def _broker(
    broker: BrokerDescription, directories: Mapping[str, LogDirDescription]
) -> BrokerLayout:
    return BrokerLayout(
        broker_id=broker.node_id,
        rack=broker.rack or None,
        is_fenced=broker.is_fenced,
        address=f"{broker.host}:{broker.port}" if broker.host else "",
        log_dirs=tuple(
            LogDirectory(
                path=each.path,
                is_online=each.error is ErrorCode.NONE,
                is_cordoned=each.is_cordoned,
                total_bytes=each.total_bytes,
                usable_bytes=each.usable_bytes,
                used_bytes=sum(replica.size_bytes for replica in each.replicas.values()),
                served=frozenset(
                    where for where, replica in each.replicas.items() if not replica.is_future
                ),
            )
            for each in directories.values()
        ),
    )


async def _with_cordon(admin: Admin, broker: BrokerLayout) -> BrokerLayout:
    """Return a cordoned broker with the other places at which its cordon is set.

    Its own setting is not among them. The places stay unknown if the broker does not respond.
    """
    if not broker.is_cordoned:
        return broker
    resource = ConfigResource.broker(broker.broker_id)
    try:
        entry = (await admin.describe_configs([resource], timeout_ms=BROKER_TIMEOUT_MS))[
            resource
        ].get(CORDONED)
    except KafkaError:
        return broker
    set_in = [source for _, value, source in (entry.synonyms if entry else ()) if value]
    return replace(
        broker,
        cordon_below=" and in ".join(
            place for source, place in CORDON_PLACES.items() if source in set_in
        ),
    )


async def _partitions(
    partitions: Mapping[TopicPartition, PartitionView],
    directories: Mapping[int, Mapping[str, LogDirDescription]],
    min_isr: Mapping[str, int],
) -> tuple[PartitionLayout, ...]:
    """Return the partitions as values.

    More than ``MANY_PARTITIONS`` are converted in a thread, because each takes microseconds.
    """
    made = partial(_partition_layouts, partitions, directories, min_isr)
    return await trio.to_thread.run_sync(made) if len(partitions) > MANY_PARTITIONS else made()


def _partition_layouts(
    partitions: Mapping[TopicPartition, PartitionView],
    directories: Mapping[int, Mapping[str, LogDirDescription]],
    min_isr: Mapping[str, int],
) -> tuple[PartitionLayout, ...]:
    sizes, lags = _replicas_of(directories)
    return tuple(
        PartitionLayout(
            where=where,
            replicas=partition.replicas,
            leader=partition.leader,
            isr=partition.isr,
            size_bytes=sizes.get(where, 0),
            min_isr=min_isr.get(where.topic, 1),
            lags=lags.get(where, {}),
        )
        for where, partition in partitions.items()
    )


async def read_quorum(admin: Admin, timeout_ms: int | None = None) -> QuorumState:
    """Read the state of the metadata quorum."""
    return quorum_of(await admin.describe_metadata_quorum(timeout_ms=timeout_ms))


def quorum_of(found: QuorumDescription) -> QuorumState:
    """Convert a description of the quorum to its state.

    Voters come first. Lags are relative to the leader's log end. How long ago a member had caught
    up is measured by the leader's clock, which is the latest time in its response.
    """
    replicas = [(True, each) for each in found.voters] + [(False, each) for each in found.observers]
    ends = {each.node_id: each.log_end_offset for is_voter, each in replicas if is_voter}
    end = ends.get(found.leader_id, max((each.log_end_offset for _, each in replicas), default=0))
    now_ms = max((each.last_caught_up_ms for _, each in replicas), default=-1)
    return QuorumState(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        members=tuple(
            QuorumMember(
                node_id=each.node_id,
                is_voter=is_voter,
                lag=max(0, end - each.log_end_offset),
                caught_up_ms_ago=(
                    now_ms - each.last_caught_up_ms if each.last_caught_up_ms > 0 else -1
                ),
            )
            for is_voter, each in replicas
        ),
    )


async def active_controller(admin: Admin, described: ClusterDescription) -> int:
    """Return the node that leads the metadata quorum, or -1 if there is none or no broker knows it.

    In a cluster with a metadata quorum, brokers name any serving broker as the controller, because
    clients need no more. Only a cluster without a quorum names the true controller.
    """
    try:
        return (await admin.describe_metadata_quorum(timeout_ms=QUORUM_TIMEOUT_MS)).leader_id
    except KafkaError as error:
        return described.controller_id if error.code is ErrorCode.UNSUPPORTED_VERSION else NO_LEADER
