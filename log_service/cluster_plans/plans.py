"""Makes plans that even out a cluster, fill new brokers, empty brokers, or change topics.

All of them put replicas only on registered brokers that serve and are not cordoned, spread each
partition over as many racks as possible, and copy no more than needed:

- ``rebalance``: replicas and preferred leaders per broker differ by one at most (as far as racks
  allow); with ``byte_tolerance`` bytes are evened out, too.
- ``add``: only the new brokers receive anything, until they have their share.
- ``drain``: only replicas on the leaving brokers move.
- ``change_topics``: another replication factor, or a set of brokers, for topics.

Replicas on an observer stay there in every plan that does not empty it or name other brokers,
because an operator put them there. An observer gets no further replicas unless it is named, and is
not a preferred leader, because it is never in sync.

A cordoned broker keeps its replicas and leaderships, and gets no new ones, even if the operator
names it (KIP-1066). If that leaves too few brokers, the refusal or a note says so.

A partition without a leader cannot be copied from anywhere, so it is left out, and a note says so.
Nothing is planned while replicas move already, or while brokers are down that are not to leave,
because the plan would be wrong once the moves are complete or the brokers are back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from log_service.cluster_plans.byte_swaps import even_bytes
from log_service.cluster_plans.layout import (
    NO_LEADER,
    ClusterLayout,
    PartitionLayout,
    PlanRefused,
    why_cordoned,
)
from log_service.cluster_plans.placement import Item, Placement
from log_service.cluster_plans.plan import Move, Plan
from log_service.common.topic_names import INTERNAL_TOPICS
from log_service.common.types import TopicPartition


def rebalance(
    layout: ClusterLayout, *, throttle_bytes: int | None = None, byte_tolerance: float | None = None
) -> Plan:
    """Plan even counts of replicas and leaders on all brokers.

    Raises:
        PlanRefused: replicas move already, or a broker that has replicas is fenced.
    """
    _refuse_while_moving(layout)
    holding = {broker for partition in layout.partitions for broker in partition.replicas}
    down = [broker for broker in layout.fenced if broker in holding]
    if down:
        raise PlanRefused(
            f"{_brokers(down)} down: start {_it(down)} first, or empty {_it(down)} with: tidelog"
            " cluster drain"
        )
    arranging = _Arranging(
        layout=layout,
        partitions=_movable(layout),
        keepers=layout.active,
        receivers=layout.receiving,
        is_counts_first=True,
        leading=layout.cordoned,
    )
    after = arranging.replicas({}, is_repairing=True, byte_tolerance=byte_tolerance)
    return _noting(
        _plan(layout, arranging.with_leaders(after), throttle_bytes, is_electing_all=True),
        _notes_on(layout, layout.cordoned),
    )


def add(layout: ClusterLayout, new: Collection[int], *, throttle_bytes: int | None = None) -> Plan:
    """Plan replicas for new brokers.

    They get replicas from the brokers with the most, until no other broker has two more than a new
    one.

    Raises:
        PlanRefused: replicas move already, or a new broker is unknown, fenced, cordoned, or an
            observer.
    """
    _refuse_while_moving(layout)
    _require_active(layout, new)
    _refuse_observers(layout, new)
    for broker in new:
        if broker in layout.cordoned:
            raise PlanRefused(
                f"nothing can be put on broker {broker}: {why_cordoned(layout.broker(broker))}"
            )
    arranging = _Arranging(
        layout=layout,
        partitions=_movable(layout),
        keepers=layout.active,
        receivers=sorted(new),
        is_counts_first=True,
    )
    return _plan(
        layout, arranging.with_leaders(arranging.replicas({}, is_repairing=False)), throttle_bytes
    )


def drain(
    layout: ClusterLayout, leaving: Collection[int], *, throttle_bytes: int | None = None
) -> Plan:
    """Plan moves of all replicas off brokers, which may be down. No other replica moves.

    Raises:
        PlanRefused: replicas move already, a broker is unknown, or too few brokers would be left
            for a topic's replication factor.
    """
    for broker in sorted(leaving):
        layout.broker(broker)
    _refuse_while_moving(layout)
    staying = [broker for broker in layout.receiving if broker not in leaving]
    cordoned = [broker for broker in layout.cordoned if broker not in leaving]
    affected = [
        partition for partition in _movable(layout) if set(partition.replicas) & set(leaving)
    ]
    if not staying and (affected or not cordoned):
        why = "; ".join(_notes_on(layout, cordoned)) or "the last one cannot be emptied"
        raise PlanRefused(
            f"no broker would be left beside {', '.join(map(str, sorted(leaving)))}: {why}"
        )
    _require_enough(
        layout,
        affected,
        {},
        staying,
        observers=layout.observers.difference(leaving),
        cordoned=cordoned,
    )
    keepers = [broker.broker_id for broker in layout.brokers if broker.broker_id not in leaving]
    arranging = _Arranging(
        layout=layout,
        partitions=affected,
        keepers=keepers,
        receivers=staying,
        is_counts_first=False,
    )
    return _plan(
        layout, arranging.with_leaders(arranging.replicas({}, is_repairing=False)), throttle_bytes
    )


def change_topics(
    layout: ClusterLayout,
    topics: Collection[str],
    *,
    replication_factor: int | None = None,
    brokers: Sequence[int] = (),
    throttle_bytes: int | None = None,
) -> Plan:
    """Plan another replication factor of topics, replicas on ``brokers`` only, or both.

    Raises:
        PlanRefused: a topic or broker is unknown, a broker is fenced, the factor is larger than the
            cluster, or replicas move already.
    """
    known = layout.topics()
    for topic in topics:
        if topic not in known:
            raise PlanRefused(f"there is no topic {topic}")
    _require_active(layout, brokers)
    _refuse_while_moving(layout, topics)
    cordoned = [broker for broker in layout.cordoned if not brokers or broker in brokers]
    receivers = (
        [broker for broker in dict.fromkeys(brokers) if broker not in cordoned]
        if brokers
        else list(layout.receiving)
    )
    affected = [partition for partition in _movable(layout) if partition.where.topic in set(topics)]
    factors = {
        partition.where: replication_factor or len(partition.replicas) for partition in affected
    }
    _require_enough(
        layout,
        affected,
        factors,
        receivers,
        observers=frozenset() if brokers else layout.observers,
        cordoned=cordoned,
    )
    keepers = (
        list(dict.fromkeys(brokers)) if brokers else [broker.broker_id for broker in layout.brokers]
    )
    arranging = _Arranging(
        layout=layout,
        partitions=affected,
        keepers=keepers,
        receivers=receivers,
        is_counts_first=False,
    )
    return _plan(
        layout,
        arranging.with_leaders(arranging.replicas(factors, is_repairing=bool(brokers))),
        throttle_bytes,
    )


def raise_internal_factors(
    layout: ClusterLayout, factor: int, *, throttle_bytes: int | None = None
) -> Plan:
    """Plan at least ``factor`` replicas for internal topics, or as many as can be in sync.

    Raises:
        PlanRefused: replicas of an internal topic move already.
    """
    wanted = min(factor, len(layout.receiving))
    internal = [
        each
        for each in layout.partitions
        if each.where.topic in INTERNAL_TOPICS and each.leader != NO_LEADER
    ]
    low = sorted({each.where.topic for each in internal if len(each.replicas) < wanted})
    left_out = [broker for broker in layout.cordoned if broker not in layout.observers]
    is_lowered = wanted < min(factor, len(layout.receiving) + len(left_out))
    notes = (
        _notes_on(layout, left_out)
        if is_lowered and any(len(each.replicas) < factor for each in internal)
        else []
    )
    if not low:
        return Plan(moves=(), notes=tuple(notes))
    plan = change_topics(layout, low, replication_factor=wanted, throttle_bytes=throttle_bytes)
    note = (
        f"more replicas, {wanted} each: {', '.join(low)}; min.insync.replicas stays as it is:"
        " tidelog configs describe --topic NAME"
    )
    return _noting(plan, [note, *notes])


def join(
    layout: ClusterLayout,
    new: Collection[int],
    internal_factor: int,
    *,
    throttle_bytes: int | None = None,
) -> Plan:
    """Plan for brokers that have joined: more replicas of internal topics, then their share of all.

    If ``new`` is empty, the new brokers are all that serve and have no replicas, except observers
    and cordoned brokers.

    Raises:
        PlanRefused: a broker is unknown, fenced, cordoned or an observer, or replicas move already.
    """
    holding = {broker for partition in layout.partitions for broker in partition.replicas}
    joining = list(new) or [broker for broker in layout.receiving if broker not in holding]
    raised = raise_internal_factors(layout, internal_factor, throttle_bytes=throttle_bytes)
    if not new:
        raised = _noting(
            raised,
            _notes_on(
                layout,
                [
                    each
                    for each in layout.cordoned
                    if each not in holding and each not in layout.observers
                ],
            ),
        )
    if not joining:
        return raised
    return followed_by(
        layout, raised, lambda between: add(between, joining, throttle_bytes=throttle_bytes)
    )


def followed_by(
    layout: ClusterLayout, first: Plan, plan_next: Callable[[ClusterLayout], Plan]
) -> Plan:
    """Return one plan that does the work of two: ``first``, and the plan of ``plan_next``.

    ``plan_next`` gets the layout that the first plan leads to.
    """
    changed = {move.where: move for move in first.moves}
    between = replace(
        layout,
        partitions=tuple(
            (
                replace(each, replicas=changed[each.where].after, isr=changed[each.where].after)
                if each.where in changed
                else each
            )
            for each in layout.partitions
        ),
    )
    second = plan_next(between)
    moves = dict(changed)
    for move in second.moves:
        before = changed[move.where].before if move.where in changed else move.before
        moves[move.where] = replace(move, before=before)
    by_name = {each.where: each for each in layout.partitions}
    return Plan(
        moves=tuple(move for where, move in sorted(moves.items()) if move.before != move.after),
        elections=tuple(
            where
            for where in sorted({*first.elections, *second.elections})
            if where not in moves or by_name[where].leader != moves[where].after[0]
        ),
        notes=tuple(dict.fromkeys([*first.notes, *second.notes])),
        throttle_bytes=(
            second.throttle_bytes if first.throttle_bytes is None else first.throttle_bytes
        ),
    )


def lack_of_room(layout: ClusterLayout, plan: Plan) -> list[str]:
    """Return a sentence for each broker that would get more bytes than its disk has room for.

    Brokers that do not report their room are left out.
    """
    found = []
    for broker in layout.brokers:
        received = plan.received_bytes.get(broker.broker_id, 0)
        rooms = [
            directory.usable_bytes
            for directory in broker.log_dirs
            if directory.is_online and not directory.is_cordoned
        ]
        if rooms and min(rooms) >= 0 and received > sum(rooms):
            found.append(
                f"broker {broker.broker_id} has room for {sum(rooms):,} bytes and would get"
                f" {received:,}"
            )
    return found


# What is refused


def _refuse_while_moving(layout: ClusterLayout, topics: Collection[str] | None = None) -> None:
    moving = [
        each.where
        for each in layout.partitions
        if each.is_moving and (topics is None or each.where.topic in topics)
    ]
    if moving:
        others = f" and {len(moving) - 1} more" if len(moving) > 1 else ""
        raise PlanRefused(
            f"{moving[0]}{others} already on the way to other brokers; see: tidelog cluster watch,"
            " tidelog cluster cancel"
        )


def _require_active(layout: ClusterLayout, brokers: Iterable[int]) -> None:
    for broker in brokers:
        if layout.broker(broker).is_fenced:
            raise PlanRefused(
                f"broker {broker} is fenced, which is to say down or not ready: nothing can be put"
                " on it"
            )


def _refuse_observers(layout: ClusterLayout, brokers: Iterable[int]) -> None:
    for broker in brokers:
        if broker in layout.observers:
            raise PlanRefused(
                f"broker {broker} is an observer: its replicas are never in sync, so it takes no"
                " share of the others; give it replicas with a plan file, or make a broker of it"
                f" with: tidelog configs unset tidelog.observer --broker {broker}"
            )


def _require_enough(
    layout: ClusterLayout,
    partitions: Iterable[PartitionLayout],
    factors: Mapping[TopicPartition, int],
    receivers: Collection[int],
    *,
    observers: Collection[int],
    cordoned: Collection[int],
) -> None:
    """Refuse partitions for which there are too few brokers.

    A partition can use ``receivers``, and those of ``observers`` and ``cordoned`` that have one of
    its replicas already.

    Raises:
        PlanRefused: a partition needs more brokers than it can use.
    """
    for partition in partitions:
        factor = factors.get(partition.where, len(partition.replicas))
        broker_count = len(
            {
                *receivers,
                *(
                    broker
                    for broker in partition.replicas
                    if broker in observers or broker in cordoned
                ),
            }
        )
        if factor > broker_count:
            is_are = "broker is" if broker_count == 1 else "brokers are"
            text = (
                f"{partition.where.topic} is to have {factor} replicas, and only {broker_count}"
                f" {is_are} there for them"
            )
            others = [
                broker
                for broker in cordoned
                if broker not in partition.replicas and broker not in observers
            ]
            raise PlanRefused("; ".join([text, *_notes_on(layout, others)]))


def _notes_on(layout: ClusterLayout, cordoned: Iterable[int]) -> list[str]:
    """Return a sentence for each cordoned broker that gets no new replicas, with the reason."""
    return [
        f"nothing new is put on broker {broker}: {why_cordoned(layout.broker(broker))}"
        for broker in cordoned
    ]


def _noting(plan: Plan, notes: Iterable[str]) -> Plan:
    return replace(plan, notes=tuple(dict.fromkeys([*plan.notes, *notes])))


def _brokers(ids: Sequence[int]) -> str:
    return f"broker {ids[0]} is" if len(ids) == 1 else f"brokers {', '.join(map(str, ids))} are"


def _it(ids: Sequence[int]) -> str:
    return "it" if len(ids) == 1 else "them"


# How replicas are arranged


def _movable(layout: ClusterLayout) -> list[PartitionLayout]:
    return [partition for partition in layout.partitions if partition.leader != NO_LEADER]


@dataclass(frozen=True, kw_only=True)
class _Arranging:
    """Arranges the replicas and leaders of ``partitions``. Other partitions stay as they are.

    Only ``keepers`` may keep their replicas, and only ``receivers`` may get new ones. Receivers and
    ``leading`` brokers may become leaders of their own replicas.
    """

    layout: ClusterLayout
    partitions: Sequence[PartitionLayout]
    keepers: Sequence[int]
    receivers: Sequence[int]
    is_counts_first: bool
    leading: Sequence[int] = ()

    def replicas(
        self,
        factors: Mapping[TopicPartition, int],
        *,
        is_repairing: bool,
        byte_tolerance: float | None = None,
    ) -> list[frozenset[int]]:
        """Choose the brokers of each partition.

        With ``is_repairing``, a partition on fewer racks than possible is spread over more.
        """
        racks = self.layout.racks(self.keepers)
        observers = self.layout.observers
        receiving = {racks[broker] for broker in self.receivers}
        items, kept, least_racks, pinned = [], [], [], []
        for partition in self.partitions:
            wanted = factors.get(partition.where, len(partition.replicas))
            original = [broker for broker in partition.replicas if broker in racks]
            in_sync = [broker for broker in original if broker in partition.isr]
            if len(in_sync) >= wanted:
                original = in_sync
            original.sort(key=lambda broker: broker not in observers)
            covered = {racks[broker] for broker in original}
            reachable = len(covered) + min(max(wanted - len(original), 0), len(receiving - covered))
            least_racks.append(min(wanted, len(receiving | covered) if is_repairing else reachable))
            kept.append(_kept(original, wanted, least_racks[-1], racks))
            pinned.append(observers.intersection(kept[-1]))
            items.append(
                Item(
                    topic=partition.where.topic,
                    original=frozenset(original),
                    wanted=wanted,
                    size_bytes=partition.size_bytes,
                )
            )

        def is_legal(index: int, hosts: Collection[int], lacking: int) -> bool:
            return (
                pinned[index].issubset(hosts)
                and len({racks[host] for host in hosts}) + lacking >= least_racks[index]
            )

        placement = Placement(
            items,
            kept,
            hosts=self.keepers,
            receivers=self.receivers,
            is_legal=is_legal,
            is_counts_first=self.is_counts_first,
            loads=self._others(lambda partition: partition.replicas),
        )
        placed = placement.solve()
        if byte_tolerance is None:
            return placed
        return even_bytes(
            items,
            placed,
            self.receivers,
            tolerance=byte_tolerance,
            is_allowed=lambda index, hosts: is_legal(index, hosts, 0),
        )

    def with_leaders(
        self, placed: Sequence[frozenset[int]]
    ) -> list[tuple[PartitionLayout, tuple[int, ...]]]:
        """Return each partition with its replicas in order, the preferred leader first.

        Preferred leaders are spread evenly, with as few changes as that needs.
        """
        items = [
            Item(topic=each.where.topic, original=frozenset(each.replicas[:1]) & hosts, wanted=1)
            for each, hosts in zip(self.partitions, placed, strict=True)
        ]
        choices = [
            self._choice(each, hosts) for each, hosts in zip(self.partitions, placed, strict=True)
        ]
        kept = [item.original & choice for item, choice in zip(items, choices, strict=True)]
        leaders = Placement(
            items,
            kept,
            hosts=self.keepers,
            receivers=self.keepers,
            is_legal=lambda index, hosts, _lacking: set(hosts) <= choices[index],
            is_counts_first=self.is_counts_first,
            loads=self._others(lambda partition: partition.replicas[:1]),
        ).solve()
        return [
            (partition, _ordered(partition.replicas, hosts, next(iter(leader))))
            for partition, hosts, leader in zip(self.partitions, placed, leaders, strict=True)
        ]

    def _choice(self, partition: PartitionLayout, hosts: frozenset[int]) -> frozenset[int]:
        """Return the brokers that may become the preferred leader of a partition.

        Only brokers that serve are candidates, unless none of its replicas' brokers serves, and
        observers only if there are no others. If counts come first and the replicas do not move,
        they are limited to the present preferred leader, receivers and leading brokers, as long as
        one of these is a candidate.
        """
        serving = hosts.intersection(self.layout.active) or hosts
        able = serving - self.layout.observers or serving
        if not self.is_counts_first or serving != set(partition.replicas):
            return able
        return able & {*self.receivers, *self.leading, *partition.replicas[:1]} or able

    def _others(self, brokers_of: Callable[[PartitionLayout], Sequence[int]]) -> dict[int, int]:
        """Return how many of the partitions that are not arranged count for each broker.

        ``brokers_of`` returns the brokers for which a partition counts.
        """
        arranged = {partition.where for partition in self.partitions}
        loads = dict.fromkeys(self.keepers, 0)
        for partition in self.layout.partitions:
            if partition.where not in arranged:
                for broker in brokers_of(partition):
                    if broker in loads:
                        loads[broker] += 1
        return loads


def _kept(
    original: Sequence[int], wanted: int, least_racks: int, racks: Mapping[int, str]
) -> list[int]:
    """Return the replicas that stay: at most ``wanted``, and spread over racks first.

    Room is left for new replicas on other racks until there are ``least_racks``.
    """
    first_of_rack = list({racks[broker]: broker for broker in reversed(original)}.values())
    first_of_rack.sort(key=original.index)
    kept = first_of_rack[:wanted]
    room = wanted - max(least_racks - len(kept), 0) - len(kept)
    return kept + [broker for broker in original if broker not in first_of_rack][: max(room, 0)]


def _ordered(before: Sequence[int], hosts: Collection[int], leader: int) -> tuple[int, ...]:
    """Return hosts with the leader first, then the present replicas, then new ones."""
    staying = [broker for broker in before if broker in hosts]
    return tuple(dict.fromkeys([leader, *staying, *sorted(hosts)]))


def _plan(
    layout: ClusterLayout,
    arranged: Sequence[tuple[PartitionLayout, tuple[int, ...]]],
    throttle_bytes: int | None,
    *,
    is_electing_all: bool = False,
) -> Plan:
    moves = [
        Move(
            where=each.where,
            before=each.replicas,
            after=after,
            size_bytes=each.size_bytes,
            source=each.leader,
        )
        for each, after in arranged
        if after != each.replicas
    ]
    elections = [
        each.where
        for each, after in arranged
        if each.leader != after[0]
        and each.leader in after
        and (is_electing_all or after != each.replicas)
    ]
    without = [partition.where for partition in layout.partitions if partition.leader == NO_LEADER]
    notes = [
        f"{where} has no leader, so nothing can be copied from it: it stays where it is"
        for where in without
    ]
    return Plan(
        moves=tuple(moves),
        elections=tuple(elections),
        notes=tuple(notes),
        throttle_bytes=throttle_bytes,
    )
