"""Carries out a plan step by step: sets throttles, moves partitions, elects leaders, and cleans up.

It moves a few partitions at a time. A ``Mover`` does not wait for moves to complete: the caller
calls ``step`` until ``is_done``, and sleeps in between. If a caller stops in the middle, the
cluster completes the moves under way, throttled. ``moves_under_way`` shows them, and
``remove_throttles`` cleans up after them.
"""

from collections.abc import Iterable, Mapping, Sequence

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import (
    ConfigResource,
    ElectionType,
    ItemsFailed,
    LogDirDescription,
    Reassignment,
)
from log_service.cluster_operations.reading import ClusterState
from log_service.cluster_plans.execution import (
    DEFAULT_LIMIT,
    THROTTLED_RATES,
    THROTTLED_REPLICAS,
    PlanProgress,
    next_moves,
    progress_of,
    throttled_rates,
    throttled_replicas,
)
from log_service.cluster_plans.layout import NO_LEADER
from log_service.cluster_plans.plan import Move, Plan
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition

NOT_ELECTED = frozenset({ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE})
"""Errors of an election that are accepted at the end of a plan: the leader is already right, or the
preferred one has just died.
"""


class Mover:
    """Carries out one plan. Call ``begin`` once, ``step`` until ``is_done``, ``finish`` once."""

    def __init__(self, plan: Plan, *, limit: int = DEFAULT_LIMIT) -> None:
        self._plan = plan
        self._limit = limit
        self._waiting = list(plan.moves)
        self._moving: list[Move] = []
        self._complete: list[Move] = []

    @property
    def is_done(self) -> bool:
        """Whether every move is complete."""
        return not self._waiting and not self._moving

    @property
    def waiting(self) -> Sequence[Move]:
        """The moves that have not begun."""
        return self._waiting

    @property
    def moving(self) -> Sequence[Move]:
        """The moves that are under way."""
        return self._moving

    async def begin(self, admin: Admin) -> None:
        """Throttle the replication that the plan's moves need. Do nothing without a throttle."""
        if self._plan.throttle_bytes is None:
            return
        changes: dict[ConfigResource, dict[str, str | None]] = {}
        for broker, rates in (await self._throttled(admin)).items():
            changes[ConfigResource.broker(broker)] = dict(rates)
        for topic, replicas in throttled_replicas(self._plan.moves).items():
            changes[ConfigResource.topic(topic)] = dict(replicas)
        if changes:
            await admin.alter_configs(changes)

    async def step(self, admin: Admin) -> PlanProgress:
        """Find complete moves, begin the next ones, and return the progress of the plan.

        Raises:
            ItemsFailed: a move could not begin. Moves under way continue.
        """
        await self._note_complete(admin)
        chosen = next_moves(self._waiting, self._moving, limit=self._limit)
        if chosen:
            await admin.alter_partition_reassignments({move.where: move.after for move in chosen})
            self._waiting = [move for move in self._waiting if move not in set(chosen)]
            self._moving += chosen
            await self._note_complete(admin)
        return progress_of(self._plan.moves, self._complete, self._moving, await self._sizes(admin))

    async def _note_complete(self, admin: Admin) -> None:
        if not self._moving:
            return
        under_way = await admin.list_partition_reassignments([move.where for move in self._moving])
        self._complete += [move for move in self._moving if move.where not in under_way]
        self._moving = [move for move in self._moving if move.where in under_way]

    async def _sizes(self, admin: Admin) -> dict[tuple[Move, int], int]:
        receiving = sorted({broker for move in self._moving for broker in move.adding})
        directories = await admin.describe_log_dirs(receiving) if receiving else {}
        return {
            (move, broker): size_on(directories, broker, move.where)
            for move in self._moving
            for broker in move.adding
        }

    async def finish(self, admin: Admin) -> None:
        """Elect the leaders that the plan wants, and remove the throttles."""
        if self._plan.elections:
            await elect_preferred(admin, self._plan.elections)
        if self._plan.throttle_bytes is not None:
            await remove_throttles(
                admin,
                brokers=await self._throttled(admin),
                topics=throttled_replicas(self._plan.moves),
            )

    async def _throttled(self, admin: Admin) -> dict[int, dict[str, str]]:
        """Return the throttle configs of each broker that serves.

        A broker that is down is left out, because only a running broker takes its configs.
        """
        rates = throttled_rates(self._plan.moves, self._plan.throttle_bytes or 0)
        serving = {node.node_id for node in (await admin.describe_cluster()).nodes}
        return {broker: rates[broker] for broker in rates if broker in serving}

    async def problems(self, admin: Admin) -> list[str]:
        """Return a sentence for each complete move whose replicas differ from the plan."""
        topics = sorted({move.where.topic for move in self._complete})
        described = await admin.describe_topics(topics) if topics else {}
        problems = []
        for move in self._complete:
            replicas = described[move.where.topic].partitions[move.where.partition].replicas
            if replicas != move.after:
                wanted, found = (",".join(map(str, each)) for each in (move.after, replicas))
                problems.append(
                    f"{move.where} is on {found} and not on {wanted}: its move was taken back or"
                    " changed meanwhile"
                )
        return problems


