"""What the handlers of a broker may use.

Decides nothing: the broker fills a ``Node`` when it starts, and every handler gets it. There is one ``Node`` per broker and no other place
where handlers find state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.producer_ids import ProducerIds
from log_service.common.env import Clock
from log_service.config.views import NodeConfig
from log_service.controller.channel import ControllerChannel
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.shards import RunInPool
from log_service.metadata.image import MetadataImage
from log_service.raft.driver import RaftDriver
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log_manager import LogManager


@dataclass(slots=True, kw_only=True)
class Node:
    """The rooms of one running broker, as its handlers see them."""

    config: NodeConfig
    static_texts: Mapping[str, str]
    cluster_id: str
    clock: Clock
    image: Callable[[], MetadataImage]
    run_in_pool: RunInPool
    raft: RaftDriver
    logs: LogManager
    replicas: ReplicaManager
    groups: GroupService
    controller: ControllerChannel
    fetch_sessions: FetchSessionCache
    producer_ids: ProducerIds
    controller_address: tuple[str, int] | None = None
    """Where admin clients reach the controller, as they are told."""
