"""The controller's shell: performs what the core decided, and answers when it is committed.

Decides nothing about metadata. One decision at a time runs from the request to the replay without waiting, so that decisions see each other
in the order of their records; then the caller waits for the high watermark.

Invariants: what is replayed was appended; a reply leaves only when everything its decision has seen is committed, reads too. When the disk
fails, the raft driver raises in the node's nursery and every caller here is cancelled with the node: nobody is told something that is not
so.
"""

import logging
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import Timer, TimerQueue
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.controller import Controller, ControllerConfig, Decision
from log_service.controller.rules.brokers import Heartbeat, HeartbeatReply, RegisterBroker
from log_service.controller.rules.directories import AssignReplica
from log_service.controller.rules.producer_ids import ProducerIdBlock
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from log_service.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from log_service.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from log_service.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from log_service.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from log_service.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from log_service.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from log_service.protocol.messages.update_features import UpdateFeaturesRequest
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from log_service.raft.driver import RaftDriver
from log_service.raft.format import random_id
from log_service.state_machine.decision import SetTimer

R = TypeVar("R")
RETRY_MS = 1_000
MAX_RECORDS_PER_BATCH = 50_000
INDEPENDENT_RECORDS = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, PartitionChangeRecord)
_log = logging.getLogger(__name__)


