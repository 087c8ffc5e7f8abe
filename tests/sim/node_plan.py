"""Draws the plan of one seed.

It has the length, the topics and clients, the disk and the network, and the faults.

Decides everything by drawing from the seed's own generator, so that each seed has its own mix
("swarm"): a mild mix of everything would hide what needs much of one thing and nothing of another.
Does nothing.
"""

from dataclasses import dataclass
from enum import Enum
from random import Random

from log_service.config.views import NodeConfig
from tests.sim.network import Weather
from tests.sim.node_history import TopicPlan
from tests.sim.node_host import DATA_DIRECTORIES, HOST, Death, node_config


class Fault(Enum):
    """A fault that may strike a node and its clients."""

    DIE = "die"
    DIE_AT_OPERATION = "die at an operation"
    DIE_WHILE_STARTING = "die while starting"
    STOP = "stop in order"
    DIE_WHILE_STOPPING = "die while stopping"
    RESET = "reset connections"
    CUT = "cut the network"
    ONE_WAY_CUT = "cut the network one way"
    SLOW_LINK = "slow link"
    SPLIT = "split the nodes"
    SLOW_PEER = "slow link between nodes"
    RESET_PEER = "reset connections between nodes"
    PAUSE = "pause the process"
    SEVERAL_DIE = "several nodes die at once"
    LOST_DISK = "lost disk"
    LOST_DIRECTORY = "lost log directory"
    FAILED_DIRECTORY = "a log directory fails"
    MISSING_FILES = "files are missing after a kill"
    NEW_LEADER_DIES = "a leader dies as soon as it leads"
    REFUSED = "a node refuses its peers"
    COORDINATOR_ENDS = "a coordinator ends in a chosen state of a transaction"
    HANDOVER_ENDS = "a coordinator ends while a task goes from one instance to another"
    LAGGING_LEADS = "the last in-sync replica ends while another one comes back"
    RESET_WHILE_WAITING = "reset connections while followers are slow"
    WEATHER = "other weather"
    CLIENT_DIES = "a client dies"
    FULL_DISK = "full disk"
    FAILED_SYNC = "failed sync"
    CLOCK_JUMP = "clock jump"
    SLOW_DISK = "slow disk"


