"""Draws the plan that one seed plays with a cluster.

It has the nodes with their roles, racks and voters, the topics, the clients and the faults.

Decides everything by drawing from the seed's own generator, as ``node_plan`` does for one node,
whose ``Plan`` this one extends.

What is promised, and under which faults (``TopicPlan.is_synced`` is what the checker goes by):

* ``is_all_synced``: every replica syncs a record before it counts (``flush.messages=1``). Then an
  acknowledged record of a topic with three replicas and ``min.insync.replicas=2`` survives every
  death of every node, several losses of power at once among them; so does one of a topic with one
  replica.
* Otherwise logs are in the page cache. A record that two of three replicas have survives every kill
  of processes, all at once too, and the loss of power of one machine: the next one may lose power
  only once every partition has all of its replicas in sync again. A record of a topic with one
  replica survives kills alone.
* ``acks=1`` promises nothing where there are several replicas: the leader may die before another
  has the record. A topic with one replica has several while it is moved, and the last records,
  which only the old leader has, go with it.
* The metadata is always synced: a change that was acknowledged stays, as long as no majority of the
  voters loses its disk.

* Where unsynced records or a whole disk may be lost, the cluster keeps eligible leader replicas
  (KIP-966). Without them the last in-sync replica is elected again after any death, whatever its
  machine has lost meanwhile ("last replica standing"), as in Apache Kafka.
* A machine may lose a disk, or one of two log directories, where every partition has several
  replicas, all of them in sync, and all controllers are voters: what is on it is on others. The
  voters of a configuration keep theirs: nobody can tell the others that such a voter has forgotten
  its votes.

``Allowance`` in ``cluster_faults`` keeps the adversaries within this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from log_service.metadata.features import TRANSACTION_VERSION_LEVEL
from tests.sim.node_history import TopicPlan
from tests.sim.node_host import DATA_DIRECTORIES, Death, node_config
from tests.sim.node_plan import Fault, NodePlan, Plan, draw_weather

CONTROLLER_PORT = 9093
MARGIN_SECONDS = 10.0
"""For what disks and links that are slow for good take in a seed: syncs of up to a second each, in
a registration and two elections.
"""
CLUSTER_ID = "cluster-in-virtual-time"
COMMON = (Fault.RESET, Fault.WEATHER, Fault.SLOW_DISK, Fault.SLOW_LINK, Fault.ONE_WAY_CUT)
DEADLY = (
    Fault.DIE,
    Fault.DIE,
    Fault.DIE_AT_OPERATION,
    Fault.DIE_WHILE_STARTING,
    Fault.STOP,
    Fault.DIE_WHILE_STOPPING,
)
BETWEEN_NODES = (Fault.SPLIT, Fault.SPLIT, Fault.SLOW_PEER, Fault.PAUSE, Fault.SEVERAL_DIE)
OF_CLUSTERS = (Fault.NEW_LEADER_DIES, Fault.RESET_WHILE_WAITING, Fault.REFUSED)
OTHER = (Fault.CUT, Fault.CLIENT_DIES, Fault.FAILED_SYNC, Fault.CLOCK_JUMP, Fault.RESET_PEER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan(Plan):
    """One seed's mix for a cluster. ``reassigner_count`` clients move partitions and elect leaders
    while faults strike.

    ``voter_changer_count`` clients take voters out of the quorum and put them back.
    ``has_eligible_leaders``: the metadata keep eligible leader replicas. ``client_racks`` are where
    consumers may stand, the empty one among them. ``skews_ms`` are how much the nodes' wall clocks
    differ at first.

    ``copier_count`` clients copy the first topic exactly once, ``writer_count`` write in
    transactions of their own, of which ``late_fraction`` may take longer than
    ``transaction_timeout_seconds``; ``usurper_count`` take the places of copiers that live, and
    ``hang_fraction`` of a copier's transactions hang, twice; ``committed_reader_count`` read what
    is committed of all that. ``transaction_level`` is that of transaction.version.
    ``queue_worker_count`` members of a share group take from the first topic.
    ``streams_member_count`` instances of a Kafka Streams application read it, and take one of
    ``closing_seconds`` to give a task up. Each life of a member speaks one of ``group_protocols``;
    ``most_once_count`` members of a third group commit first and work then.
    ``unclean_elector_count`` clients elect leaders uncleanly, of the topics where that may be,
    whenever a partition has none. The brokers ``late_names`` join the cluster while it runs;
    ``grower_count`` clients give those that have joined their share, and empty brokers again, by
    the plans of ``tidelog cluster``. For each use of a user's quota ``metered_count`` clients share
    it. ``is_secure``: nodes and clients log in, ACLs say who may do what, and both change while
    faults strike.

    ``is_all_synced``: see the module. ``session_seconds`` is how long a silent broker counts as
    alive, ``election_seconds`` how long a voter waits for its leader, and then for votes, at most.
    """

    is_all_synced: bool
    are_voters_dynamic: bool
    reassigner_count: int
    session_seconds: float
    election_seconds: float
    voter_changer_count: int
    has_eligible_leaders: bool
    client_racks: tuple[str, ...]
    skews_ms: tuple[int, ...]
    copier_count: int = 0
    writer_count: int = 0
    usurper_count: int = 0
    committed_reader_count: int = 0
    transaction_level: int = TRANSACTION_VERSION_LEVEL
    transaction_timeout_seconds: float = 10.0
    late_fraction: float = 0.0
    queue_worker_count: int = 0
    streams_member_count: int = 0
    closing_seconds: tuple[float, ...] = (0.0, 0.0, 0.1, 0.4)
    group_protocols: tuple[str, ...] = ("classic",)
    most_once_count: int = 0
    unclean_elector_count: int = 0
    late_names: tuple[str, ...] = ()
    grower_count: int = 0
    metered_count: int = 0
    hang_fraction: float = 0.0
    is_secure: bool = False
    aim: str = ""

    @property
    def brokers(self) -> tuple[NodePlan, ...]:
        """The nodes that hold partitions."""
        return tuple(node for node in self.nodes if node.config.listeners)

    @property
    def service_limit_seconds(self) -> float:
        """Return the seconds within which a partition is served again.

        They cover a session, an election of the quorum that fails once, and a replica that catches
        up.
        """
        return 2 * self.session_seconds + 2 * self.election_seconds + MARGIN_SECONDS

    @property
    def failover_limit_seconds(self) -> float:
        """Return the seconds within which the controller moves partitions as a running node
        reported.

        The controller may have been elected just now.
        """
        return self.session_seconds + self.election_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The weather of a scenario, in the place of that which a seed would draw.

    All of it is of one kind, which the general plan has now and then.

    ``properties`` are those of every node, ``fields`` those of the ``ClusterPlan``. The judges and
    their promises stay the same.
    """

    name: str
    faults: tuple[Fault, ...]
    deaths: tuple[Death, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Seat:
    """A node before it is configured."""

    node_id: int
    name: str
    is_broker: bool
    is_controller: bool
    rack: str | None = None


QUORUM_WAIT_MS = 5_000
FEW_NODES = 3
PATIENT_QUORUM = {
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.request.timeout.ms": "2000",
}
"""Kafka's defaults. A fetch of the quorum waits for up to 500 ms: with shorter times slow links
elect one leader after the other.
"""


ASSIGNORS = [("range",), ("cooperative-sticky",), ("range", "cooperative-sticky")]


def _nodes(
    seats: list[Seat],
    properties: dict[str, str],
    sizes: tuple[int, int],
    *,
    are_voters_dynamic: bool,
) -> tuple[NodePlan, ...]:
    """Return the nodes. ``sizes`` are ``segment_bytes`` and ``index_interval_bytes``."""
    return tuple(
        _node(seat, seats, properties, *sizes, are_voters_dynamic=are_voters_dynamic)
        for seat in seats
    )


def _election_seconds(properties: dict[str, str]) -> float:
    election_ms = int(properties["controller.quorum.election.timeout.ms"])
    return (2 * election_ms + int(properties["controller.quorum.fetch.timeout.ms"])) / 1_000


def draw_cluster_plan(seed: int, node_count: int = 3, aim: Aim | None = None) -> ClusterPlan:
    """Return the plan of a seed for a cluster, with an aim of the scenario that the seed makes."""
    rng = Random(f"cluster {node_count} {seed}")
    later = Random(f"cluster changes {node_count} {seed}")
    pace = Random(f"cluster pace {node_count} {seed}")
    is_all_synced = rng.random() < 0.5
    seats = draw_seats(rng, node_count)
    broker_count = sum(seat.is_broker for seat in seats)
    seats += _late_seats(seats, () if aim is None else aim.fields.get("late_names", ()))
    are_voters_dynamic = rng.random() < 0.5
    if aim is not None:
        are_voters_dynamic = aim.fields.get("are_voters_dynamic", are_voters_dynamic)
    properties = _draw_properties(rng, broker_count, is_all_synced=is_all_synced)
    sizes = rng.choice([1 << 11, 1 << 13, 1 << 16]), rng.choice([64, 512, 4096])
    has_racks = any(seat.rack for seat in seats)
    properties |= _draw_more_properties(later, pace, has_racks=has_racks)
    properties |= {} if aim is None else aim.properties
    properties |= PATIENT_QUORUM if node_count > FEW_NODES else {}
    seconds, pause_seconds = rng.uniform(5, 15), rng.choice([2.0, 4.0, 8.0])
    faults = _draw_faults(rng, node_count)
    deaths = rng.choice([(Death.KILL,), (Death.POWER,), (Death.KILL, Death.POWER)])
    topics = tuple(_draw_topics(rng, broker_count, is_all_synced=is_all_synced))
    if node_count > 1:
        has_directories = "log.dirs" in properties
        faults = (*faults, *_draw_later_faults(later, topics, has_directories=has_directories))
    if aim is not None:
        faults, deaths = aim.faults, aim.deaths or deaths
    may_lose_records = _may_lose_records(faults, deaths, is_all_synced=is_all_synced)
    has_eligible_leaders = later.random() < 0.3 or may_lose_records
    plan = ClusterPlan(
        seed=seed,
        seconds=seconds,
        pause_seconds=pause_seconds,
        faults=faults,
        deaths=deaths,
        topics=topics,
        are_offsets_synced=is_all_synced or broker_count > 1,
        nodes=_nodes(seats, properties, sizes, are_voters_dynamic=are_voters_dynamic),
        producer_count=rng.randint(1, 2),
        member_count=rng.randint(1, 2),
        reader_count=rng.randint(0, 1),
        churn_count=rng.randint(0, 1),
        records_per_second=rng.choice([2.0, 6.0, 15.0]),
        weather=draw_weather(rng),
        sync_seconds=rng.choice([0.0, 0.005, 0.05]),
        pool_seconds=rng.choice([0.0, 0.001, 0.02]),
        is_disk_reordering=rng.random() < 0.3,
        assignors=rng.choice(ASSIGNORS),
        are_members_static=rng.random() < 0.2,
        automatic_count=rng.choice([0, 0, 1]),
        are_logs_moved=False,
        are_churned_written=rng.random() < 0.3,
        chunk_bytes=1 << 20,
        quiet_bytes=1 << 20,
        is_member_late=rng.random() < 0.3,
        are_waits_judged=later.random() < 0.5,
        is_all_synced=is_all_synced,
        are_voters_dynamic=are_voters_dynamic,
        reassigner_count=rng.choice([0, 1]),
        session_seconds=int(properties["broker.session.timeout.ms"]) / 1_000,
        election_seconds=_election_seconds(properties),
        voter_changer_count=(
            later.choice([0, 0, 1, 2]) if are_voters_dynamic and node_count > 1 else 0
        ),
        has_eligible_leaders=has_eligible_leaders,
        client_racks=("", "rack0", "rack1") if has_racks else ("",),
        skews_ms=tuple(later.choice([0, 0, -70_000, 1_500, 70_000]) for _ in seats),
    )
    return _completed(plan, aim)


def _completed(plan: ClusterPlan, aim: Aim | None) -> ClusterPlan:
    """Take what an aim has instead, and say of the topics whether they are moved."""
    plan = plan if aim is None else replace(plan, **aim.fields, aim=aim.name)
    if plan.pace > 1:
        plan = replace(plan, nodes=tuple(_patient(node) for node in plan.nodes))
    if plan.copier_count:
        level = Random(f"transactions {plan.seed}").choice(
            [TRANSACTION_VERSION_LEVEL, TRANSACTION_VERSION_LEVEL, 1, 0]
        )
        plan = replace(plan, topics=plan.topics[:1], transaction_level=level)
    if plan.queue_worker_count or plan.streams_member_count or plan.metered_count:
        plan = replace(plan, topics=plan.topics[:1])
    return replace(
        plan,
        topics=tuple(
            replace(topic, is_moved=plan.reassigner_count + plan.grower_count > 0)
            for topic in plan.topics
        ),
    )


def _patient(node: NodePlan) -> NodePlan:
    """Have the fetches of a quorum in which little happens wait for long, so that hours cost less."""
    return replace(
        node,
        config=replace(
            node.config, quorum=replace(node.config.quorum, fetch_max_wait_ms=QUORUM_WAIT_MS)
        ),
    )


def draw_seats(rng: Random, node_count: int) -> list[Seat]:
    """Return who is what: all nodes both at first; with more than three nodes some seeds split the
    roles. Some stand in racks.
    """
    has_racks = rng.random() < 0.4
    is_split = node_count > 3 and rng.random() < 0.5
    seats = []
    for number in range(1, node_count + 1):
        is_controller = number > node_count - 3 if is_split else number <= 5
        is_broker = not is_split or number <= node_count - 3 or (node_count < 6 and number <= 3)
        rack = f"rack{number % 2}" if has_racks else None
        seats.append(Seat(number, f"node{number}", is_broker, is_controller, rack))
    return seats


def _late_seats(seats: list[Seat], names: Sequence[str]) -> list[Seat]:
    """Return those of brokers that join later, in racks where the others stand in some."""
    first = len(seats) + 1
    return [
        Seat(
            first + number,
            name,
            is_broker=True,
            is_controller=False,
            rack=f"rack{number % 2}" if seats[0].rack else None,
        )
        for number, name in enumerate(names)
    ]


def _node(
    seat: Seat,
    seats: list[Seat],
    shared: dict[str, str],
    segment_bytes: int,
    index_interval_bytes: int,
    *,
    are_voters_dynamic: bool,
) -> NodePlan:
    roles = [
        name
        for name, is_so in (("broker", seat.is_broker), ("controller", seat.is_controller))
        if is_so
    ]
    name = shared.get("inter.broker.listener.name", "PLAINTEXT")
    listeners = [f"{name}://{seat.name}:9092"] * seat.is_broker + [
        f"CONTROLLER://{seat.name}:{CONTROLLER_PORT}"
    ] * seat.is_controller
    controllers = [each for each in seats if each.is_controller]
    properties: dict[str, Any] = {
        **shared,
        "node.id": str(seat.node_id),
        "cluster.id": CLUSTER_ID,
        "process.roles": ",".join(roles),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
    }
    if are_voters_dynamic:
        properties["controller.quorum.bootstrap.servers"] = ",".join(
            f"{each.name}:{CONTROLLER_PORT}" for each in controllers
        )
    else:
        voters = (f"{each.node_id}@{each.name}:{CONTROLLER_PORT}" for each in controllers)
        properties["controller.quorum.voters"] = ",".join(voters)
    if seat.rack is not None:
        properties["broker.rack"] = seat.rack
    config, texts = node_config(
        properties,
        name=seat.name,
        segment_bytes=segment_bytes,
        index_interval_bytes=index_interval_bytes,
    )
    return NodePlan(name=seat.name, config=config, texts=texts)


def _draw_properties(rng: Random, broker_count: int, *, is_all_synced: bool) -> dict[str, str]:
    """Small segments and short intervals, so that seconds show what takes hours; the same on every
    node.
    """
    session_ms = rng.choice([2_000, 4_000, 9_000])
    factor = min(3, broker_count)
    properties = {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // rng.choice([3, 5])),
        "initial.broker.registration.timeout.ms": "600000",
        "replica.lag.time.max.ms": rng.choice(["2000", "5000", "10000"]),
        "replica.fetch.wait.max.ms": rng.choice(["250", "500"]),
        "replica.fetch.backoff.ms": rng.choice(["100", "1000"]),
        "controller.quorum.election.timeout.ms": rng.choice(["300", "1000"]),
        "controller.quorum.fetch.timeout.ms": rng.choice(["700", "2000"]),
        "controller.quorum.request.timeout.ms": rng.choice(["500", "2000"]),
        "offsets.topic.replication.factor": str(factor),
        "default.replication.factor": str(factor),
        "min.insync.replicas": str(min(2, factor)),
        "log.retention.check.interval.ms": rng.choice(["1000", "5000"]),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(["500", "5000", "60000"]),
        "log.initial.task.delay.ms": rng.choice(["0", "1000"]),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(["500", "5000"]),
        "log.message.timestamp.after.max.ms": str(2**62),
        "log.cleaner.enable": "false",
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(["300", "3000", "20971520"]),
        "auto.create.topics.enable": "false",
        "leader.imbalance.check.interval.seconds": rng.choice(["2", "300"]),
    }
    if is_all_synced:
        properties["log.flush.interval.messages"] = "1"
    return properties


def _draw_more_properties(later: Random, pace: Random, *, has_racks: bool) -> dict[str, str]:
    properties = {"metadata.max.idle.interval.ms": pace.choice(["500", "2000", "10000"])}
    if has_racks and later.random() < 0.7:
        properties["replica.selector.class"] = (
            "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        )
    if later.random() < 0.3:
        properties["log.dirs"] = ",".join(map(str, DATA_DIRECTORIES))
    return properties


def _draw_topics(rng: Random, broker_count: int, *, is_all_synced: bool) -> list[TopicPlan]:
    """Draw topics with three replicas, of which two have to be in sync.

    Some seeds have one with a single replica, or with two.
    """
    factor = min(3, broker_count)
    safe = TopicPlan(
        name="safe",
        partition_count=rng.randint(1, 3),
        is_synced=is_all_synced or factor > 1,
        replication_factor=factor,
        configs={
            "min.insync.replicas": str(min(2, factor)),
            **rng.choice([{}, {}, {"message.timestamp.type": "LogAppendTime"}]),
        },
    )
    topics = [safe]
    if rng.random() < 0.4:
        topics.append(
            TopicPlan(
                name="single",
                partition_count=rng.randint(1, 2),
                is_synced=is_all_synced,
                replication_factor=1,
            )
        )
    if rng.random() < 0.3 and broker_count > 1:
        configs = {"min.insync.replicas": "1"}
        topics.append(
            TopicPlan(
                name="pair",
                partition_count=1,
                is_synced=is_all_synced,
                replication_factor=2,
                configs=configs,
            )
        )
    if rng.random() < 0.3:
        topics.append(
            TopicPlan(
                name="cut",
                partition_count=1,
                is_synced=safe.is_synced,
                is_trimmed=True,
                replication_factor=factor,
                configs={**safe.configs},
            )
        )
    return topics


def _may_lose_records(
    faults: Sequence[Fault], deaths: Sequence[Death], *, is_all_synced: bool
) -> bool:
    """Whether a machine may come back without records that it had."""
    may_lose_unsynced = Death.POWER in deaths or Fault.FAILED_SYNC in faults
    taking = {Fault.LOST_DISK, Fault.LOST_DIRECTORY, Fault.FAILED_DIRECTORY, Fault.MISSING_FILES}
    return bool(taking & {*faults}) or (may_lose_unsynced and not is_all_synced)


def _draw_later_faults(
    rng: Random, topics: Sequence[TopicPlan], *, has_directories: bool
) -> list[Fault]:
    """Draw the faults of clusters.

    Disks are lost if every partition has several replicas.
    """
    faults = [fault for fault in OF_CLUSTERS if rng.random() < 0.3]
    is_lost = rng.random() < 0.6
    if is_lost and all(topic.replication_factor > 1 for topic in topics):
        faults += [Fault.LOST_DISK, *[Fault.LOST_DIRECTORY] * has_directories]
    return faults


def _draw_faults(rng: Random, node_count: int) -> tuple[Fault, ...]:
    """Some of each kind; at least one that kills, in most seeds."""
    common = [fault for fault in COMMON if rng.random() < 0.3]
    deadly = [fault for fault in DEADLY if rng.random() < 0.5]
    between = [fault for fault in BETWEEN_NODES if rng.random() < 0.4 and node_count > 1]
    other = [
        fault
        for fault in OTHER
        if rng.random() < 0.2 and (fault is not Fault.RESET_PEER or node_count > 1)
    ]
    return tuple(common + deadly + between + other) or (Fault.DIE,)