def size_on(
    directories: Mapping[int, Mapping[str, LogDirDescription]], broker: int, where: TopicPartition
) -> int:
    """Return the size of a broker's replica of a partition in bytes, or 0 if none is reported."""
    found = (directory.replicas.get(where) for directory in directories.get(broker, {}).values())
    return max((replica.size_bytes for replica in found if replica is not None), default=0)


async def elect_preferred(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> set[TopicPartition]:
    """Elect the preferred leaders of partitions, and return the partitions whose leader changed.

    A partition whose preferred leader cannot lead now keeps its leader.

    Raises:
        ItemsFailed: an election failed for another reason.
    """
    try:
        return set(await admin.elect_leaders(list(partitions), ElectionType.PREFERRED))
    except ItemsFailed as error:
        if any(each.code not in NOT_ELECTED for each in error.errors.values()):
            raise
        return set(error.results)


# Moves that somebody began


async def moves_under_way(
    admin: Admin, partitions: Sequence[TopicPartition] | None = None
) -> list[tuple[Move, int]]:
    """Return each move that is under way, with the number of bytes that have arrived.

    ``partitions`` None means those of the whole cluster.
    """
    moving = await admin.list_partition_reassignments(partitions)
    if not moving:
        return []
    directories = await admin.describe_log_dirs()
    described = await admin.describe_topics(sorted({where.topic for where in moving}))
    found = []
    for where, reassignment in sorted(moving.items()):
        leader = described[where.topic].partitions[where.partition].leader
        size = max((size_on(directories, broker, where) for broker in directories), default=0)
        move = move_of(where, reassignment, size_bytes=size, leader=leader)
        arrived = sum(
            size_on(directories, broker, where) for broker in reassignment.adding_replicas
        )
        found.append((move, arrived))
    return found


def move_of(
    where: TopicPartition, reassignment: Reassignment, *, size_bytes: int, leader: int
) -> Move:
    """Convert a reassignment that is under way to a move."""
    return Move(
        where=where,
        before=tuple(
            each for each in reassignment.replicas if each not in reassignment.adding_replicas
        ),
        after=tuple(
            each for each in reassignment.replicas if each not in reassignment.removing_replicas
        ),
        size_bytes=size_bytes,
        source=leader,
    )


async def take_back(admin: Admin, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Cancel moves, and return the partitions whose moves were still under way.

    It is not an error if a move has completed meanwhile.

    Raises:
        ItemsFailed: a move cannot be cancelled.
    """
    wanted = list(partitions)
    try:
        await admin.alter_partition_reassignments(dict.fromkeys(wanted))
    except ItemsFailed as error:
        if any(
            each.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS for each in error.errors.values()
        ):
            raise
        return set(wanted) - set(error.errors)
    return set(wanted)


# Throttles


async def throttled_brokers(admin: Admin, brokers: Iterable[int]) -> list[int]:
    """Return the brokers that have a replication throttle of their own, as moves set it."""
    found = await admin.describe_configs([ConfigResource.broker(broker) for broker in brokers])
    return sorted(
        int(resource.name)
        for resource, entries in found.items()
        if any(
            name in entries and entries[name].source == "DYNAMIC_BROKER_CONFIG"
            for name in THROTTLED_RATES
        )
    )


async def throttled_topics(admin: Admin, topics: Sequence[str]) -> list[str]:
    """Return the topics whose configs name throttled replicas."""
    found = (
        await admin.describe_configs([ConfigResource.topic(topic) for topic in topics])
        if topics
        else {}
    )
    return sorted(
        resource.name
        for resource, entries in found.items()
        if any(
            name in entries and entries[name].source == "DYNAMIC_TOPIC_CONFIG"
            for name in THROTTLED_REPLICAS
        )
    )


async def brokers_left_throttled(admin: Admin, state: ClusterState) -> list[int]:
    """Return the brokers whose replication throttle has an effect.

    They have a rate, and a topic names throttled replicas. Call this function after all else was
    read. It returns no brokers if the quorum has no leader or a request fails, because a broker
    that responded before may be down by now.
    """
    if state.quorum.leader_id == NO_LEADER:
        return []
    try:
        throttled = await throttled_brokers(
            admin, [each for each in state.layout.active if each not in state.silent]
        )
        topics = (
            [topic.name for topic in await admin.list_topics(is_internal_included=True)]
            if throttled
            else []
        )
        return throttled if await throttled_topics(admin, topics) else []
    except KafkaError:
        return []


async def remove_throttles(admin: Admin, *, brokers: Iterable[int], topics: Iterable[str]) -> None:
    """Remove replication throttles from brokers and topics."""
    changes: dict[ConfigResource, dict[str, str | None]] = {}
    changes |= {ConfigResource.broker(broker): dict.fromkeys(THROTTLED_RATES) for broker in brokers}
    changes |= {ConfigResource.topic(topic): dict.fromkeys(THROTTLED_REPLICAS) for topic in topics}
    if changes:
        await admin.alter_configs(changes)