class ControllerDriver:
    """The controller of this node; ``activate`` it once the metadata log is open and running."""

    def __init__(self, env: NodeEnv, raft: RaftDriver, timers: TimerQueue, config: ControllerConfig) -> None:
        self._env = env
        self._raft = raft
        self._timers = timers
        self._config = config
        self._core: Controller | None = None
        self._pending: dict[Hashable, Timer] = {}

    def __repr__(self) -> str:
        return f"<ControllerDriver {self._core!r}>"

    async def activate(self, image: MetadataImage, bootstrap: Sequence[MetadataRecord] = ()) -> None:
        """Begin to lead with the metadata that is committed; ``bootstrap`` are the first records of an empty log.

        Raises:
            StorageError: the cluster cannot be served by this version.
        """
        core = Controller(self._config, image, lambda: random_id(self._env.rng.getrandbits))
        self._core = core
        self._perform(core, core.handle_activation(bootstrap, self._env.clock.monotonic_ms()))
        await self._raft.wait_for(self._raft.end_position)

    def resign(self) -> None:
        """Decide nothing any more; callers get NOT_CONTROLLER."""
        self._core = None
        for timer in self._pending.values():
            timer.cancel()
        self._pending.clear()

    # Requests

    async def register_broker(self, request: RegisterBroker) -> BrokerEpoch:
        """Register a broker and return its epoch.

        Raises:
            KafkaError: it cannot be a member.
        """
        epoch: BrokerEpoch = await self._decide(Controller.handle_register_broker, request)
        return epoch

    async def heartbeat(self, request: Heartbeat) -> HeartbeatReply:
        """Take note of a broker; unfences it when it has caught up, fences it when it wants to go.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        """
        reply: HeartbeatReply = await self._decide(Controller.handle_heartbeat, request)
        return reply

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics; errors are per topic."""
        response: CreateTopicsResponse = await self._decide(Controller.handle_create_topics, request, timeout_ms=request.timeout_ms)
        return response

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Delete topics; errors are per topic."""
        response: DeleteTopicsResponse = await self._decide(Controller.handle_delete_topics, request, timeout_ms=request.timeout_ms)
        return response

    async def create_partitions(self, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        """Add partitions; errors are per topic."""
        handle = Controller.handle_create_partitions
        response: CreatePartitionsResponse = await self._decide(handle, request, timeout_ms=request.timeout_ms)
        return response

    async def incremental_alter_configs(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        """Change configuration; errors are per resource."""
        response: IncrementalAlterConfigsResponse = await self._decide(Controller.handle_incremental_alter_configs, request)
        return response

    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Elect leaders; errors are per partition."""
        response: ElectLeadersResponse = await self._decide(Controller.handle_elect_leaders, request, timeout_ms=request.timeout_ms)
        return response

    async def alter_partition_reassignments(self, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        """Move partitions; errors are per partition."""
        handle = Controller.handle_alter_partition_reassignments
        response: AlterPartitionReassignmentsResponse = await self._decide(handle, request, timeout_ms=request.timeout_ms)
        return response

    async def update_features(self, request: UpdateFeaturesRequest) -> None:
        """Change feature levels, all of a request or none.

        Raises:
            KafkaError: INVALID_UPDATE_VERSION.
        """
        await self._decide(Controller.handle_update_features, request, timeout_ms=request.timeout_ms)

    async def unregister_broker(self, node_id: NodeId) -> None:
        """Forget a broker until it registers again.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED.
        """
        await self._decide(Controller.handle_unregister_broker, node_id)

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """Replace configuration; errors are per resource."""
        response: AlterConfigsResponse = await self._decide(Controller.handle_alter_configs, request)
        return response

    async def assign_replica(self, request: AssignReplica) -> None:
        """Note in which log directory a replica is.

        Raises:
            KafkaError: the broker is not registered, or has no such replica.
        """
        await self._decide(Controller.handle_assign_replica, request)

    async def allocate_producer_ids(self, node_id: NodeId, broker_epoch: BrokerEpoch) -> ProducerIdBlock:
        """Hand out a block of producer ids.

        Raises:
            KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
        """
        block: ProducerIdBlock = await self._decide(Controller.handle_allocate_producer_ids, (node_id, broker_epoch))
        return block

    # Performing

    async def _decide(
        self, handle: Callable[[Controller, R, int, Hashable], Decision], request: R, *, timeout_ms: int | None = None
    ) -> Any:
        """Have the core decide and wait until all it has seen is committed.

        A request with a ``timeout_ms`` stops waiting then, and its records stay appended; one without any time is not decided at all.

        Raises:
            KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or what the decision raised.
        """
        core = self._core
        if core is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the metadata quorum at the moment; try again")
        if timeout_ms is not None and timeout_ms <= 0:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"a timeout of {timeout_ms} ms leaves no time; nothing was changed")
        reply_to = object()
        decision = handle(core, request, self._env.clock.monotonic_ms(), reply_to)
        self._perform(core, decision)
        with trio.move_on_after(float("inf") if timeout_ms is None else timeout_ms / 1_000) as waiting:
            await self._raft.wait_for(self._raft.end_position)
        if waiting.cancelled_caught:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the metadata log did not commit within {timeout_ms} ms; it may still do so")
        return next(reply.response for reply in decision.replies if reply.reply_to is reply_to)

    def _perform(self, core: Controller, decision: Decision) -> None:
        """Append and replay the records of one decision and set its timers; nothing is replayed that was not appended."""
        if decision.records:
            assert self._raft.log_end_offset == core.image.offset + 1, "the controller has not seen all of its own log"
            for records in _batches(decision.records):
                position = self._raft.append(records)
                core.replay(records, last_offset=position.end_offset - 1, epoch=position.epoch)
        for timer in decision.timers:
            known = self._pending.pop(timer.key, None)
            if known is not None:
                known.cancel()
            if isinstance(timer, SetTimer):
                self._schedule(core, timer)

    def _on_timer(self, core: Controller, timer: SetTimer) -> None:
        now_ms = self._env.clock.monotonic_ms()
        try:
            self._perform(core, core.on_timer(timer.key, now_ms))
        except KafkaError as error:
            _log.warning("the controller could not act on %s (%s); it tries again in %d ms", timer.key, error, RETRY_MS)
            self._schedule(core, SetTimer(key=timer.key, deadline_ms=now_ms + RETRY_MS))

    def _schedule(self, core: Controller, timer: SetTimer) -> None:
        def fire() -> None:
            self._pending.pop(timer.key, None)
            if core is self._core:
                self._on_timer(core, timer)

        self._pending[timer.key] = self._timers.schedule(timer.deadline_ms, fire)


def _batches(records: Sequence[MetadataRecord]) -> Iterator[Sequence[MetadataRecord]]:
    """Yield what is appended as one batch each: a decision is one batch, but for a broker's that moves very many leaders.

    Those records stand for themselves: a crash between two batches leaves leaders to move, which the broker's next registration does.
    """
    if len(records) <= MAX_RECORDS_PER_BATCH or not all(isinstance(record, INDEPENDENT_RECORDS) for record in records):
        yield records
        return
    for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
        yield records[start : start + MAX_RECORDS_PER_BATCH]