COMMON = (Fault.RESET, Fault.WEATHER, Fault.SLOW_DISK)
DEADLY = (
    Fault.DIE,
    Fault.DIE_AT_OPERATION,
    Fault.DIE_WHILE_STARTING,
    Fault.STOP,
    Fault.DIE_WHILE_STOPPING,
)
OTHER = (Fault.CUT, Fault.CLIENT_DIES, Fault.FULL_DISK, Fault.FAILED_SYNC, Fault.CLOCK_JUMP)
OF_LINKS = (Fault.ONE_WAY_CUT, Fault.SLOW_LINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node of the cluster: its machine and its configuration."""

    name: str
    config: NodeConfig
    texts: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One seed's mix. Times in seconds of virtual time. ``automatic_count`` members of a second
    group leave commits to the client.

    ``are_logs_moved`` between two log directories, in chunks of a size, with so much left to the
    last step; ``are_churned_written``: records go also to the topics that come and go;
    ``is_member_late``: the last member of the first group comes late, leaves, and comes again.
    ``are_waits_judged``: clients wait for what is not there yet, see ``node_waits``. Clients rest
    ``pace`` times as long as those of a run of seconds do.
    """

    seed: int
    seconds: float
    pause_seconds: float
    faults: tuple[Fault, ...]
    deaths: tuple[Death, ...]
    topics: tuple[TopicPlan, ...]
    are_offsets_synced: bool
    nodes: tuple[NodePlan, ...]
    producer_count: int
    member_count: int
    reader_count: int
    churn_count: int
    records_per_second: float
    weather: Weather
    sync_seconds: float
    pool_seconds: float
    is_disk_reordering: bool
    assignors: tuple[str, ...]
    are_members_static: bool
    automatic_count: int
    are_logs_moved: bool
    are_churned_written: bool
    chunk_bytes: int
    quiet_bytes: int
    is_member_late: bool
    are_waits_judged: bool
    pace: float = 1.0


def draw_plan(seed: int, name: str = HOST) -> Plan:
    """Return the plan of a seed: a cluster of one node, on the machine ``name``."""
    rng = Random(f"plan {seed}")
    is_all_synced = rng.random() < 0.5
    compaction = Random(f"compaction {seed}")
    # Apart from the rest, so that a seed without moves is what it was.
    later = Random(f"moves {seed}")
    are_churned_written = later.random() < 0.3
    node = _draw_node(
        name,
        rng,
        compaction,
        is_all_synced=is_all_synced,
        are_topics_made_by_asking=not are_churned_written,
    )
    return Plan(
        seed=seed,
        seconds=rng.uniform(8, 30),
        pause_seconds=rng.choice([0.5, 1.5, 4.0]),
        faults=(*_draw_faults(rng), *_draw_faults_of_network(Random(f"network faults {seed}"))),
        deaths=rng.choice([(Death.KILL,), (Death.POWER,), (Death.KILL, Death.POWER)]),
        topics=(
            *_draw_topics(rng, is_all_synced=is_all_synced),
            *_draw_compacted(compaction, is_all_synced=is_all_synced),
        ),
        are_offsets_synced=is_all_synced,
        nodes=(node,),
        producer_count=rng.randint(1, 3),
        member_count=rng.randint(1, 3),
        reader_count=rng.randint(0, 2),
        churn_count=rng.randint(0, 2),
        records_per_second=rng.choice([2.0, 6.0, 15.0]),
        weather=draw_weather(rng),
        sync_seconds=rng.choice([0.0, 0.005, 0.05, 0.3]),
        pool_seconds=rng.choice([0.0, 0.001, 0.02]),
        is_disk_reordering=rng.random() < 0.3,
        assignors=rng.choice(
            [("range",), ("cooperative-sticky",), ("range", "cooperative-sticky")]
        ),
        are_members_static=rng.random() < 0.2,
        automatic_count=rng.choice([0, 0, 1, 2]),
        are_logs_moved=later.random() < 0.6 and len(node.config.log_manager.log_dirs) > 1,
        are_churned_written=are_churned_written,
        chunk_bytes=later.choice([1, 1_000, 1 << 20]),
        quiet_bytes=later.choice([0, 2_000, 1 << 20]),
        is_member_late=later.random() < 0.3,
        are_waits_judged=later.random() < 0.5,
    )


def draw_weather(rng: Random) -> Weather:
    """Return how the network behaves: mild for some, rough for others."""
    return Weather(
        min_latency=0.0001,
        max_latency=rng.choice([0.0005, 0.002, 0.02, 0.1]),
        max_chunk_bytes=rng.choice([0, 0, 0, 16_384, 3_000]),
        window_bytes=rng.choice([4 << 10, 64 << 10, 1 << 20]),
    )


def _draw_faults(rng: Random) -> tuple[Fault, ...]:
    """Some of each kind; at least one that kills, in most seeds."""
    common = [fault for fault in COMMON if rng.random() < 0.5]
    deadly = [fault for fault in DEADLY if rng.random() < 0.6]
    other = [fault for fault in OTHER if rng.random() < 0.25]
    return tuple(common + deadly + other) or (Fault.DIE,)


def _draw_faults_of_network(rng: Random) -> list[Fault]:
    """Faults of single links."""
    return [fault for fault in OF_LINKS if rng.random() < 0.25]


def _draw_topics(rng: Random, *, is_all_synced: bool) -> list[TopicPlan]:
    explicit: dict[str, str] = {} if is_all_synced else {"flush.messages": "1"}
    unsynced = {"flush.messages": rng.choice(["7", "1000000"])}
    topics = [
        TopicPlan(
            name="synced",
            partition_count=rng.randint(1, 3),
            is_synced=True,
            configs={**explicit, **_draw_rewriting(rng)},
        ),
        TopicPlan(
            name="cached",
            partition_count=rng.randint(1, 3),
            is_synced=False,
            configs={**unsynced, **_draw_rewriting(rng)},
        ),
    ]
    if rng.random() < 0.5:
        topics.append(
            TopicPlan(
                name="cut", partition_count=1, is_synced=True, is_trimmed=True, configs=explicit
            )
        )
    if rng.random() < 0.5:
        kept = rng.choice([{"retention.ms": "8000"}, {"retention.bytes": "6000"}])
        topics.append(
            TopicPlan(
                name="short",
                partition_count=1,
                is_synced=True,
                is_trimmed=True,
                configs={**explicit, **kept},
            )
        )
    return topics


def _draw_compacted(rng: Random, *, is_all_synced: bool) -> list[TopicPlan]:
    """In some seeds a topic with few keys, which the cleaner is eager to clean."""
    if rng.random() < 0.6:
        return []
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": rng.choice(["0.01", "0.3"]),
        "delete.retention.ms": rng.choice(["0", "3000", "86400000"]),
        "min.compaction.lag.ms": rng.choice(["0", "0", "2000"]),
        "segment.ms": rng.choice(["3000", "604800000"]),
    }
    explicit = {} if is_all_synced else {"flush.messages": "1"}
    return [
        TopicPlan(
            name="keyed",
            partition_count=rng.randint(1, 2),
            is_synced=True,
            is_compacted=True,
            configs={**explicit, **configs},
        )
    ]


def _draw_rewriting(rng: Random) -> dict[str, str]:
    """Configurations that make the broker write something else than it was sent."""
    return rng.choice(
        [
            {},
            {},
            {"compression.type": rng.choice(["zstd", "gzip"])},
            {"message.timestamp.type": "LogAppendTime"},
        ]
    )


def _draw_node(
    name: str,
    rng: Random,
    compaction: Random,
    *,
    is_all_synced: bool,
    are_topics_made_by_asking: bool,
) -> NodePlan:
    """Small segments and short intervals, so that minutes show what takes weeks."""
    properties = {
        "log.retention.check.interval.ms": rng.choice(["1000", "5000"]),
        "log.flush.offset.checkpoint.interval.ms": rng.choice(["500", "5000", "60000"]),
        "log.flush.start.offset.checkpoint.interval.ms": rng.choice(["500", "5000"]),
        "log.initial.task.delay.ms": rng.choice(["0", "1000"]),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice(["500", "5000"]),
        "log.message.timestamp.after.max.ms": str(2**62),
        "log.segment.delete.delay.ms": rng.choice(["0", "2000"]),
        "log.cleaner.backoff.ms": compaction.choice(["300", "2000", "15000"]),
        "metadata.log.max.record.bytes.between.snapshots": rng.choice(["300", "3000", "20971520"]),
    }
    if not are_topics_made_by_asking:
        properties["auto.create.topics.enable"] = "false"
    if rng.random() < 0.3:
        properties["log.dirs"] = ",".join(map(str, DATA_DIRECTORIES))
    if is_all_synced:
        properties["log.flush.interval.messages"] = "1"
    config, texts = node_config(
        properties,
        name=name,
        segment_bytes=rng.choice([1 << 11, 1 << 13, 1 << 16]),
        index_interval_bytes=rng.choice([64, 512, 4096]),
    )
    return NodePlan(name=name, config=config, texts=texts)
