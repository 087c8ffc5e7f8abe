"""Scenarios of a simulated cluster are plans with chosen faults.

The general plan rarely comes to the subject of one.

Decides nothing but what is played; it is judged as any other run. A seed draws the rest.

    python -m tests.sim.cluster_runs --aim "changing voters" --seeds 0-9
"""

from tests.sim import access_users
from tests.sim.cluster_plan import Aim
from tests.sim.missing_files import MISSING_FILES
from tests.sim.network import Weather
from tests.sim.node_history import TopicPlan
from tests.sim.node_host import DATA_DIRECTORIES, Death
from tests.sim.node_plan import Fault

FAR_APART = Weather(min_latency=0.01, max_latency=0.1, window_bytes=1 << 20)


def _safe(partition_count: int) -> TopicPlan:
    """Return a topic that the loss of any one node leaves whole.

    It has three replicas, of which two have to be in sync.
    """
    return TopicPlan(
        name="safe",
        partition_count=partition_count,
        is_synced=True,
        replication_factor=3,
        configs={"min.insync.replicas": "2"},
    )


MOVING_COORDINATORS = Aim(
    name="moving coordinators",
    faults=(Fault.STOP, Fault.NEW_LEADER_DIES),
    deaths=(Death.KILL,),
    properties={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "leader.imbalance.check.interval.seconds": "2",
    },
    fields={
        "seconds": 6.0,
        "pause_seconds": 1.0,
        "member_count": 1,
        "records_per_second": 15.0,
        "are_members_static": False,
    },
)
"""Brokers stop and come back again and again, so that the coordinator of a group changes while the
group commits.
"""

REFUSED_CONTROLLERS = Aim(
    name="refused controllers",
    faults=(Fault.REFUSED,),
    fields={"seconds": 8.0, "pause_seconds": 1.0},
)
"""Nodes live, and their peers cannot connect to them: controllers take them for dead, once."""

CHANGING_VOTERS = Aim(
    name="changing voters",
    faults=(Fault.SLOW_PEER,),
    fields={
        "are_voters_dynamic": True,
        "voter_changer_count": 4,
        "weather": FAR_APART,
        "seconds": 8.0,
        "pause_seconds": 4.0,
    },
)
"""Several operators add and remove voters of nodes that are far from each other, so that one change
comes while another is under way.
"""

SLOW_FOLLOWERS = Aim(
    name="slow followers",
    faults=(Fault.SLOW_PEER, Fault.SLOW_PEER, Fault.RESET_WHILE_WAITING),
    fields={
        "weather": FAR_APART,
        "seconds": 6.0,
        "pause_seconds": 1.0,
        "reader_count": 1,
        "records_per_second": 15.0,
    },
)
"""Records wait long for their followers, while readers read on."""

SLOW_SYNCS = Aim(
    name="slow syncs",
    faults=(Fault.RESET, Fault.RESET, Fault.SLOW_DISK, Fault.DIE),
    deaths=(Death.POWER,),
    properties={
        "log.flush.interval.messages": "1",
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "400",
    },
    fields={
        "is_all_synced": True,
        "seconds": 8.0,
        "pause_seconds": 0.4,
        "session_seconds": 2.0,
        "records_per_second": 15.0,
        "producer_count": 2,
        "sync_seconds": 0.3,
        "topics": (
            _safe(2),
            TopicPlan(name="single", partition_count=1, is_synced=True, replication_factor=1),
        ),
    },
)
"""Each replica syncs first, some disks take long for it, and connections break meanwhile: producers
send again what is being synced.
"""

LATE_CHANGES = Aim(
    name="late changes",
    faults=(Fault.DIE, Fault.DIE_WHILE_STARTING, Fault.SLOW_PEER, Fault.SLOW_PEER),
    properties={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "400",
        "replica.lag.time.max.ms": "2000",
    },
    fields={"weather": FAR_APART, "seconds": 10.0, "pause_seconds": 1.0, "records_per_second": 6.0},
)
"""Brokers die while the changes of in-sync replicas that name them are under way."""

