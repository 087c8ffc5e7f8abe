"""The controller's shell: its state machine over the metadata log, for as long as this node leads the quorum.

Decides when there is an active controller: ``activate`` begins one, and the end of the epoch, or ``resign``, ends it. The core
decides on requests. The runtime performs a decision, and replies to its sender. A request is a message of the protocol, the
same that a broker elsewhere sends, and its response too; in process neither is encoded.

Invariant: a caller hears only what is so. When the disk fails, the raft driver raises in the node's nursery, and every caller here is
cancelled with the node.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

import trio

from log_service.common.env import NodeEnv
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.timers import TimerQueue
from log_service.common.types import LeaderEpoch, NodeId
from log_service.controller.controller import Controller
from log_service.controller.rules.table import ControllerConfig
from log_service.metadata.image import MetadataImage
from log_service.protocol.schema import Message
from log_service.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from log_service.raft.batches import MetadataBatch
from log_service.raft.driver import RaftDriver
from log_service.raft.format import random_id
from log_service.raft.snapshots import Snapshot
from log_service.raft.waits import not_controller
from log_service.state_machine.runtime import Runtime

R = TypeVar("R", bound=Message)

MAX_RECORDS_PER_BATCH = 50_000
INDEPENDENT_RECORDS = (RegisterBrokerRecord, BrokerRegistrationChangeRecord, PartitionChangeRecord)


class ControllerDriver:
    """The controller of this node, made before the metadata log is opened; ``activate`` it once the log is open and running.

    It is a listener of the log, behind the one that publishes images: a caller that hears of a decision finds it in the newest image.
    """

    def __init__(self, env: NodeEnv, raft: RaftDriver, timers: TimerQueue, config: ControllerConfig) -> None:
        self._env = env
        self._raft = raft
        self._timers = timers
        self._config = config
        self._core: Controller | None = None
        self._runtime: Runtime[MetadataRecord] | None = None
        raft.subscribe(self)

    def __repr__(self) -> str:
        return f"<ControllerDriver {self._core!r}>"

    @property
    def is_active(self) -> bool:
        """Whether this node decides."""
        return self._runtime is not None

    async def activate(self, image: MetadataImage, bootstrap: Sequence[MetadataRecord] = ()) -> None:
        """Begin to lead with the metadata that is committed; ``bootstrap`` are the first records of an empty log.

        Raises:
            StorageError: the cluster cannot be served by this version.
            KafkaError: the log refuses, or this node does not lead.
        """
        position = self._raft.end_position
        core = Controller(self._config, image, position.epoch, lambda: random_id(self._env.rng.getrandbits))
        log = _MetadataLog(self._raft, position.epoch, position.end_offset)
        self._core = core
        self._runtime = Runtime(core, log, clock=self._env.clock, timers=self._timers, appended_end=position.end_offset, split=_batches)
        self._runtime.tell(partial(core.activate, bootstrap))
        await self._raft.wait_for(self._raft.end_position)

    def resign(self) -> None:
        """Decide nothing any more; callers get NOT_CONTROLLER."""
        runtime, self._runtime, self._core = self._runtime, None, None
        if runtime is not None:
            runtime.close(not_controller())

    # The metadata log

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Nothing: a controller begins with an image."""

    def on_batches(self, batches: Sequence[MetadataBatch]) -> None:  # noqa: ARG002 - the high watermark says it all
        """Reply to what is committed now."""
        if self._runtime is not None:
            self._runtime.on_high_watermark()

    def on_leader_change(self, leader_id: NodeId, epoch: LeaderEpoch) -> None:  # noqa: ARG002 - one shape for all listeners
        """Give up what belongs to the epoch before."""
        self.resign()

    # Requests

    async def request(self, request: Message, response_type: type[R]) -> R:
        """Have the controller decide on a message, and return the response once all that the decision has seen is committed.

        A request with a ``timeout_ms`` stops waiting then, and its records stay appended; one without any time is not decided at all.

        Raises:
            KafkaError: NOT_CONTROLLER, REQUEST_TIMED_OUT, or what refuses the request as a whole.
        """
        core, runtime = self._core, self._runtime
        if core is None or runtime is None:
            raise not_controller()
        timeout_ms: int | None = getattr(request, "timeout_ms", None)
        if timeout_ms is not None and timeout_ms <= 0:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"a timeout of {timeout_ms} ms leaves no time; nothing was changed")
        outcome = _Outcome()
        token = runtime.ask(partial(core.handle, request), outcome.set, lambda error: error)
        try:
            with trio.move_on_after(float("inf") if timeout_ms is None else timeout_ms / 1_000):
                await outcome.is_known.wait()
        finally:
            runtime.forget(token)
        if not outcome.is_known.is_set():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the metadata log did not commit within {timeout_ms} ms; it may still do so")
        if isinstance(outcome.reply, KafkaError):
            raise outcome.reply
        assert isinstance(outcome.reply, response_type)
        return outcome.reply


class _Outcome:
    """What a caller waits for: a response, or the error that refuses its request."""

    def __init__(self) -> None:
        self.is_known = trio.Event()
        self.reply: Message | KafkaError | None = None

    def set(self, reply: Message | KafkaError) -> None:
        self.reply = reply
        self.is_known.set()


class _MetadataLog:
    """The metadata log as the controller's runtime sees it, in one epoch."""

    def __init__(self, raft: RaftDriver, epoch: LeaderEpoch, end_offset: int) -> None:
        self._raft = raft
        self._epoch = epoch
        self._end_offset = end_offset

    @property
    def high_watermark(self) -> int:
        return self._raft.high_watermark if self._raft.epoch == self._epoch else 0

    def append(self, records: Sequence[MetadataRecord], _wall_ms: int) -> int:
        if self._raft.epoch != self._epoch:
            raise not_controller()
        assert self._raft.log_end_offset == self._end_offset, "the controller has not seen all of its own log"
        self._end_offset = self._raft.append(records).end_offset
        return self._end_offset


def _batches(records: Sequence[MetadataRecord]) -> Iterable[Sequence[MetadataRecord]]:
    """Yield what is appended as one batch each: a decision is one batch, but for a broker's that moves very many leaders.

    Those records stand for themselves: a crash between two batches leaves leaders to move, which the broker's next registration does.
    """
    if len(records) <= MAX_RECORDS_PER_BATCH or not all(isinstance(record, INDEPENDENT_RECORDS) for record in records):
        yield records
        return
    for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
        yield records[start : start + MAX_RECORDS_PER_BATCH]
