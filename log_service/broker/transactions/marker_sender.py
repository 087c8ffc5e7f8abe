"""Sends the markers of ending transactions to the leaders of their partitions, until all have them.

Decides when to retry. ``coordinator.transaction.markers`` decides which markers each leader still
has to get, and the meaning of a response. A marker goes to the current leader: to another node over
the listener between brokers, to this node by a call. Both get the same request and give the same
response.

Until all markers are written, the producer's next transaction cannot begin. Markers for followers
or other nodes go at once. Markers of this node's unreplicated partitions wait for a moment. They
are then written without interruption, and the transaction ends with the last of them. The reason
for the wait is that the client that gets the outcome often wakes on this node's core, and would
have to wait for the markers. A request that needs the markers calls ``hurry``.

Invariants:

- Until a marker is written, the sender looks for its partition's leader at least every
  ``RETRY_MS``.
- A delayed marker is written within ``PUT_OFF_MS``, or in the next turn of the event loop after
  ``hurry``. If a batch of this node waits for followers then, the marker is written right after
  that batch.
"""

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from log_service.broker.peers import destination_of
from log_service.common.errors import KafkaError
from log_service.common.quiet_log import QuietLogger
from log_service.common.types import NO_NODE, NodeId, TopicPartition
from log_service.coordinator.transaction.markers import (
    GONE,
    DueMarkers,
    Gone,
    MarkerBatch,
    MarkerQueue,
    Owner,
    SentMarkers,
)
from log_service.metadata.image import MetadataImage
from log_service.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from log_service.rpc.pool import ConnectionPool

logger = logging.getLogger(__name__)

RETRY_MS = 100
"""Pause before markers that were refused, or that have no leader, are tried again."""
PUT_OFF_MS = 1
"""Delay of markers of unreplicated partitions.

The processor is free during this time for the client that waited for the outcome.
"""
PURPOSE = "transaction markers"

WriteHere = Callable[[WriteTxnMarkersRequest, Callable[[WriteTxnMarkersResponse], None]], None]
"""Writes markers to partitions that this node leads.

Calls back once with the response, now or later.
"""


class MarkerSender:
    """Sends the markers of the transactions that this node coordinates.

    ``on_written`` is called for each partition that has its marker.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        image: Callable[[], MetadataImage],
        listener_name: str,
        pool: "Callable[[], ConnectionPool]",
        write_here: WriteHere,
        on_written: Callable[[SentMarkers], None],
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._listener_name = listener_name
        self._pool = pool
        self._write_here = write_here
        self._on_written = on_written
        self._queue = MarkerQueue()
        self._is_changed = trio.Event()
        self._put_off_until: float | None = None
        self._quiet = QuietLogger(logger, lambda: int(trio.current_time() * 1_000))

    def __repr__(self) -> str:
        return f"<MarkerSender {self._queue!r}>"

    def send(self, owner: Owner, due: DueMarkers) -> None:
        """Add the markers of a transaction, and send them soon."""
        self._queue.add(owner, due)
        self._is_changed.set()

    def hurry(self) -> None:
        """Write the markers of this node's partitions in the next turn of the event loop.

        Callers use it if a request waits for the markers.
        """
        if len(self._queue):
            self._put_off_until = -math.inf
            self._is_changed.set()

    def drop(self, partition: int) -> None:
        """Drop the markers of a lost ``__transaction_state`` partition."""
        self._queue.drop(partition)

    @property
    def unknown_destination_count(self) -> int:
        """The number of transactions with a marker for a partition that has no leader now."""
        return self._queue.count_without_leader(self._find_leader)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send the pending markers, until cancelled."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            while True:
                self._is_changed = trio.Event()
                self._send_waiting(nursery)
                with trio.move_on_at(self._next_look()):
                    await self._is_changed.wait()

    def _next_look(self) -> float:
        if self._put_off_until is not None and not self._queue.is_busy(self._node_id):
            return self._put_off_until
        return trio.current_time() + RETRY_MS / 1_000 if len(self._queue) else math.inf

    def _send_waiting(self, nursery: trio.Nursery) -> None:
        is_over = self._put_off_until is not None and self._put_off_until <= trio.current_time()
        if is_over and not self._queue.is_busy(self._node_id):
            # Otherwise they go with the next batch, and are not delayed again.
            self._put_off_until = None
        batches, gone = self._queue.take(
            self._find_leader if is_over else self._find_leader_or_put_off
        )
        for entry in gone:
            self._on_written(entry)
        for batch in batches:
            if batch.node_id == self._node_id:
                self._write_to_this_node(batch, nursery)
            else:
                nursery.start_soon(self._send, batch)

    async def _send(self, batch: MarkerBatch) -> None:
        self._settle(batch, await self._ask_other_node(batch))

    def _settle(self, batch: MarkerBatch, response: WriteTxnMarkersResponse | None) -> None:
        settled = self._queue.settle(batch, response)
        for entry in settled.written:
            self._on_written(entry)
        for transactional_id in settled.given_up:
            logger.warning(
                "Another coordinator owns transactional id %r by now; its markers are not sent from"
                " here",
                transactional_id,
            )
        if len(self._queue) and not settled.is_retrying:
            self._is_changed.set()  # more markers may have been added for this broker meanwhile

    def _write_to_this_node(self, batch: MarkerBatch, nursery: trio.Nursery) -> None:
        """Write markers to this node's partitions.

        If followers must get them first, a task waits for the response.
        """
        responses: list[WriteTxnMarkersResponse] = []
        has_come = trio.Event()

        def on_response(response: WriteTxnMarkersResponse) -> None:
            responses.append(response)
            has_come.set()

        async def settle_later() -> None:
            await has_come.wait()
            self._settle(batch, responses[0])

        try:
            self._write_here(batch.request(), on_response)
        except Exception:  # a bug of ours costs these markers, which are sent again
            logger.exception(
                "Markers of transactions could not be written to this node's partitions; they are"
                " tried again"
            )
            self._settle(batch, None)
        else:
            if responses:
                self._settle(batch, responses[0])
            else:
                nursery.start_soon(settle_later)

    async def _ask_other_node(self, batch: MarkerBatch) -> WriteTxnMarkersResponse | None:
        destination = destination_of(
            self._image(), batch.node_id, self._listener_name, PURPOSE, with_fenced=True
        )
        if destination is None:
            return None
        try:
            return await self._pool().request(destination, batch.request(), WriteTxnMarkersResponse)
        except KafkaError as error:
            text = "Broker %d did not take markers of transactions, which are sent again: %s"
            self._quiet.info(batch.node_id, text, batch.node_id, error)
            return None

    def _find_leader(self, where: TopicPartition) -> NodeId | Gone | None:
        registration = self._image().topics.partition(where.topic, where.partition)
        if registration is None:
            return GONE
        return None if registration.leader == NO_NODE else registration.leader

    def _find_leader_or_put_off(self, where: TopicPartition) -> NodeId | Gone | None:
        """Return the leader of a partition, None to delay its marker, or ``GONE``.

        Markers of this node's unreplicated partitions are delayed, and so are markers of
        partitions without a leader. ``GONE`` means that the partition does not exist.
        """
        registration = self._image().topics.partition(where.topic, where.partition)
        if (
            registration is not None
            and registration.leader == self._node_id
            and len(registration.replicas) == 1
        ):
            self._put_off_until = self._put_off_until or trio.current_time() + PUT_OFF_MS / 1_000
            return None
        return self._find_leader(where)