SEVERAL_DEATHS = Aim(
    name="several deaths",
    faults=(Fault.SEVERAL_DIE,),
    deaths=(Death.KILL, Death.POWER),
    properties={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"},
    fields={"seconds": 20.0, "pause_seconds": 4.0, "records_per_second": 15.0},
)
"""Several nodes or all end in one moment: most of them are killed, and one has lost its power."""

LOST_DISKS = Aim(
    name="lost disks",
    faults=(Fault.SEVERAL_DIE, Fault.DIE, Fault.LOST_DISK),
    deaths=(Death.POWER,),
    properties={
        "broker.session.timeout.ms": "9000",
        "broker.heartbeat.interval.ms": "1000",
        "controller.quorum.election.timeout.ms": "300",
        "controller.quorum.fetch.timeout.ms": "700",
        "controller.quorum.request.timeout.ms": "500",
    },
    fields={
        "is_all_synced": False,
        "seconds": 10.0,
        "pause_seconds": 2.0,
        "session_seconds": 9.0,
        "member_count": 1,
        "records_per_second": 15.0,
        "reassigner_count": 0,
        "topics": (
            TopicPlan(
                name="pair",
                partition_count=6,
                is_synced=True,
                replication_factor=2,
                configs={"min.insync.replicas": "1"},
            ),
        ),
    },
)
"""Machines come back with empty disks, and the controller dies before it has heard of that: its
successor presumes that they are there.

Each record survives though it has two replicas and no sync: power goes or a disk is lost only while
both are in sync.
"""

SHORT_SNAPSHOTS = Aim(
    name="short snapshots",
    faults=(Fault.DIE, Fault.STOP),
    properties={"metadata.log.max.record.bytes.between.snapshots": "300"},
    fields={"seconds": 5.0, "pause_seconds": 1.0, "churn_count": 1},
)
"""Nodes write snapshots of the metadata all the time, and start from them."""

COPY_PROPERTIES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}
COPY_CAST = {
    "producer_count": 1,
    "member_count": 0,
    "automatic_count": 0,
    "reader_count": 0,
    "churn_count": 0,
    "reassigner_count": 0,
    "are_waits_judged": False,
    "records_per_second": 6.0,
    "copier_count": 2,
    "writer_count": 1,
    "committed_reader_count": 1,
}

COPY_LOOP = Aim(
    name="copy loop",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.CLIENT_DIES,
        Fault.CLIENT_DIES,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.SPLIT,
        Fault.PAUSE,
        Fault.CUT,
    ),
    properties=COPY_PROPERTIES,
    fields={**COPY_CAST, "seconds": 10.0, "pause_seconds": 1.0},
)
"""Clients consume, transform and produce, exactly once, while brokers and clients end at the worst
moment.
"""

ENDING_COORDINATORS = Aim(
    name="ending coordinators",
    faults=(Fault.COORDINATOR_ENDS,),
    properties=COPY_PROPERTIES,
    fields={**COPY_CAST, "seconds": 10.0, "pause_seconds": 0.3, "writer_count": 2},
)
"""Coordinators of transactions end in each state of the table, with markers written to none, some
and all of the partitions.
"""

ZOMBIES = Aim(
    name="zombies",
    faults=(Fault.CLIENT_DIES, Fault.RESET, Fault.CUT),
    deaths=(Death.KILL,),
    properties=COPY_PROPERTIES,
    fields={
        **COPY_CAST,
        "seconds": 10.0,
        "pause_seconds": 6.0,
        "usurper_count": 1,
        "hang_fraction": 0.2,
    },
)
"""Copiers hang and go on, and others have taken their places."""

LATE_TRANSACTIONS = Aim(
    name="late transactions",
    faults=(Fault.DIE, Fault.NEW_LEADER_DIES, Fault.COORDINATOR_ENDS),
    deaths=(Death.KILL,),
    properties=COPY_PROPERTIES,
    fields={
        **COPY_CAST,
        "seconds": 8.0,
        "pause_seconds": 2.0,
        "writer_count": 3,
        "copier_count": 1,
        "transaction_timeout_seconds": 1.5,
        "late_fraction": 0.2,
        "skews_ms": (0, 0, 0),
    },
)
"""Transactions take longer than their timeout, and coordinators abort them."""

