"""Runs the core of the controller while this node leads the quorum.

The core is a state machine over the metadata log. This file decides when this node has an active
controller. The controller begins when this node leads the quorum and knows all committed records.
It ends with the epoch or with ``resign``. The core decides requests. The runtime carries a decision
out and replies to the sender of the request. Requests and responses are the protocol messages that
a remote broker would exchange, but in process they are not encoded.

Invariants:

- If the controller cannot begin, this node resigns as the leader of the quorum. In a quorum of one,
  the node ends with the error.
- A caller gets the response only once the decision is committed.
- When the disk fails, the raft driver raises in the node's nursery, and every caller here is
  cancelled with the node.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import ErrorCode, KafkaError, StorageError
from log_service.common.features import KRAFT_VERSION
from log_service.common.timers import TimerQueue
from log_service.common.types import BrokerEpoch, LeaderEpoch, NodeId
from log_service.controller.caller import Caller
from log_service.controller.controller import Controller, Stall
from log_service.controller.rules.table import ControllerConfig
from log_service.metadata.image import MetadataImage
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.schema import Message
from log_service.protocol.stored.control_records import KRaftVersionRecord
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from log_service.raft.batches import MetadataBatch
from log_service.raft.driver import RaftDriver
from log_service.raft.errors import not_controller
from log_service.raft.format import random_id
from log_service.raft.snapshots import Snapshot
from log_service.state_machine.runtime import Runtime

if TYPE_CHECKING:
    from log_service.controller.death_detector import DeathDetector

R = TypeVar("R", bound=Message)
VOTER_CHANGES = frozenset({ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})
"""Requests that the leader of the quorum decides and the controller does not."""

logger = logging.getLogger(__name__)

MAX_RECORDS_PER_BATCH = 50_000
INDEPENDENT_RECORDS = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, PartitionChangeRecord)


def out_of_time(timeout_ms: int) -> KafkaError:
    """Return the error of a request that is not decided, because its timeout leaves no time."""
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"a timeout of {timeout_ms} ms leaves no time; nothing was changed",
    )


class ControllerDriver:
    """The controller of this node. It must be created before the metadata log is opened.

    ``image`` returns the newest committed metadata. The driver listens to the log, and is called
    after the listener that publishes images. So a caller that gets a response finds the decision in
    the newest image. ``bootstrap`` are the first records of an empty log.
    """

    def __init__(
        self,
        env: NodeEnv,
        raft: RaftDriver,
        timers: TimerQueue,
        config: ControllerConfig,
        *,
        image: Callable[[], MetadataImage],
        bootstrap: Sequence[MetadataRecord] = (),
    ) -> None:
        self._image = image
        self._bootstrap = bootstrap
        self._env = env
        self._raft = raft
        self._timers = timers
        self._config = config
        self._core: Controller | None = None
        self._runtime: Runtime[MetadataRecord] | None = None
        self._nursery: trio.Nursery | None = None
        self._deaths: DeathDetector | None = None
        self._idle_runtime: Runtime[MetadataRecord] | None = None  # whose next idle record is due
        raft.subscribe(self)

    def __repr__(self) -> str:
        return f"<ControllerDriver {self._core!r}>"

    @property
    def core(self) -> Controller | None:
        """The core of the active controller, or None if this node is not the active controller."""
        return self._core

    @property
    def runtime(self) -> Runtime[MetadataRecord] | None:
        """The runtime of the core, with its requests and timers, or None as for ``core``."""
        return self._runtime

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._runtime is not None

    def _activate(self) -> None:
        """Begin to act as the active controller, from the committed metadata.

        Raises:
            StorageError: the cluster has feature levels that this version does not support.
            KafkaError: the log refuses the first records.
        """
        epoch, end_offset = self._raft.epoch, self._raft.log_end_offset
        core = Controller(
            self._config, self._image(), epoch, lambda: random_id(self._env.rng.getrandbits)
        )
        log = _MetadataLog(self._raft, epoch)
        runtime = Runtime(
            core,
            log,
            clock=self._env.clock,
            timers=self._timers,
            appended_end=end_offset,
            split=_batches,
            on_announcement=_log_stall,
            name="the controller",
        )
        self._core, self._runtime = core, runtime
        runtime.decide_alone(partial(core.activate, self._bootstrap))
        self._watch_brokers()
        self._maybe_begin_idle_records()

    def _maybe_begin_idle_records(self) -> None:
        """Schedule the next no-op record, if the quorum has several nodes.

        A node that reads the record knows that it is up to date. A quorum of one has no other node
        that needs to know, and so it does not use its disk for such records.
        """
        runtime, interval_ms = self._runtime, self._config.max_idle_interval_ms
        if (
            runtime is not None
            and runtime is not self._idle_runtime
            and interval_ms > 0
            and not self._raft.is_only_voter
        ):
            self._idle_runtime = runtime
            self._timers.schedule(
                self._env.clock.monotonic_ms() + interval_ms,
                partial(self._write_idle_record, runtime),
            )

    def _write_idle_record(self, runtime: Runtime[MetadataRecord]) -> None:
        if runtime is not self._runtime:
            return
        try:
            runtime.decide_alone(lambda decision: decision.append(NoOpRecord()))
        except KafkaError as error:
            logger.warning(
                "A record that says that nothing happened could not be written: %s", error
            )
        self._idle_runtime = None
        self._maybe_begin_idle_records()

    def resign(self) -> None:
        """Stop acting as the active controller. Waiting callers get NOT_CONTROLLER."""
        runtime, self._runtime, self._core = self._runtime, None, None
        if runtime is not None:
            runtime.close(not_controller())

    # Dead brokers

    def watch_brokers_in(self, nursery: trio.Nursery) -> None:
        """Detect dead brokers before their sessions end, from now on, by tasks in ``nursery``."""
        self._nursery = nursery
        self._watch_brokers()

    def note_heartbeat(
        self, node_id: NodeId, epoch: BrokerEpoch, connection_id: int
    ) -> Callable[[], None] | None:
        """Note that a heartbeat came over a connection.

        Return the function to call when the connection has ended. Return None if it is not watched.
        """
        deaths = self._death_detector() if self.is_active else None
        return None if deaths is None else deaths.note_heartbeat(node_id, epoch, connection_id)

    def _watch_brokers(self) -> None:
        """Begin to detect dead brokers in a new epoch, if the cluster has other brokers."""
        has_others = any(
            broker.node_id != self._config.node_id for broker in self._image().cluster.unfenced()
        )
        deaths = (
            self._death_detector()
            if self.is_active and (has_others or self._deaths is not None)
            else None
        )
        if deaths is not None:
            deaths.begin_epoch()

    def _death_detector(self) -> "DeathDetector | None":
        if self._deaths is None and self._nursery is not None and self._config.death_grace_ms > 0:
            from log_service.controller.death_detector import (  # noqa: PLC0415 - a node alone has nothing to detect
                DeathDetector,
            )

            self._deaths = DeathDetector(
                self._env,
                self._nursery,
                own_id=self._config.node_id,
                grace_ms=self._config.death_grace_ms,
                image=self._image,
                suspect=self._suspect,
                fence=self._declare_dead,
            )
        return self._deaths

    def _suspect(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        core, runtime = self._core, self._runtime
        if core is not None and runtime is not None:
            runtime.decide_alone(partial(core.suspect, node_id, epoch))

    def _declare_dead(self, node_id: NodeId, epoch: BrokerEpoch) -> None:
        core, runtime = self._core, self._runtime
        if core is None or runtime is None:
            return
        text = (
            "Broker %d is gone: its connection has ended, and its addresses refused others for"
            " %d ms"
        )
        logger.info(text, node_id, self._config.death_grace_ms)
        try:
            runtime.decide_alone(partial(core.declare_dead, node_id, epoch))
        except KafkaError as error:
            logger.warning(
                "Broker %d is gone and cannot be fenced now, so that its session decides: %s",
                node_id,
                error,
            )

    # The metadata log

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Do nothing, because a new controller begins with the newest image."""

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:
        """Send the replies to decisions that are committed now."""
        if self._runtime is not None:
            self._runtime.on_high_watermark()
            if any(batch.control for batch in batches):
                self._take_control(batches)
            _log_fences(batches, own_id=self._config.node_id, is_alone=self._raft.is_only_voter)

    def _take_control(self, batches: Sequence[MetadataBatch]) -> None:
        """Apply a new kraft.version, and begin no-op records if there are several voters now."""
        for value in (value for batch in batches for value in batch.control):
            if isinstance(value, KRaftVersionRecord) and self._core is not None:
                self._core.note_kraft_version(value.kraft_version)
        self._maybe_begin_idle_records()  # the voters may be others

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:
        """Resign from the previous epoch, and activate if this node leads.

        Raises:
            StorageError, KafkaError: this node is the only voter and cannot be the active
                controller. In a larger quorum, it resigns instead, and another node may lead.
        """
        self.resign()
        if leader_id != self._config.node_id:
            return
        try:
            self._activate()
        except (StorageError, KafkaError) as error:
            self.resign()
            if self._raft.is_only_voter:
                raise
            logger.error(
                "This node cannot be the active controller of epoch %d, and leads the quorum no"
                " more: %s",
                epoch,
                error,
            )
            self._raft.resign()

    # Requests

    def spoken_versions(self) -> None:
        """Return None, because this controller is in the caller's process."""

    async def request(
        self, request: Message, response_type: type[R], caller: Caller | None = None
    ) -> R:
        """Return the response to a request, once all metadata that the decision read is committed.

        The wait ends after the request's ``timeout_ms``, if it has one. The records of the decision
        then stay appended. A request whose timeout is not above 0 is not decided at all.

        Raises:
            KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or the error that refuses the request as
                a whole.
        """
        if self._core is None:
            raise not_controller()
        if request.SCHEMA.key in VOTER_CHANGES:
            return await self._change_voters(request, response_type)
        if request.SCHEMA.key == ApiKey.DESCRIBE_QUORUM:
            return self._describe_quorum(response_type, caller)
        if request.SCHEMA.key == ApiKey.UPDATE_FEATURES:
            await self._maybe_upgrade(request, response_type)
        return await self._decide(request, response_type, caller)

    async def _decide(
        self, request: Message, response_type: type[R], caller: Caller | None = None
    ) -> R:
        core, runtime = self._core, self._runtime
        if core is None or runtime is None:
            raise not_controller()
        timeout_ms: int | None = getattr(request, "timeout_ms", None)
        if timeout_ms is not None and timeout_ms <= 0:
            raise out_of_time(timeout_ms)
        outcome = _Outcome()
        token = runtime.ask(
            partial(core.handle, request, caller=caller), outcome.set, lambda error: error
        )
        try:
            if timeout_ms is None:
                await outcome.is_known.wait()
            else:
                with trio.move_on_after(timeout_ms / 1_000):
                    await outcome.is_known.wait()
        finally:
            runtime.forget(token)
        if not outcome.is_known.is_set():
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"the metadata log did not commit within {timeout_ms} ms; it may still do so",
            )
        reply = outcome.take()
        try:
            if isinstance(reply, KafkaError):
                raise reply
            assert isinstance(reply, response_type)
            return reply
        finally:
            del reply  # the traceback of an error holds this frame

    async def _maybe_upgrade(self, request: Any, response_type: type[R]) -> None:
        """Let the quorum raise kraft.version if an UpdateFeatures request contains this update.

        The whole request is validated first.

        Raises:
            KafkaError: the request is refused as a whole; nothing was changed.
        """
        core = self._core
        assert core is not None, "the controller is active"
        present = core.image.features.get(KRAFT_VERSION, 0)
        levels = [
            each.max_version_level
            for each in request.feature_updates
            if each.feature == KRAFT_VERSION
        ]
        if any(level > present for level in levels):
            await self._decide(replace(request, validate_only=True), response_type)
            await self._raft.upgrade(max(levels), is_only_checked=request.validate_only)

    def _describe_quorum(self, response_type: type[R], caller: Caller | None) -> R:
        """Return the response to a DescribeQuorum request, without a rule.

        The handler of this API responds by itself if this node leads the quorum. A request comes
        here only if this node has become the leader since.

        Raises:
            KafkaError: NOT_CONTROLLER, this node no longer leads.
        """
        from log_service.raft.describe_response import (  # noqa: PLC0415 - rare: the handler answers where this node leads
            describe_response,
        )

        description = self._raft.describe()
        if description is None:
            raise not_controller()
        assert caller is not None, "a broker does not ask this for itself"
        response = describe_response(description, caller.version)
        assert isinstance(response, response_type)
        return response

    async def _change_voters(self, request: Message, response_type: type[R]) -> R:
        """Let the quorum change its voters, because only the quorum writes the records of voters.

        Raises:
            KafkaError: NOT_CONTROLLER, this node no longer leads.
        """
        response = await self._raft.handle(request, listener_name=self._raft.listener_name)
        assert isinstance(response, response_type)
        if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise not_controller()
        return response


