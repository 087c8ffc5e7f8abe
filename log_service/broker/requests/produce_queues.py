"""Queues of produce requests that take longer than a turn of the event loop.

Decides the order. The requests of one connection are handled one after the other, because a
producer's batches come in the order of their sequences. While one request is handled, later ones of
its connection wait in the connection's queue, however small they are. Between connections there is
no order. Batches are checked in the thread pool, a step at a time, and the queues take turns.

Invariants:

- One step runs in the pool at a time, whatever clients send, so that other threads get the
  interpreter.
- The records in a queue count as memory of waiting responses (``Deferred.held_bytes``). If
  the node's budget is used up, waiting connections read no further request.
- Work ends with its client. Requests without acknowledgement (acks=0) are finished all the same,
  because their clients leave once everything is sent. At most ``MAX_LEFT_BYTES`` are held of
  requests whose clients have left.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from log_service.broker.requests.call import Call, Deferred
from log_service.common.env import RunInPool
from log_service.common.errors import KafkaError, kept
from log_service.common.steps import Steps
from log_service.network.server import ConnectionContext
from log_service.protocol.messages.produce import ProduceRequest
from log_service.records.validator import ValidatedBatches

MAX_LEFT_BYTES = 16 << 20


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request in the queue of its connection.

    ``work`` appends the request's batches and completes ``deferred``. It checks ``is_dropped``
    between its steps, and charges their time to ``call``.
    """

    call: Call
    deferred: Deferred
    held_bytes: int
    outlives_client: bool
    work: "Callable[[QueuedRequest], Awaitable[None]]"
    is_dropped: bool = False
    is_left: bool = False


@dataclass(slots=True, eq=False)
class ProduceQueues:
    """The queues of produce requests of one node, by connection."""

    _queues: dict[int, deque[QueuedRequest]] = field(default_factory=dict)
    _turn: trio.Lock = field(default_factory=trio.Lock)
    _left_bytes: int = 0

    def __repr__(self) -> str:
        return f"<ProduceQueues queues={len(self._queues)}>"

    def is_busy(self, connection: ConnectionContext) -> bool:
        """Whether the next request of the connection must wait, because one is in progress."""
        return connection.connection_id in self._queues

    def add(
        self,
        call: Call,
        request: ProduceRequest,
        work: Callable[[QueuedRequest], Awaitable[None]],
        *,
        outlives_client: bool,
    ) -> Deferred:
        """Queue a request, and return its deferred response.

        ``work`` is called when the request is the first in the queue of its connection. Its records
        are kept until then. With ``outlives_client`` the work may continue after the client has
        left.
        """
        deferred = call.defer()
        held_bytes = keep_records(call.connection, request)
        queued = QueuedRequest(call, deferred, held_bytes, outlives_client, work)
        deferred.held_bytes = held_bytes
        deferred.on_discard(partial(self._leave, queued))
        queue = self._queues.get(call.connection.connection_id)
        if queue is None:
            queue = self._queues[call.connection.connection_id] = deque((queued,))
            call.route.start_task(self._work_off, call.connection.connection_id, queue)
        else:
            queue.append(queued)
        return deferred

    async def check(
        self, run_in_pool: RunInPool, steps: Steps[ValidatedBatches], queued: QueuedRequest
    ) -> ValidatedBatches | KafkaError | None:
        """Run the steps of a check in the pool.

        Return the result of the check, or None once the request is dropped.
        """
        while True:
            async with self._turn:
                if queued.is_dropped:
                    return None
                with queued.call.counted():
                    found = await run_in_pool(partial(_take_step, steps))
            if found is not None:
                return found

    async def _work_off(self, connection_id: int, queue: deque[QueuedRequest]) -> None:
        try:
            while queue:
                queued = queue[0]
                try:
                    if not queued.is_dropped:
                        await queued.work(queued)
                except Exception as error:  # noqa: BLE001 - a bug of ours, or a request without a response: its own connection pays
                    queued.deferred.fail(error)
                queue.popleft()
                queued.outlives_client = (
                    False  # a coordinator may still be asked, and its client may leave then
                )
                if queued.is_left:
                    self._left_bytes -= queued.held_bytes
        finally:
            self._left_bytes -= sum(queued.held_bytes for queued in queue if queued.is_left)
            del self._queues[connection_id]

    def _leave(self, queued: QueuedRequest) -> None:
        """Drop a request whose client has left, unless its work continues without the client."""
        queued.is_left = (
            queued.outlives_client and self._left_bytes + queued.held_bytes <= MAX_LEFT_BYTES
        )
        queued.is_dropped = not queued.is_left
        if queued.is_left:
            self._left_bytes += queued.held_bytes


def keep_records(connection: ConnectionContext, request: ProduceRequest) -> int:
    """Keep the records of a request after its handler has returned. Return their size in bytes.

    If they are in the connection's buffer, which receives the next request, they are copied.
    """
    is_kept, connection.is_frame_kept = connection.has_own_memory, connection.has_own_memory
    held_bytes = 0
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            if wanted.records is not None:
                held_bytes += len(wanted.records)
    if not is_kept:
        copy_records(request)
    return held_bytes


def copy_records(request: ProduceRequest) -> None:
    """Copy the records of a request out of the connection's buffer, which is then used again."""
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            if wanted.records is not None:
                wanted.records = memoryview(bytearray(wanted.records))


def _take_step(steps: Steps[ValidatedBatches]) -> ValidatedBatches | KafkaError | None:
    """Run one step of a check. Return the check's result, or None if more steps follow."""
    try:
        next(steps)
    except StopIteration as ended:
        found: ValidatedBatches = ended.value
        return found
    except KafkaError as error:
        return kept(error)
    return None