QUEUES = Aim(
    name="queues",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.CLIENT_DIES,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.CUT,
        Fault.PAUSE,
    ),
    deaths=(Death.KILL,),
    properties={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "leader.imbalance.check.interval.seconds": "2",
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "2",
        "share.coordinator.state.topic.num.partitions": "2",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "1000",
        "group.share.session.timeout.ms": "2000",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.heartbeat.interval.ms": "400",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.assignment.interval.ms": "0",
        "group.share.initialize.retry.interval.ms": "2000",
    },
    fields={
        "producer_count": 1,
        "member_count": 0,
        "automatic_count": 0,
        "reader_count": 0,
        "churn_count": 0,
        "reassigner_count": 0,
        "are_waits_judged": False,
        "records_per_second": 15.0,
        "queue_worker_count": 3,
        "seconds": 12.0,
        "pause_seconds": 1.0,
    },
)
"""Members of a share group work on records and hang, while leaders, coordinators and members end.
"""

STREAMS_PROPERTIES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "2",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.assignment.interval.ms": "200",
    "group.streams.initial.rebalance.delay.ms": "300",
    "group.streams.num.standby.replicas": "1",
}
STREAMS_CAST = {
    "producer_count": 1,
    "member_count": 0,
    "automatic_count": 0,
    "reader_count": 0,
    "churn_count": 0,
    "reassigner_count": 0,
    "are_waits_judged": False,
    "records_per_second": 2.0,
    "streams_member_count": 3,
    "seconds": 15.0,
}

STREAMS_GROUPS = Aim(
    name="streams groups",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.CLIENT_DIES,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.CUT,
        Fault.SPLIT,
        Fault.PAUSE,
    ),
    properties=STREAMS_PROPERTIES,
    fields={**STREAMS_CAST, "pause_seconds": 2.0},
)
"""Instances of a Kafka Streams application take tasks over from each other, while coordinators and
instances end.
"""

SECURE_CLUSTERS = Aim(
    name="secure clusters",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.CUT,
        Fault.RESET,
        Fault.SPLIT,
        Fault.PAUSE,
    ),
    properties={**COPY_PROPERTIES, **access_users.PROPERTIES},
    fields={
        **COPY_CAST,
        "is_secure": True,
        "member_count": 1,
        "reader_count": 1,
        "copier_count": 1,
        "seconds": 6.0,
        "pause_seconds": 1.0,
        "transaction_timeout_seconds": 5.0,
    },
)
"""Nodes and clients log in, and rights and passwords change, while brokers and controllers end."""

TASK_HANDOVERS = Aim(
    name="task handovers",
    faults=(Fault.HANDOVER_ENDS, Fault.HANDOVER_ENDS, Fault.CLIENT_DIES),
    properties=STREAMS_PROPERTIES,
    fields={**STREAMS_CAST, "pause_seconds": 1.0, "closing_seconds": (0.1, 1.0, 3.0)},
)
"""Coordinators end while instances give tasks up, and while others wait for these."""

GROUP_PROPERTIES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "leader.imbalance.check.interval.seconds": "2",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
GROUP_FAULTS = (
    Fault.DIE,
    Fault.DIE,
    Fault.CLIENT_DIES,
    Fault.CLIENT_DIES,
    Fault.NEW_LEADER_DIES,
    Fault.STOP,
    Fault.CUT,
    Fault.SPLIT,
    Fault.PAUSE,
)

CONSUMER_GROUPS = Aim(
    name="consumer groups",
    faults=GROUP_FAULTS,
    properties=GROUP_PROPERTIES,
    fields={
        "seconds": 12.0,
        "pause_seconds": 1.5,
        "member_count": 3,
        "most_once_count": 2,
        "automatic_count": 0,
        "reader_count": 0,
        "records_per_second": 6.0,
        "is_member_late": True,
        "group_protocols": ("consumer",),
    },
)
"""Members of the consumer protocol (KIP-848) come, go, die and hang, while their coordinators end.
"""

CHANGED_PROTOCOLS = Aim(
    name="changed protocols",
    faults=GROUP_FAULTS,
    properties=GROUP_PROPERTIES,
    fields={**CONSUMER_GROUPS.fields, "group_protocols": ("classic", "consumer")},
)
"""The same where each life of a member speaks either protocol, so that groups change theirs while
they have members.
"""

