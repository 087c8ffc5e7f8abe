"""The parts of a node that handlers may use.

Decides nothing. At its start the broker fills a ``QuorumNode`` for the controller's listeners and a
``Node`` for its own. Every handler is passed one of them, and has no other access to state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Protocol

import trio

from log_service.broker.client_telemetry import ClientTelemetry
from log_service.broker.end_offsets import EndOffsets
from log_service.broker.fetch_session import FetchSessionCache
from log_service.broker.lost_brokers import LostBrokers
from log_service.broker.produced_counts import ProducedCounts
from log_service.broker.producer_ids import ProducerIds
from log_service.broker.requests.produce_queues import ProduceQueues
from log_service.broker.requests.step_scheduler import StepScheduler
from log_service.broker.share.shares import Shares
from log_service.broker.share.state_protocol import SharePersister
from log_service.broker.topic_creation.automatic import TopicCreation
from log_service.broker.topic_creation.streams import StreamsTopicCreation
from log_service.broker.transactions.verifier import TransactionVerifier
from log_service.common.env import Clock, RunInPool
from log_service.config.views import NodeConfig
from log_service.controller.channel import ControllerChannel
from log_service.coordinator.group_service import GroupService
from log_service.coordinator.share_state_service import ShareStateService
from log_service.coordinator.transaction_service import TransactionService
from log_service.metadata.image import MetadataImage
from log_service.raft.driver import RaftDriver
from log_service.replication.replica_manager import ReplicaManager
from log_service.storage.log_manager import LogManager

if TYPE_CHECKING:
    from log_service.broker.schema_validation.checked_appends import CheckedAppends
    from log_service.broker.schema_validation.validation import SchemaValidation


class ConfigChangeValidator(Protocol):
    """Validates changes of this broker's configuration that only this broker can check."""

    async def validate(self, names: frozenset[str], texts: Mapping[str, str], /) -> None:
        """Validate a change. It may wait for the disk.

        ``names`` are the changing keys. ``texts`` are all keys and values that would be set for
        this broker. Raises ConfigError.
        """


@dataclass(slots=True, kw_only=True)
class QuorumNode:
    """The parts of every node, whatever its role, for handlers of the controller's listeners."""

    config: NodeConfig
    static_texts: Mapping[str, str] = field(repr=False)
    cluster_id: str
    clock: Clock
    rng: Random
    image: Callable[[], MetadataImage]
    run_in_pool: RunInPool
    raft: RaftDriver
    controller: ControllerChannel
    """The channel to the active controller.

    On a controller's listener it is the node's own controller.
    """
    controller_address: tuple[str, int] | None = None
    """Advertised address of this node's controller for admin clients."""


@dataclass(slots=True, kw_only=True)
class Node(QuorumNode):
    """The parts of one running broker, for handlers of its own listeners."""

    logs: LogManager
    replicas: ReplicaManager
    groups: GroupService
    transactions: TransactionService
    share_states: ShareStateService
    share_persister: SharePersister
    end_offsets: EndOffsets
    fetch_sessions: FetchSessionCache
    shares: Shares
    producer_ids: ProducerIds
    transaction_verifier: TransactionVerifier
    topic_creation: TopicCreation
    streams_topics: StreamsTopicCreation
    telemetry: ClientTelemetry
    lost_brokers: LostBrokers
    schema_validation: "SchemaValidation | None" = None
    """None if no schema registry is known. Topics with validation then accept no records."""
    produce_queues: ProduceQueues = field(default_factory=ProduceQueues)
    produced: ProducedCounts = field(default_factory=ProducedCounts)
    fetch_turn: trio.Lock = field(default_factory=trio.Lock)
    """Held by the one fetch that runs now, among fetches that read very many partitions."""
    step_scheduler: StepScheduler = field(init=False)
    """Schedules the steps of other responses that describe very many things."""
    config_validators: Sequence[ConfigChangeValidator] = ()
    """Validators of changes of this broker's certificates and users.

    They are called before the controller decides on a change.
    """

    def __post_init__(self) -> None:
        """Set the parts that follow from the other parts."""
        self.step_scheduler = StepScheduler(self.run_in_pool)

    @property
    def appends(self) -> "ReplicaManager | CheckedAppends":
        """The replica manager, or a layer above it that checks the schemas of batches first."""
        return (
            self.replicas
            if self.schema_validation is None
            else self.schema_validation.checked_appends(self.replicas)
        )