class _Outcome:
    """The outcome of a request: a response, or the error that refuses it."""

    def __init__(self) -> None:
        self.is_known = trio.Event()
        self.reply: Message | KafkaError | None = None

    def set(self, reply: Message | KafkaError) -> None:
        self.reply = reply
        self.is_known.set()

    def take(self) -> Message | KafkaError | None:
        """Return the outcome, and drop it."""
        reply, self.reply = self.reply, None
        return reply


class _MetadataLog:
    """The metadata log in one epoch, as the controller's runtime appends to it.

    The quorum itself also appends to the log, when voters change.
    """

    def __init__(self, raft: RaftDriver, epoch: LeaderEpoch) -> None:
        self._raft = raft
        self._epoch = epoch

    @property
    def high_watermark(self) -> int:
        return self._raft.high_watermark if self._raft.epoch == self._epoch else 0

    def append(self, records: Sequence[MetadataRecord], _wall_ms: int) -> int:
        if self._raft.epoch != self._epoch:
            raise not_controller()
        return self._raft.append(records)


def _batches(records: Sequence[MetadataRecord]) -> Iterable[Sequence[MetadataRecord]]:
    """Yield the records of each batch to append.

    A decision is one batch, unless the change of a broker moves very many leaders. Their records
    are independent. If a crash between two batches leaves leaders that have not moved, the broker's
    next registration moves them.
    """
    if len(records) <= MAX_RECORDS_PER_BATCH or not all(
        isinstance(record, INDEPENDENT_RECORDS) for record in records
    ):
        yield records
        return
    for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
        yield records[start : start + MAX_RECORDS_PER_BATCH]


def _log_fences(batches: Sequence[MetadataBatch], *, own_id: NodeId, is_alone: bool) -> None:
    """Log which brokers were fenced and unfenced, because an operator needs that first.

    A quorum of one does not log that its own broker is unfenced, because each start logs that the
    node is ready.
    """
    for change in (
        record
        for batch in batches
        for record in batch.records
        if isinstance(record, BrokerRegistrationChangeRecord)
    ):
        is_own = is_alone and change.broker_id == own_id
        if change.fenced > 0:
            logger.info(
                "Broker %d is fenced%s",
                change.broker_id,
                "" if is_own else ": others lead its partitions",
            )
        elif change.fenced and not is_own:
            logger.info("Broker %d serves", change.broker_id)


def _log_stall(stall: Stall) -> None:
    text = (
        "This controller was stalled: a session was due %d ms ago; it reads heartbeats for %d ms"
        " before it fences a broker"
    )
    logger.warning(text, stall.late_ms, stall.grace_ms)