UNCLEAN_ELECTIONS = Aim(
    name="unclean elections",
    faults=(Fault.LAGGING_LEADS, Fault.LAGGING_LEADS, Fault.DIE, Fault.STOP),
    deaths=(Death.KILL,),
    properties={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "400"},
    fields={
        "seconds": 20.0,
        "pause_seconds": 2.0,
        "records_per_second": 15.0,
        "reassigner_count": 0,
        "unclean_elector_count": 1,
        "session_seconds": 2.0,
        "topics": (
            _safe(1),
            TopicPlan(
                name="unclean",
                partition_count=2,
                is_synced=True,
                is_unclean=True,
                replication_factor=2,
                configs={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
            ),
            TopicPlan(
                name="by-hand",
                partition_count=2,
                is_synced=True,
                is_unclean=True,
                replication_factor=2,
                configs={"min.insync.replicas": "1"},
            ),
        ),
    },
)
"""The last in-sync replica of a partition ends, and one that lacks records leads, by configuration
or by hand.
"""

JOINING_BROKERS = Aim(
    name="joining brokers",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.DIE_WHILE_STARTING,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.SPLIT,
        Fault.CUT,
        Fault.PAUSE,
    ),
    properties={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "2000",
    },
    fields={
        "seconds": 12.0,
        "pause_seconds": 2.0,
        "session_seconds": 2.0,
        "member_count": 2,
        "records_per_second": 6.0,
        "reassigner_count": 0,
        "grower_count": 1,
        "late_names": ("late4", "late5"),
    },
)
"""Brokers join a cluster that runs, get their share of its replicas, those of internal topics too,
and are emptied again.
"""

FULL_DISKS = Aim(
    name="full disks",
    faults=(
        Fault.FULL_DISK,
        Fault.FULL_DISK,
        Fault.FAILED_SYNC,
        Fault.DIE,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
    ),
    properties={"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"},
    fields={
        "seconds": 12.0,
        "pause_seconds": 2.0,
        "session_seconds": 2.0,
        "member_count": 2,
        "records_per_second": 15.0,
    },
)
"""Disks of nodes are full for a while, with a little room or with none."""

TWO_DIRECTORIES = {
    "log.dirs": ",".join(map(str, DATA_DIRECTORIES)),
    "leader.imbalance.check.interval.seconds": "2",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "2000",
}

FAILING_DIRECTORIES = Aim(
    name="failing directories",
    faults=(
        Fault.FAILED_DIRECTORY,
        Fault.FAILED_DIRECTORY,
        Fault.DIE,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
    ),
    properties=TWO_DIRECTORIES,
    fields={
        "seconds": 20.0,
        "pause_seconds": 5.0,
        "session_seconds": 2.0,
        "member_count": 2,
        "records_per_second": 15.0,
        "topics": (_safe(4),),
    },
)
"""One of two log directories fails while its node runs, and comes back, or another one does."""

MOVING_LOGS = Aim(
    name="moving logs",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.DIE_AT_OPERATION,
        Fault.DIE_WHILE_STARTING,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.FAILED_DIRECTORY,
    ),
    properties=TWO_DIRECTORIES,
    fields={
        "seconds": 15.0,
        "pause_seconds": 3.0,
        "session_seconds": 2.0,
        "member_count": 2,
        "records_per_second": 15.0,
        "reassigner_count": 0,
        "are_logs_moved": True,
        "chunk_bytes": 1_000,
        "quiet_bytes": 2_000,
        "topics": (_safe(3),),
    },
)
"""Replicas move between the log directories of their nodes, which die and meet failing disks
meanwhile.
"""

