"""Keys of Kafka's server properties that are accepted without effect, so that a file that names them is not complained about.

Decides which names are harmless here and why; each family says what it belongs to. Keys that would weaken a promise when they are not
honoured (an authorizer, a SASL listener) are not here: those are refused, or named in the warning about unknown keys.
"""

from log_service.config.definition import ConfigKey, ConfigType, Importance

Row = tuple[str, ConfigType, str | None]
Family = tuple[str, tuple[Row, ...]]

INT, LONG, SHORT, BOOLEAN = ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.BOOLEAN
STRING, LIST, CLASS = ConfigType.STRING, ConfigType.LIST, ConfigType.CLASS

TRANSACTIONS: Family = (
    "Belongs to transactions, which this version does not have.",
    (
        ("add.partitions.to.txn.retry.backoff.max.ms", INT, "100"),
        ("add.partitions.to.txn.retry.backoff.ms", INT, "20"),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000"),
        ("transaction.max.timeout.ms", INT, "900000"),
        ("transaction.partition.verification.enable", BOOLEAN, "true"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000"),
        ("transaction.state.log.load.buffer.size", INT, "5242880"),
        ("transaction.state.log.min.isr", INT, "2"),
        ("transaction.state.log.num.partitions", INT, "50"),
        ("transaction.state.log.replication.factor", SHORT, "3"),
        ("transaction.state.log.segment.bytes", INT, "104857600"),
        ("transaction.two.phase.commit.enable", BOOLEAN, "false"),
        ("transactional.id.expiration.ms", INT, "604800000"),
    ),
)
SHARE_GROUPS: Family = (
    "Belongs to share groups, which this version does not have.",
    (
        ("group.share.assignment.interval.ms", INT, "1000"),
        ("group.share.assignors", LIST, "simple"),
        ("group.share.delivery.count.limit", INT, "5"),
        ("group.share.heartbeat.interval.ms", INT, "5000"),
        ("group.share.max.assignment.interval.ms", INT, "15000"),
        ("group.share.max.delivery.count.limit", INT, "10"),
        ("group.share.max.heartbeat.interval.ms", INT, "15000"),
        ("group.share.max.partition.max.record.locks", INT, "4000"),
        ("group.share.max.record.lock.duration.ms", INT, "60000"),
        ("group.share.max.session.timeout.ms", INT, "60000"),
        ("group.share.max.share.sessions", INT, "2000"),
        ("group.share.max.size", INT, "200"),
        ("group.share.min.assignment.interval.ms", INT, "0"),
        ("group.share.min.delivery.count.limit", INT, "2"),
        ("group.share.min.heartbeat.interval.ms", INT, "5000"),
        ("group.share.min.partition.max.record.locks", INT, "100"),
        ("group.share.min.record.lock.duration.ms", INT, "15000"),
        ("group.share.min.session.timeout.ms", INT, "45000"),
        ("group.share.partition.max.record.locks", INT, "2000"),
        ("group.share.record.lock.duration.ms", INT, "30000"),
        ("group.share.session.timeout.ms", INT, "45000"),
        ("share.coordinator.append.linger.ms", INT, "-1"),
        ("share.coordinator.cached.buffer.max.bytes", INT, "1048588"),
        ("share.coordinator.load.buffer.size", INT, "5242880"),
        ("share.coordinator.snapshot.update.records.per.snapshot", INT, "500"),
        ("share.coordinator.state.topic.compression.codec", INT, "0"),
        ("share.coordinator.state.topic.min.isr", SHORT, "2"),
        ("share.coordinator.state.topic.num.partitions", INT, "50"),
        ("share.coordinator.state.topic.replication.factor", SHORT, "3"),
        ("share.coordinator.state.topic.segment.bytes", INT, "104857600"),
        ("share.coordinator.threads", INT, "1"),
        ("share.coordinator.write.timeout.ms", INT, "5000"),
        ("share.fetch.purgatory.purge.interval.requests", INT, "1000"),
    ),
)
STREAMS_GROUPS: Family = (
    "Belongs to streams groups, which this version does not have.",
    (
        ("group.streams.assignment.interval.ms", INT, "1000"),
        ("group.streams.heartbeat.interval.ms", INT, "5000"),
        ("group.streams.initial.rebalance.delay.ms", INT, "3000"),
        ("group.streams.max.assignment.interval.ms", INT, "15000"),
        ("group.streams.max.heartbeat.interval.ms", INT, "15000"),
        ("group.streams.max.session.timeout.ms", INT, "60000"),
        ("group.streams.max.size", INT, "2147483647"),
        ("group.streams.max.standby.replicas", INT, "2"),
        ("group.streams.min.assignment.interval.ms", INT, "0"),
        ("group.streams.min.heartbeat.interval.ms", INT, "5000"),
        ("group.streams.min.session.timeout.ms", INT, "45000"),
        ("group.streams.num.standby.replicas", INT, "0"),
        ("group.streams.session.timeout.ms", INT, "45000"),
    ),
)
CONSUMER_GROUPS: Family = (
    "Belongs to the consumer group protocol of KIP-848, which this version does not have.",
    (
        ("group.consumer.assignment.interval.ms", INT, "1000"),
        ("group.consumer.assignors", LIST, "uniform,range"),
        ("group.consumer.heartbeat.interval.ms", INT, "5000"),
        ("group.consumer.max.assignment.interval.ms", INT, "15000"),
        ("group.consumer.max.heartbeat.interval.ms", INT, "15000"),
        ("group.consumer.max.session.timeout.ms", INT, "60000"),
        ("group.consumer.max.size", INT, "2147483647"),
        ("group.consumer.migration.policy", STRING, "bidirectional"),
        ("group.consumer.min.assignment.interval.ms", INT, "0"),
        ("group.consumer.min.heartbeat.interval.ms", INT, "5000"),
        ("group.consumer.min.session.timeout.ms", INT, "45000"),
        ("group.consumer.session.timeout.ms", INT, "45000"),
        ("group.coordinator.append.linger.ms", INT, "-1"),
        ("group.coordinator.background.threads", INT, "2"),
        ("group.coordinator.cached.buffer.max.bytes", INT, "1048588"),
        ("group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams"),
        ("group.coordinator.threads", INT, "4"),
    ),
)
REPLICATION: Family = (
    "Belongs to replication between nodes; a single node has none.",
    (
        ("auto.leader.rebalance.enable", BOOLEAN, "true"),
        ("controlled.shutdown.enable", BOOLEAN, "true"),
        ("controller.socket.timeout.ms", INT, "30000"),
        ("leader.imbalance.check.interval.seconds", LONG, "300"),
        ("log.dir.failure.timeout.ms", LONG, "30000"),
        ("num.replica.alter.log.dirs.threads", INT, None),
        ("num.replica.fetchers", INT, "1"),
        ("replica.fetch.backoff.ms", INT, "1000"),
        ("replica.fetch.max.bytes", INT, "1048576"),
        ("replica.fetch.min.bytes", INT, "1"),
        ("replica.fetch.response.max.bytes", INT, "10485760"),
        ("replica.fetch.wait.max.ms", INT, "500"),
        ("replica.lag.time.max.ms", LONG, "30000"),
        ("replica.selector.class", STRING, None),
        ("replica.socket.receive.buffer.bytes", INT, "65536"),
        ("replica.socket.timeout.ms", INT, "30000"),
        ("request.timeout.ms", INT, "30000"),
    ),
)
QUORUM: Family = (
    "Belongs to a quorum of several voters; a single voter neither elects nor fetches.",
    (
        ("controller.quorum.append.linger.ms", INT, "25"),
        ("controller.quorum.auto.join.enable", BOOLEAN, "false"),
        ("controller.quorum.election.backoff.max.ms", INT, "1000"),
        ("controller.quorum.election.timeout.ms", INT, "1000"),
        ("controller.quorum.fetch.max.bytes", INT, "1048576"),
        ("controller.quorum.fetch.snapshot.max.bytes", INT, "1048576"),
        ("controller.quorum.fetch.timeout.ms", INT, "2000"),
        ("controller.quorum.request.timeout.ms", INT, "2000"),
        ("controller.quorum.retry.backoff.ms", INT, "20"),
        ("metadata.max.idle.interval.ms", INT, "500"),
        ("metadata.max.retention.bytes", LONG, "104857600"),
        ("metadata.max.retention.ms", LONG, "604800000"),
    ),
)
QUOTAS: Family = (
    "Belongs to quotas, which this version does not have.",
    (
        ("alter.log.dirs.replication.quota.window.num", INT, "11"),
        ("alter.log.dirs.replication.quota.window.size.seconds", INT, "1"),
        ("controller.quota.window.num", INT, "11"),
        ("controller.quota.window.size.seconds", INT, "1"),
        ("quota.window.num", INT, "11"),
        ("quota.window.size.seconds", INT, "1"),
        ("replication.quota.window.num", INT, "11"),
        ("replication.quota.window.size.seconds", INT, "1"),
    ),
)
EXECUTION: Family = (
    "Tunes threads and queues of Apache Kafka that have no counterpart here.",
    (
        ("background.threads", INT, "10"),
        ("connection.failed.authentication.delay.ms", INT, "100"),
        ("delete.records.purgatory.purge.interval.requests", INT, "1"),
        ("fetch.purgatory.purge.interval.requests", INT, "1000"),
        ("max.connection.creation.rate", INT, "2147483647"),
        ("num.network.threads", INT, "3"),
        ("producer.purgatory.purge.interval.requests", INT, "1000"),
        ("socket.connection.setup.timeout.max.ms", LONG, "30000"),
        ("socket.connection.setup.timeout.ms", LONG, "10000"),
    ),
)
METRICS: Family = (
    "Belongs to metrics reporters, which this version does not have.",
    (
        ("kafka.metrics.polling.interval.secs", INT, "10"),
        ("kafka.metrics.reporters", LIST, ""),
        ("metrics.num.samples", INT, "2"),
        ("metrics.recording.level", STRING, "INFO"),
        ("metrics.sample.window.ms", LONG, "30000"),
        ("telemetry.max.bytes", INT, "1048576"),
    ),
)

FAMILIES = (TRANSACTIONS, SHARE_GROUPS, STREAMS_GROUPS, CONSUMER_GROUPS, REPLICATION, QUORUM, QUOTAS, EXECUTION, METRICS)

ACCEPTED_KEYS = tuple(
    ConfigKey(
        name=name,
        type=config_type,
        default=default,
        documentation=documentation,
        reason="as in Apache Kafka",
        importance=Importance.LOW,
        is_acting=False,
    )
    for documentation, rows in FAMILIES
    for name, config_type, default in rows
)
