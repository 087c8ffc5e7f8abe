"""Producer ids for idempotent producers, from blocks that the controller allocates (KIP-730).

Decides when another block is requested: when a tenth of the block is left, so that producers seldom
wait. If no id is left, a producer waits for a while. It then gets COORDINATOR_LOAD_IN_PROGRESS,
which clients retry.

Invariants: an id is given once. At most one request for a block is in flight. Ids that are unused
when the node stops are lost, which is allowed.
"""

import logging
from collections.abc import Callable
from typing import Any

import trio

from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.channel import ControllerChannel
from log_service.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

logger = logging.getLogger(__name__)

LEFT_SHARE = 10
"""The next block is requested when one in this many ids of a block is left."""
WAIT_MS = 5_000
"""How long a producer waits for a block. Clients wait much longer for a response."""


class ProducerIds:
    """The current and the next block of producer ids of the node.

    ``start_task`` runs the request for a block beside the connections.
    """

    def __init__(
        self,
        controller: ControllerChannel,
        node_id: NodeId,
        broker_epoch: Callable[[], BrokerEpoch],
        start_task: Callable[..., Any] | None = None,
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._start_task = start_task
        self._next_id = 0
        self._end_id = 0
        self._refill_at = 0
        self._next_block = range(0)
        self._is_asking = False
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return (
            f"<ProducerIds next={self._next_id}"
            f" left={self._end_id - self._next_id + len(self._next_block)}>"
        )

    def next_nowait(self) -> int | None:
        """Return an id, or None if there is none."""
        if self._next_id >= self._end_id and not self._take_next_block():
            return None
        self._next_id += 1
        if self._next_id >= self._refill_at:
            self._refill_soon()
        return self._next_id - 1

    def next_or_ask(self) -> int | None:
        """Return an id. If there is none, request a block in the background and return None."""
        producer_id = self.next_nowait()
        if producer_id is None:
            self._refill_soon()
        return producer_id

    @property
    def is_empty(self) -> bool:
        """Whether there is no id left."""
        return self._next_id >= self._end_id and not self._next_block

    async def wait_for_block(self) -> None:
        """Wait until there is an id, but only for a while.

        Another producer may take it before the caller does.
        """
        try:
            with trio.move_on_after(WAIT_MS / 1_000):
                async with self._lock:
                    if self.is_empty:
                        await self._ask()
        except KafkaError as error:
            logger.info("A producer has to ask again for its id: %s", error)

    async def next(self) -> int:
        """Return an id. Wait for a block when this one is used up.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the controller gave none in time.
        """
        with trio.move_on_after(WAIT_MS / 1_000):
            while (producer_id := self.next_nowait()) is None:
                async with self._lock:
                    if self.is_empty:
                        await self._ask()
            return producer_id
        raise KafkaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"the controller gave no producer ids within {WAIT_MS} ms; ask again",
        )

    def _take_next_block(self) -> bool:
        block, self._next_block = self._next_block, range(0)
        if block:
            self._next_id, self._end_id = block.start, block.stop
            self._refill_at = block.stop - len(block) // LEFT_SHARE
        return bool(block)

    def _refill_soon(self) -> None:
        if self._start_task is not None and not self._is_asking and not self._next_block:
            self._is_asking = True
            self._start_task(self._refill)

    async def _refill(self) -> None:
        """Request the next block. After a failure, the next call for an id requests it again."""
        try:
            async with self._lock:
                if not self._next_block:
                    await self._ask()
        except KafkaError as error:
            logger.warning(
                "The controller gave no block of producer ids, which is asked for again: %s", error
            )
        finally:
            self._is_asking = False

    async def _ask(self) -> None:
        """Request the next block from the controller.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, the controller returned no block.
        """
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        try:
            block = await self._controller.request(request, AllocateProducerIdsResponse)
        except KafkaError as error:
            text = f"the controller gave no producer ids: {error}"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text) from error
        self._next_block = range(
            block.producer_id_start, block.producer_id_start + block.producer_id_len
        )
