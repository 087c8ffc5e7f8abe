"""A transaction on its coordinator goes through stages, and some wait for one.

The table of states of KIP-98 has those that are aimed at.

Decides when a stage is reached: at the first change after the watch began. Looks at the
coordinator's memory, and changes nothing.
"""

from collections.abc import Iterator

import trio

from log_service.coordinator.transaction.transaction import Transaction, TransactionState
from log_service.coordinator.transaction.transaction_coordinator import TransactionCoordinatorShard
from tests.sim.node_host import NodeHost

SOME_MARKERS = "some markers written"
ALL_MARKERS = "all markers written"
STAGES = (
    *(state.label for state in TransactionState if state <= TransactionState.COMPLETE_ABORT),
    SOME_MARKERS,
    ALL_MARKERS,
)
"""Each state that is stored, and how far the markers of an ending transaction are."""


class StageWatch:
    """Waits until a transaction that a node coordinates comes to a stage."""

    def __init__(self, host: NodeHost, wanted: str) -> None:
        self.is_reached = trio.Event()
        self._host = host
        self._wanted = wanted
        self._known = {
            (id(shard), name): transaction
            for shard in self._shards()
            for name, transaction in shard.transactions.items()
        }

    def look(self) -> None:
        """Look once; cheap enough to be done whenever time is about to pass."""
        for shard in self._shards():
            for name, transaction in shard.transactions.items():
                if self._known.get((id(shard), name)) is not transaction and self._is_wanted(
                    shard, transaction
                ):
                    self.is_reached.set()

    def _is_wanted(self, shard: TransactionCoordinatorShard, transaction: Transaction) -> bool:
        owed = shard.owed(transaction.transactional_id)
        if self._wanted == SOME_MARKERS:
            return 0 < len(owed) < len(transaction.partitions)
        if self._wanted == ALL_MARKERS:
            return transaction.is_ending and not owed and bool(transaction.partitions)
        return transaction.state.label == self._wanted

    def _shards(self) -> Iterator[TransactionCoordinatorShard]:
        current = self._host.current
        rooms = current.broker.open_rooms if self._host.is_running and current is not None else None
        if rooms is not None:
            yield from (
                led.shard
                for led in rooms.transactions.shards.led.values()
                if led.runtime is not None
            )
