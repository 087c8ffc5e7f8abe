"""Brokers: registration, heartbeats, fencing, leaving (KIP-631).

Decides which brokers are members and which may lead, and which partitions change because of it. Knows no clock: whether a broker has a live
session is an argument.

Invariants: a registration's epoch is the offset of its record, so that every start of a broker has one of its own; a broker is unfenced
only after it has seen its own registration; each partition that a fenced broker led gets another leader or none, and a new leader epoch
when it returns. That is how a restart, clean or not, never writes into an epoch that it wrote into before.
"""

from collections.abc import Mapping

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.rules.partitions import changes_when_fenced, changes_when_unfenced
from log_service.metadata.delta import MetadataDelta
from log_service.metadata.features import METADATA_VERSION
from log_service.metadata.image import BrokerRegistration, Endpoint, MetadataImage
from log_service.metadata.snapshot import register_broker_record
from log_service.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from log_service.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from log_service.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from log_service.protocol.stored.metadata_records import BrokerRegistrationChangeRecord, MetadataRecord, UnregisterBrokerRecord

FENCED = 1
UNFENCED = -1


def register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, *, cluster_id: str, has_live_session: bool
) -> tuple[list[MetadataRecord], BrokerRegistrationResponse]:
    """Return the records of a registration, and its epoch.

    Raises:
        KafkaError: INCONSISTENT_CLUSTER_ID; DUPLICATE_BROKER_REGISTRATION, another process is alive under this id; UNSUPPORTED_VERSION, it
            cannot keep a finalized feature.
    """
    node_id = NodeId(request.broker_id)
    if request.cluster_id != cluster_id:
        text = f"broker {node_id} is of cluster {request.cluster_id}, this is cluster {cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    known = image.cluster.brokers.get(node_id)
    if known is not None and has_live_session and known.incarnation_id != request.incarnation_id:
        text = f"another process is alive as broker {node_id}; stop it, or give this one another node.id"
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, text)
    features = {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in request.features}
    _check_features(image, node_id, features)
    records = list(_lose_leadership(image, known))
    epoch = BrokerEpoch(image.offset + 1 + len(records))
    registration = BrokerRegistration(
        node_id=node_id,
        epoch=epoch,
        incarnation_id=request.incarnation_id,
        endpoints={
            listener.name: Endpoint(host=listener.host, port=listener.port, security_protocol=listener.security_protocol)
            for listener in request.listeners
        },
        features=features,
        rack=request.rack,
        log_dirs=tuple(request.log_dirs),
        cordoned_log_dirs=(),
    )
    return [*records, register_broker_record(registration)], BrokerRegistrationResponse(broker_epoch=epoch)


def _check_features(image: MetadataImage, node_id: NodeId, features: Mapping[str, tuple[int, int]]) -> None:
    for name, level in image.features.items():
        lowest, highest = features.get(name, (0, 0))
        if not lowest <= level <= highest and (name == METADATA_VERSION or name in features or level > 0):
            text = f"broker {node_id} serves feature {name} from {lowest} to {highest}, the cluster has {level}"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _lose_leadership(image: MetadataImage, known: BrokerRegistration | None) -> list[MetadataRecord]:
    """A broker that registers while it counts as alive stopped without a word: what it led loses its leader first."""
    if known is None or known.is_fenced:
        return []
    return fence_broker(image, known)


def fence_broker(image: MetadataImage, broker: BrokerRegistration, *, is_leaving: bool = False) -> list[MetadataRecord]:
    """Return the records that fence a broker; ``is_leaving`` notes that it asked for it."""
    fenced = BrokerRegistrationChangeRecord(
        broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=FENCED, in_controlled_shutdown=1 if is_leaving else 0
    )
    return [fenced, *changes_when_fenced(image, broker.node_id)]


def unfence_broker(image: MetadataImage, broker: BrokerRegistration) -> list[MetadataRecord]:
    """Return the records that let a broker lead, and that give back what waited for it, each partition in a new epoch."""
    unfenced = BrokerRegistrationChangeRecord(broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=UNFENCED)
    after = MetadataDelta(image)
    after.replay(unfenced)
    return [unfenced, *changes_when_unfenced(after.build(offset=image.offset, epoch=image.epoch), broker.node_id)]


def heartbeat(image: MetadataImage, request: BrokerHeartbeatRequest) -> tuple[list[MetadataRecord], BrokerHeartbeatResponse]:
    """Return what a heartbeat changes, and what to tell the broker: it may serve when it is not fenced.

    Raises:
        KafkaError: STALE_BROKER_EPOCH, the broker is not registered, or a later start of it is.
    """
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    wants_out = request.want_fence or request.want_shut_down
    if not broker.is_fenced and wants_out:
        records = fence_broker(image, broker, is_leaving=request.want_shut_down)
    elif broker.is_fenced and is_caught_up and not wants_out:
        records = unfence_broker(image, broker)
    else:
        records = []
    is_fenced = wants_out or (broker.is_fenced and not is_caught_up)
    response = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=request.want_shut_down)
    return records, response


def unregister_broker(image: MetadataImage, request: UnregisterBrokerRequest) -> tuple[list[MetadataRecord], UnregisterBrokerResponse]:
    """Return the records that end a broker's membership; what it leads loses its leader first. It comes back when it registers again.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED.
    """
    broker = image.cluster.brokers.get(NodeId(request.broker_id))
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    gone = UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch)
    return [*_lose_leadership(image, broker), gone], UnregisterBrokerResponse()


def registered_broker(image: MetadataImage, node_id: int, broker_epoch: int) -> BrokerRegistration:
    """Return the registration that a broker's request is for.

    Raises:
        KafkaError: STALE_BROKER_EPOCH, there is none, or a later one.
    """
    broker = image.cluster.brokers.get(NodeId(node_id))
    if broker is None:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {node_id} is not registered")
    if broker.epoch != broker_epoch:
        text = f"broker {node_id} is registered with epoch {broker.epoch}, the request has {broker_epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, text)
    return broker
