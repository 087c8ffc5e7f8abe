"""Decides on registrations, heartbeats, fencing and controlled shutdown of brokers.

This file decides which brokers are members, which may lead, and which partitions change because of
that. It reads no clock. Live sessions and the metadata offsets of other brokers are arguments.
Source: KIP-631, KIP-841, KIP-858, KIP-966, KIP-1066.

Invariants:

- Each process of a broker has its own broker epoch: the next offset of the metadata log at its
  registration.
- The records that clean up after the previous process come before the registration. If a controller
  dies between them, the broker registers again.
- A broker is unfenced only after it has applied its own registration.
- Each partition that a fenced broker led gets another leader or none, and a new leader epoch when
  the broker leads it again. So a restarted broker never appends to a leader epoch of its previous
  process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.features import METADATA_VERSION
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.rules.partitions import CORDONED_LOG_DIRS, Partitions
from log_service.metadata.features import keeps_cordons, keeps_eligible_leaders
from log_service.metadata.image import BrokerRegistration, Endpoint, MetadataImage, ResourceType
from log_service.metadata.partition import FIRST_FREE_DIRECTORY_ID
from log_service.metadata.snapshot import register_broker_record
from log_service.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from log_service.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from log_service.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    UnregisterBrokerRecord,
)

FENCED = 1
UNFENCED = -1
IN_CONTROLLED_SHUTDOWN = 1


# Registration


def register_broker(
    partitions: Partitions,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    has_live_session: bool,
) -> tuple[list[MetadataRecord], BrokerRegistrationResponse]:
    """Return the records of a registration, and its broker epoch.

    A process that registers again keeps its epoch and its leaderships.

    Raises:
        KafkaError: INCONSISTENT_CLUSTER_ID; DUPLICATE_BROKER_REGISTRATION, another process with
            this id is alive; INVALID_REGISTRATION, its directories are invalid, or it does not name
            its metadata versions; UNSUPPORTED_VERSION, it does not support a finalized feature;
            BROKER_ID_NOT_REGISTERED, it migrates from ZooKeeper.
    """
    image, node_id = partitions.image, NodeId(request.broker_id)
    if request.cluster_id != cluster_id:
        text = f"broker {node_id} is of cluster {request.cluster_id}, this is cluster {cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    known = image.cluster.brokers.get(node_id)
    is_same_process = known is not None and known.incarnation_id == request.incarnation_id
    if has_live_session and not is_same_process:
        text = (
            f"another process is alive as broker {node_id}; stop it, or give this one another"
            " node.id"
        )
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"broker {node_id} comes from ZooKeeper, from which this cluster takes none",
        )
    _check_directories(image, node_id, request.log_dirs)
    features = {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    _check_features(image, node_id, features)
    registration = _registration(
        request, features, BrokerEpoch(image.offset + 1), known if is_same_process else None
    )
    if not is_same_process:
        clean_up(
            partitions,
            node_id,
            is_clean=known is not None and known.epoch == request.previous_broker_epoch,
        )
    records: list[MetadataRecord] = [*partitions.records, register_broker_record(registration)]
    return records, BrokerRegistrationResponse(broker_epoch=registration.epoch)


def _registration(
    request: BrokerRegistrationRequest,
    features: Mapping[str, tuple[int, int]],
    next_epoch: BrokerEpoch,
    known: BrokerRegistration | None,
) -> BrokerRegistration:
    """Return the record of a registration.

    ``known`` is an earlier registration of the same process, whose epoch and state are kept. It is
    None for a new process, which gets ``next_epoch`` and is fenced.
    """
    return BrokerRegistration(
        node_id=NodeId(request.broker_id),
        epoch=next_epoch if known is None else known.epoch,
        incarnation_id=request.incarnation_id,
        endpoints={
            listener.name: Endpoint(
                host=listener.host, port=listener.port, security_protocol=listener.security_protocol
            )
            for listener in request.listeners
        },
        features=features,
        rack=request.rack,
        log_dirs=tuple(request.log_dirs),
        is_fenced=known is None or known.is_fenced,
        is_in_controlled_shutdown=known is not None and known.is_in_controlled_shutdown,
    )


def _check_directories(image: MetadataImage, node_id: NodeId, log_dirs: Sequence[UUID]) -> None:
    """Refuse directories that a broker cannot have.

    Two brokers with the same directory id would break every controller that replays the records.
    """
    owners = {
        directory_id: broker.node_id
        for broker in image.cluster.brokers.values()
        for directory_id in broker.log_dirs
    }
    taken = [
        directory_id for directory_id in log_dirs if owners.get(directory_id, node_id) != node_id
    ]
    if not log_dirs:
        fault = "names no log directory"
    elif any(directory_id.int < FIRST_FREE_DIRECTORY_ID for directory_id in log_dirs):
        fault = "names a log directory by a reserved id"
    elif len(set(log_dirs)) != len(log_dirs):
        fault = "names a log directory twice"
    elif taken:
        fault = (
            f"names log directory {taken[0]}, which is broker {owners[taken[0]]}'s; was the"
            " directory copied from that node?"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {node_id} {fault}")


def _check_features(
    image: MetadataImage, node_id: NodeId, features: Mapping[str, tuple[int, int]]
) -> None:
    for name in {**features, METADATA_VERSION: None, **image.features}:
        level = image.features.get(name, 0)
        lowest, highest = features.get(name, (0, 0))
        if not lowest <= level <= highest:
            text = (
                f"broker {node_id} serves feature {name} from {lowest} to {highest}, the cluster"
                f" has {level}"
            )
            if name in features:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
            raise KafkaError(
                _missing(name),
                f"broker {node_id} does not say that it serves feature {name}, which the cluster"
                f" has at {level}",
            )


def _missing(feature: str) -> ErrorCode:
    return (
        ErrorCode.INVALID_REGISTRATION
        if feature == METADATA_VERSION
        else ErrorCode.UNSUPPORTED_VERSION
    )


def clean_up(partitions: Partitions, node_id: NodeId, *, is_clean: bool) -> None:
    """Remove a broker from every in-sync set, because its previous process has ended.

    If that process did not stop cleanly, the broker also leaves the ELR, because it may have lost
    records.
    """
    if keeps_eligible_leaders(partitions.image.features) and not is_clean:
        partitions.take_from_unclean(node_id)
    else:
        partitions.take_from(node_id)


# Fencing


def fence_brokers(partitions: Partitions, *brokers: BrokerRegistration) -> list[MetadataRecord]:
    """Return the records that fence brokers, after the records that move their leaderships.

    Brokers that are fenced together leave the in-sync sets in one change, so all of them stay
    eligible leaders. In separate changes, only the last ``min.insync.replicas`` of them would.
    """
    partitions.take_from(*(broker.node_id for broker in brokers))
    fenced = [
        BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=FENCED
        )
        for broker in brokers
    ]
    return [*partitions.records, *fenced]


# Heartbeats


class BrokerState(Enum):
    """The state of a broker in its life cycle.

    ``MAY_STOP``: the broker is fenced, and its heartbeat response allows it to stop.
    """

    FENCED = auto()
    UNFENCED = auto()
    LEAVING = auto()
    MAY_STOP = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataProgress:
    """Metadata offsets that a heartbeat is compared with.

    ``registered_at`` is the offset of the sender's registration. ``lowest_active`` is the lowest
    offset that all active brokers have reached. ``leaves_at`` is the offset that they must reach
    before the sender may stop, or None if the sender is not in controlled shutdown.
    """

    registered_at: int
    lowest_active: int
    leaves_at: int | None = None


class HeartbeatDecision(NamedTuple):
    """The effects of a heartbeat: records, the response, and the new state of the broker."""

    records: list[MetadataRecord]
    response: BrokerHeartbeatResponse
    state: BrokerState


def heartbeat(
    partitions: Partitions, request: BrokerHeartbeatRequest, progress: MetadataProgress
) -> HeartbeatDecision:
    """Return the records of a heartbeat, the response, and the new state of the broker.

    Raises:
        KafkaError: STALE_BROKER_EPOCH, the broker is not registered, or has another epoch.
    """
    broker = registered_broker(partitions.image, request.broker_id, request.broker_epoch)
    is_caught_up = request.current_metadata_offset >= progress.registered_at
    present = _present_state(broker, progress)
    state = _next_state(present, partitions, request, progress, is_caught_up=is_caught_up)
    records = _moves(partitions, broker, state) if state is not present else []
    if (
        state is present is BrokerState.UNFENCED
        and broker.is_active
        and broker.node_id in partitions.presumed
    ):
        partitions.lead_again(broker.node_id)  # it may lead from here on, as one that was unfenced
        records = [*partitions.records]
    records += _note_directories(partitions, broker, request)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=state in (BrokerState.FENCED, BrokerState.MAY_STOP),
        should_shut_down=state is BrokerState.MAY_STOP,
    )
    return HeartbeatDecision(records, response, state)


def _present_state(broker: BrokerRegistration, progress: MetadataProgress) -> BrokerState:
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.UNFENCED if progress.leaves_at is None else BrokerState.LEAVING


def _next_state(
    present: BrokerState,
    partitions: Partitions,
    request: BrokerHeartbeatRequest,
    progress: MetadataProgress,
    *,
    is_caught_up: bool,
) -> BrokerState:
    node_id = NodeId(request.broker_id)
    if present is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.MAY_STOP
        return (
            BrokerState.UNFENCED if is_caught_up and not request.want_fence else BrokerState.FENCED
        )
    if present is BrokerState.UNFENCED:
        if request.want_fence:
            return BrokerState.MAY_STOP if request.want_shut_down else BrokerState.FENCED
        if not request.want_shut_down:
            return BrokerState.UNFENCED
        return BrokerState.LEAVING if partitions.leads_any(node_id) else BrokerState.MAY_STOP
    assert progress.leaves_at is not None, "a broker that leaves was told when it may stop"
    may_stop = not partitions.leads_any(node_id) and progress.leaves_at <= progress.lowest_active
    return BrokerState.MAY_STOP if may_stop else BrokerState.LEAVING


def _moves(
    partitions: Partitions, broker: BrokerRegistration, state: BrokerState
) -> list[MetadataRecord]:
    """Return the records that move a broker to another state.

    If a fenced broker may stop, it is fenced once more, which has no effect.
    """
    node_id = broker.node_id
    if state is BrokerState.UNFENCED:
        partitions.lead_again(node_id)
        unfenced = BrokerRegistrationChangeRecord(
            broker_id=node_id, broker_epoch=broker.epoch, fenced=UNFENCED
        )
        return [unfenced, *partitions.records]
    if state is not BrokerState.LEAVING:
        return fence_brokers(partitions, broker)
    partitions.take_from(node_id)
    if broker.is_in_controlled_shutdown:
        return [*partitions.records]
    leaving = BrokerRegistrationChangeRecord(
        broker_id=node_id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
    )
    return [leaving, *partitions.records]


def _note_directories(
    partitions: Partitions, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    """Return records of log directories that went offline (KIP-858) or are cordoned (KIP-1066)."""
    records: list[MetadataRecord] = []
    lost = [
        directory_id
        for directory_id in broker.log_dirs
        if directory_id in set(request.offline_log_dirs)
    ]
    if lost:
        before = len(partitions.records)
        for directory_id in lost:
            partitions.take_directory(broker.node_id, directory_id)
        left = [directory_id for directory_id in broker.log_dirs if directory_id not in lost]
        records += partitions.records[before:]
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.node_id, broker_epoch=broker.epoch, log_dirs=left
            )
        )
    cordoned = request.cordoned_log_dirs if keeps_cordons(partitions.image.features) else None
    if cordoned is not None and (
        broker.cordoned_log_dirs is None or set(cordoned) != set(broker.cordoned_log_dirs)
    ):
        noted = BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )
        records.append(noted)
    return records


# Leaving for good


def unregister_broker(
    partitions: Partitions, request: UnregisterBrokerRequest
) -> tuple[list[MetadataRecord], UnregisterBrokerResponse]:
    """Return the records that remove a broker, after the records that move its leaderships.

    The broker is a member again when it next registers. Its ``cordoned.log.dirs`` is removed,
    because another broker with the same id has other directories. Apache Kafka does not remove this
    key. The other keys of the broker are kept, as in Apache Kafka.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED.
    """
    broker = partitions.image.cluster.brokers.get(NodeId(request.broker_id))
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered"
        )
    partitions.take_from(broker.node_id)
    gone = UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)
    node_id = str(broker.node_id)
    records: list[MetadataRecord] = [*partitions.records]
    if CORDONED_LOG_DIRS in partitions.image.configs.of(ResourceType.BROKER, node_id):
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name=node_id,
                name=CORDONED_LOG_DIRS,
                value=None,
            )
        )
    return [*records, gone], UnregisterBrokerResponse()


def registered_broker(image: MetadataImage, node_id: int, broker_epoch: int) -> BrokerRegistration:
    """Return the registration with the broker id and broker epoch of a request.

    Raises:
        KafkaError: STALE_BROKER_EPOCH, the id is not registered, or has another epoch.
    """
    broker = image.cluster.brokers.get(NodeId(node_id))
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {node_id} is not registered")
    if broker.epoch != broker_epoch:
        text = (
            f"broker {node_id} is registered with epoch {broker.epoch}, the request has"
            f" {broker_epoch}"
        )
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, text)
    return broker