COMPACTED_TOPICS = Aim(
    name="compacted topics",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.DIE_AT_OPERATION,
        Fault.DIE_WHILE_STARTING,
        Fault.NEW_LEADER_DIES,
        Fault.STOP,
        Fault.CLIENT_DIES,
    ),
    properties={
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.enable": "true",
        "log.cleaner.backoff.ms": "300",
        "log.cleaner.min.cleanable.ratio": "0.01",
        "log.cleaner.delete.retention.ms": "3000",
        "log.roll.ms": "1500",
    },
    fields={
        "seconds": 12.0,
        "pause_seconds": 1.5,
        "session_seconds": 2.0,
        "member_count": 2,
        "automatic_count": 1,
        "reader_count": 1,
        "records_per_second": 15.0,
        "topics": (
            _safe(2),
            TopicPlan(
                name="keyed",
                partition_count=2,
                is_synced=True,
                is_compacted=True,
                replication_factor=3,
                configs={
                    "min.insync.replicas": "2",
                    "cleanup.policy": "compact",
                    "min.compaction.lag.ms": "0",
                },
            ),
        ),
    },
)
"""Cleaners are eager on every node, also in the topics of groups, while members commit and
coordinators end.
"""

QUOTAS = Aim(
    name="quotas",
    faults=(Fault.RESET, Fault.CLOCK_JUMP),
    properties={"quota.window.num": "4", "replica.fetch.wait.max.ms": "500"},
    fields={
        "seconds": 25.0,
        "pause_seconds": 4.0,
        "producer_count": 1,
        "member_count": 0,
        "automatic_count": 0,
        "reader_count": 0,
        "churn_count": 0,
        "reassigner_count": 0,
        "voter_changer_count": 0,
        "are_waits_judged": False,
        "records_per_second": 2.0,
        "sync_seconds": 0.005,
        "metered_count": 3,
    },
)
"""Several clients want more than their quota, half of them do not pause by themselves, and their
connections break.
"""

LONG_LIVES = Aim(
    name="long lives",
    faults=(
        Fault.DIE,
        Fault.DIE,
        Fault.DIE_AT_OPERATION,
        Fault.STOP,
        Fault.SPLIT,
        Fault.ONE_WAY_CUT,
        Fault.PAUSE,
        Fault.CLIENT_DIES,
        Fault.CLOCK_JUMP,
        Fault.SEVERAL_DIE,
    ),
    properties={
        "broker.session.timeout.ms": "9000",
        "broker.heartbeat.interval.ms": "3000",
        "replica.fetch.wait.max.ms": "5000",
        "replica.lag.time.max.ms": "30000",
        "controller.quorum.fetch.timeout.ms": "15000",
        "controller.quorum.request.timeout.ms": "15000",
        "metadata.max.idle.interval.ms": "10000",
        "log.retention.check.interval.ms": "300000",
        "log.flush.offset.checkpoint.interval.ms": "60000",
        "replica.high.watermark.checkpoint.interval.ms": "60000",
        "leader.imbalance.check.interval.seconds": "300",
        "metadata.log.max.snapshot.interval.ms": "900000",
        "log.roll.ms": "600000",
        "connections.max.idle.ms": "600000",
        "producer.id.expiration.ms": "1800000",
        "producer.id.expiration.check.interval.ms": "300000",
    },
    fields={
        "seconds": 1_800.0,
        "pause_seconds": 600.0,
        "pace": 200.0,
        "are_waits_judged": False,
        "automatic_count": 0,
        "member_count": 1,
        "reader_count": 0,
    },
)
"""Hours of a cluster with little to do: what timers of minutes and hours do, between faults that
are far apart.
"""

TRANSACTIONAL_AIMS = (COPY_LOOP, ENDING_COORDINATORS, ZOMBIES, LATE_TRANSACTIONS)
"""Those with copiers and writers."""

AIMS = (
    *TRANSACTIONAL_AIMS,
    QUEUES,
    STREAMS_GROUPS,
    SECURE_CLUSTERS,
    TASK_HANDOVERS,
    MOVING_COORDINATORS,
    REFUSED_CONTROLLERS,
    CHANGING_VOTERS,
    SLOW_FOLLOWERS,
    SLOW_SYNCS,
    LATE_CHANGES,
    SEVERAL_DEATHS,
    LOST_DISKS,
    SHORT_SNAPSHOTS,
    CONSUMER_GROUPS,
    CHANGED_PROTOCOLS,
    UNCLEAN_ELECTIONS,
    JOINING_BROKERS,
    FULL_DISKS,
    FAILING_DIRECTORIES,
    MISSING_FILES,
    MOVING_LOGS,
    COMPACTED_TOPICS,
    QUOTAS,
    LONG_LIVES,
)
