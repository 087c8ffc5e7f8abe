"""Wakes the tasks that wait for the batches of an asyncio producer.

A batch is settled when its records are acknowledged or given up. It then wakes all its tasks with
one function on the event loop. All of this module runs on the loop, except for the callbacks that
the producer's thread calls. They put functions for the loop into the mailbox.

Invariant: every waiting task is woken when its batch is settled or split. All tasks are woken when
the producer has ended.
"""

import asyncio
from functools import partial

from log_service.client.asyncio.bridge import Bridge
from log_service.client.producer.delivery import (
    DeliveryCallback,
    ProducerBatch,
    RecordMetadata,
    call_back,
    require_callback,
)
from log_service.common.errors import KafkaError


class Settlements:
    """The tasks that wait for the batches of one producer."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._waiting: dict[ProducerBatch, list[asyncio.Future[None]]] = {}

    async def wait_changed(self, batch: ProducerBatch) -> None:
        """Wait until the batch is settled or split. A cancelled wait does not affect the batch.

        Raises:
            KafkaError: INVALID_REQUEST, the producer belongs to another process or event loop, or
                its thread ended without settling the batch.
        """
        future: asyncio.Future[None] = self._bridge.require_loop().create_future()
        futures = self._waiting.get(batch)
        if futures is None:
            self._waiting[batch] = [future]
            if not batch.listen(self._note):
                self._wake(batch)
        else:
            futures.append(future)
        await future

    def reporting(self, callback: DeliveryCallback, topic: str) -> DeliveryCallback:
        """Return a callback for the producer's thread that runs ``callback`` on the event loop.

        Raises TypeError if ``callback`` cannot be called.
        """
        require_callback(callback)

        def report(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            self._bridge.put(partial(call_back, callback, metadata, error, topic))

        return report

    def wake_all(self) -> None:
        """Wake every task, because the producer has ended."""
        for batch in list(self._waiting):
            self._wake(batch)

    def _note(self, batch: ProducerBatch) -> None:
        """Wake the tasks of a batch through the mailbox. Only the producer's thread calls this."""
        self._bridge.put(partial(self._wake, batch))

    def _wake(self, batch: ProducerBatch) -> None:
        for future in self._waiting.pop(batch, ()):
            if not future.done():
                future.set_result(None)
