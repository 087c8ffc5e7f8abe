"""Chooses the moves of a plan that may start now and their throttles, and counts the progress.

The caller carries the moves out. This module reads no clock and sends no request.

A broker takes part in at most ``limit`` copies at once, sent and received ones counted together. So
a plan of thousands of moves leaves the cluster to its clients, and stopping it half-way leaves
little under way. Moves that copy nothing (another order, fewer replicas) are not counted.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from log_service.cluster_plans.plan import Move

DEFAULT_LIMIT = 5
"""Copies that a broker takes part in at once. They keep a disk busy, and end soon after a stop."""
MAX_BATCH = 500
"""The most moves that one request begins."""

LEADER_REPLICAS, FOLLOWER_REPLICAS = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
LEADER_RATE, FOLLOWER_RATE = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
THROTTLED_REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)
THROTTLED_RATES = (LEADER_RATE, FOLLOWER_RATE)


def next_moves(
    waiting: Sequence[Move], moving: Iterable[Move], *, limit: int = DEFAULT_LIMIT
) -> list[Move]:
    """Return the waiting moves that may start in addition to those under way, in their order.

    If no move is under way, at least one may start, however small the limit is.
    """
    busy: dict[int, int] = {}
    for move in moving:
        for broker in _taking_part(move):
            busy[broker] = busy.get(broker, 0) + 1
    chosen: list[Move] = []
    for move in waiting:
        brokers = _taking_part(move)
        is_free = all(busy.get(broker, 0) < limit for broker in brokers)
        if not is_free and (busy or chosen):
            continue
        for broker in brokers:
            busy[broker] = busy.get(broker, 0) + 1
        chosen.append(move)
        if len(chosen) == MAX_BATCH:
            break
    return chosen


def _taking_part(move: Move) -> list[int]:
    return [*move.adding, move.source] if move.adding else []


def throttled_replicas(moves: Iterable[Move]) -> dict[str, dict[str, str]]:
    """Return the configs by topic that throttle only the copies of these moves (KIP-73).

    They name the replicas that send, and those that receive.
    """
    sending: dict[str, list[str]] = {}
    receiving: dict[str, list[str]] = {}
    for move in moves:
        if move.adding:
            topic, partition = move.where
            sending.setdefault(topic, []).extend(f"{partition}:{broker}" for broker in move.before)
            receiving.setdefault(topic, []).extend(
                f"{partition}:{broker}" for broker in move.adding
            )
    return {
        topic: {
            LEADER_REPLICAS: ",".join(sending[topic]),
            FOLLOWER_REPLICAS: ",".join(receiving[topic]),
        }
        for topic in sending
    }


def throttled_rates(moves: Iterable[Move], throttle_bytes: int) -> dict[int, dict[str, str]]:
    """Return each broker's configs that limit throttled replication, in bytes a second each way."""
    brokers = {broker for move in moves if move.adding for broker in (*move.before, *move.after)}
    return {
        broker: dict.fromkeys(THROTTLED_RATES, str(throttle_bytes)) for broker in sorted(brokers)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanProgress:
    """The progress of a plan.

    ``copied_bytes`` counts complete moves in full, and the arrived bytes of moves under way.
    """

    complete: int
    moving: int
    waiting: int
    copied_bytes: int
    total_bytes: int

    @property
    def total(self) -> int:
        """The number of moves."""
        return self.complete + self.moving + self.waiting


def progress_of(
    moves: Sequence[Move],
    complete: Collection[Move],
    moving: Collection[Move],
    sizes: Mapping[tuple[Move, int], int],
) -> PlanProgress:
    """Return the progress of a plan's moves.

    ``sizes`` has the bytes that have arrived, by move and by broker that gets a replica.
    """
    arrived = sum(
        min(sizes.get((move, broker), 0), move.size_bytes)
        for move in moving
        for broker in move.adding
    )
    return PlanProgress(
        complete=len(complete),
        moving=len(moving),
        waiting=len(moves) - len(complete) - len(moving),
        copied_bytes=sum(move.copied_bytes for move in complete) + arrived,
        total_bytes=sum(move.copied_bytes for move in moves),
    )
