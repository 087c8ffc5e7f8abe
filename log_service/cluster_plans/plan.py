"""A plan names the partitions to change and the bytes to copy.

With a throttle it also says how long the copying takes.
"""

from dataclasses import dataclass
from functools import cached_property

from log_service.common.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition's replicas before and after the move, each with the preferred leader first.

    ``size_bytes`` is the size of one replica. ``source`` is the leader, which sends the copies.
    """

    where: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int = 0
    source: int = -1

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """The brokers that lose their replica."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def copied_bytes(self) -> int:
        """The bytes that this move copies between brokers."""
        return self.size_bytes * len(self.adding)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The moves of replicas, and the partitions whose preferred leader is elected after them.

    ``notes`` tell what the plan leaves out and why. ``throttle_bytes`` limits the bytes per second
    that each broker sends for the moves, and those that it receives. None means no limit.
    """

    moves: tuple[Move, ...]
    elections: tuple[TopicPartition, ...] = ()
    notes: tuple[str, ...] = ()
    throttle_bytes: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.moves and not self.elections

    @property
    def copied_bytes(self) -> int:
        """The bytes that all moves together copy between brokers."""
        return sum(move.copied_bytes for move in self.moves)

    @property
    def copied_replicas(self) -> int:
        """The number of replicas that are copied."""
        return sum(len(move.adding) for move in self.moves)

    @cached_property
    def received_bytes(self) -> dict[int, int]:
        """The bytes that each broker receives."""
        received: dict[int, int] = {}
        for move in self.moves:
            for broker in move.adding:
                received[broker] = received.get(broker, 0) + move.size_bytes
        return received

    @cached_property
    def sent_bytes(self) -> dict[int, int]:
        """The bytes that each broker sends."""
        sent: dict[int, int] = {}
        for move in self.moves:
            if move.adding:
                sent[move.source] = sent.get(move.source, 0) + move.copied_bytes
        return sent

    @property
    def expected_seconds(self) -> float | None:
        """The least time that the copying takes: the busiest broker's bytes at the throttle.

        None without a throttle.
        """
        if self.throttle_bytes is None:
            return None
        busiest = max([*self.received_bytes.values(), *self.sent_bytes.values()], default=0)
        return busiest / self.throttle_bytes
