"""Producer ids for idempotent producers, taken one by one from blocks that the controller hands out (KIP-730).

Decides when another block is asked for. Invariants: an id is given once; at most one request for a block is under way, and callers that
need an id meanwhile wait for it. Ids that were not used when the node stops are lost, which is allowed.
"""

from collections.abc import Callable

import trio

from log_service.common.types import BrokerEpoch, NodeId
from log_service.controller.channel import ControllerChannel
from log_service.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


class ProducerIds:
    """The node's current block."""

    def __init__(self, controller: ControllerChannel, node_id: NodeId, broker_epoch: Callable[[], BrokerEpoch]) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._next_id = 0
        self._end_id = 0
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return f"<ProducerIds next={self._next_id} left={self._end_id - self._next_id}>"

    def next_nowait(self) -> int | None:
        """Return an id, or None when the block is used up."""
        if self._next_id >= self._end_id:
            return None
        self._next_id += 1
        return self._next_id - 1

    async def next(self) -> int:
        """Return an id; waits for a block when this one is used up.

        Raises:
            KafkaError: the controller gave none.
        """
        while (producer_id := self.next_nowait()) is None:
            async with self._lock:
                if self._next_id >= self._end_id:
                    await self._take_block()
        return producer_id

    async def _take_block(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        block = await self._controller.request(request, AllocateProducerIdsResponse)
        self._next_id, self._end_id = block.producer_id_start, block.producer_id_start + block.producer_id_len
