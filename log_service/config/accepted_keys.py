"""Keys of Kafka's server properties that have no meaning on a node of this kind, so that a file that names them is understood.

Decides names, types, defaults and bounds as facts of Apache Kafka 4.3, and why each family has no effect here; what is set to something
else than its default is named in one warning at the start. Keys that would weaken a promise when they are not honoured (an authorizer, a
policy) are refused by ``config.server`` instead.
"""

from log_service.config.accepted_security_keys import SECURITY_FAMILIES
from log_service.config.definition import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    SHORT,
    STRING,
    ConfigKey,
    Family,
    Importance,
    Value,
    at_least,
    between,
    list_of,
    no_empty_item,
    not_empty,
    some_items,
)

_PROTOCOLS = list_of("consumer", "classic", "share", "streams", is_empty_allowed=False)


def _migration_policy(value: Value) -> str | None:
    policies = ("bidirectional", "upgrade", "downgrade", "disabled")
    return None if str(value).lower() in policies else f"it must be one of {', '.join(policies)}"


TRANSACTIONS: Family = (
    "Belongs to transactions, which this version does not have.",
    (
        ("add.partitions.to.txn.retry.backoff.max.ms", INT, "100", at_least(0)),
        ("add.partitions.to.txn.retry.backoff.ms", INT, "20", at_least(1)),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", at_least(1)),
        ("transaction.max.timeout.ms", INT, "900000", at_least(1)),
        ("transaction.partition.verification.enable", BOOLEAN, "true"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", at_least(1)),
        ("transaction.state.log.load.buffer.size", INT, "5242880", at_least(1)),
        ("transaction.state.log.min.isr", INT, "2", at_least(1)),
        ("transaction.state.log.num.partitions", INT, "50", at_least(1)),
        ("transaction.state.log.replication.factor", SHORT, "3", at_least(1)),
        ("transaction.state.log.segment.bytes", INT, "104857600", at_least(1)),
        ("transaction.two.phase.commit.enable", BOOLEAN, "false"),
        ("transactional.id.expiration.ms", INT, "604800000", at_least(1)),
    ),
)
SHARE_GROUPS: Family = (
    "Belongs to share groups, which this version does not have.",
    (
        ("group.share.assignment.interval.ms", INT, "1000", at_least(0)),
        ("group.share.assignors", LIST, "simple", some_items),
        ("group.share.delivery.count.limit", INT, "5", between(2, 10)),
        ("group.share.heartbeat.interval.ms", INT, "5000", at_least(1)),
        ("group.share.initialize.retry.interval.ms", INT, "30000", at_least(1)),
        ("group.share.max.assignment.interval.ms", INT, "15000", at_least(0)),
        ("group.share.max.delivery.count.limit", INT, "10", between(5, 25)),
        ("group.share.max.heartbeat.interval.ms", INT, "15000", at_least(1)),
        ("group.share.max.partition.max.record.locks", INT, "4000", between(2000, 10000)),
        ("group.share.max.record.lock.duration.ms", INT, "60000", between(30000, 3600000)),
        ("group.share.max.session.timeout.ms", INT, "60000", at_least(1)),
        ("group.share.max.share.sessions", INT, "2000", at_least(1)),
        ("group.share.max.size", INT, "200", between(1, 1000)),
        ("group.share.min.assignment.interval.ms", INT, "0", at_least(0)),
        ("group.share.min.delivery.count.limit", INT, "2", between(2, 5)),
        ("group.share.min.heartbeat.interval.ms", INT, "5000", at_least(1)),
        ("group.share.min.partition.max.record.locks", INT, "100", between(100, 2000)),
        ("group.share.min.record.lock.duration.ms", INT, "15000", between(1000, 30000)),
        ("group.share.min.session.timeout.ms", INT, "45000", at_least(1)),
        ("group.share.partition.max.record.locks", INT, "2000", between(100, 10000)),
        ("group.share.persister.class.name", STRING, "org.apache.kafka.server.share.persister.DefaultStatePersister"),
        ("group.share.record.lock.duration.ms", INT, "30000", between(1000, 3600000)),
        ("group.share.session.timeout.ms", INT, "45000", at_least(1)),
        ("share.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
        ("share.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(524288)),
        ("share.coordinator.cold.partition.snapshot.interval.ms", INT, "300000", at_least(1)),
        ("share.coordinator.load.buffer.size", INT, "5242880", at_least(1)),
        ("share.coordinator.snapshot.update.records.per.snapshot", INT, "500", between(0, 500)),
        ("share.coordinator.state.topic.compression.codec", INT, "0"),
        ("share.coordinator.state.topic.min.isr", SHORT, "2", at_least(1)),
        ("share.coordinator.state.topic.num.partitions", INT, "50", at_least(1)),
        ("share.coordinator.state.topic.prune.interval.ms", INT, "300000", at_least(1)),
        ("share.coordinator.state.topic.replication.factor", SHORT, "3", at_least(1)),
        ("share.coordinator.state.topic.segment.bytes", INT, "104857600", at_least(1)),
        ("share.coordinator.threads", INT, "1", at_least(1)),
        ("share.coordinator.write.timeout.ms", INT, "5000", at_least(1)),
        ("share.fetch.purgatory.purge.interval.requests", INT, "1000"),
    ),
)
STREAMS_GROUPS: Family = (
    "Belongs to streams groups, which this version does not have.",
    (
        ("group.streams.assignment.interval.ms", INT, "1000", at_least(0)),
        ("group.streams.heartbeat.interval.ms", INT, "5000", at_least(1)),
        ("group.streams.initial.rebalance.delay.ms", INT, "3000", at_least(0)),
        ("group.streams.max.assignment.interval.ms", INT, "15000", at_least(0)),
        ("group.streams.max.heartbeat.interval.ms", INT, "15000", at_least(1)),
        ("group.streams.max.session.timeout.ms", INT, "60000", at_least(1)),
        ("group.streams.max.size", INT, "2147483647", at_least(1)),
        ("group.streams.max.standby.replicas", INT, "2", at_least(0)),
        ("group.streams.min.assignment.interval.ms", INT, "0", at_least(0)),
        ("group.streams.min.heartbeat.interval.ms", INT, "5000", at_least(1)),
        ("group.streams.min.session.timeout.ms", INT, "45000", at_least(1)),
        ("group.streams.num.standby.replicas", INT, "0", at_least(0)),
        ("group.streams.session.timeout.ms", INT, "45000", at_least(1)),
    ),
)
CONSUMER_GROUPS: Family = (
    "Belongs to the consumer group protocol of KIP-848, which this version does not have.",
    (
        ("group.consumer.assignment.interval.ms", INT, "1000", at_least(0)),
        ("group.consumer.assignors", LIST, "uniform,range", some_items),
        ("group.consumer.heartbeat.interval.ms", INT, "5000", at_least(1)),
        ("group.consumer.max.assignment.interval.ms", INT, "15000", at_least(0)),
        ("group.consumer.max.heartbeat.interval.ms", INT, "15000", at_least(1)),
        ("group.consumer.max.session.timeout.ms", INT, "60000", at_least(1)),
        ("group.consumer.max.size", INT, "2147483647", at_least(1)),
        ("group.consumer.migration.policy", STRING, "bidirectional", _migration_policy),
        ("group.consumer.min.assignment.interval.ms", INT, "0", at_least(0)),
        ("group.consumer.min.heartbeat.interval.ms", INT, "5000", at_least(1)),
        ("group.consumer.min.session.timeout.ms", INT, "45000", at_least(1)),
        ("group.consumer.regex.refresh.interval.ms", INT, "600000", at_least(10000)),
        ("group.consumer.session.timeout.ms", INT, "45000", at_least(1)),
    ),
)
COORDINATORS: Family = (
    "Tunes how coordinators batch, cache and load in Apache Kafka; here each request is one batch, and loading reads in fixed steps.",
    (
        ("group.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
        ("group.coordinator.background.threads", INT, "2", at_least(1)),
        ("group.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(524288)),
        ("group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams", _PROTOCOLS),
        ("group.coordinator.threads", INT, "4", at_least(1)),
        ("offsets.load.buffer.size", INT, "5242880", at_least(1)),
    ),
)
REPLICATION: Family = (
    "Belongs to replication between nodes; a single node has none.",
    (
        ("auto.leader.rebalance.enable", BOOLEAN, "true"),
        ("controlled.shutdown.enable", BOOLEAN, "true"),
        ("controller.socket.timeout.ms", INT, "30000"),
        ("initial.broker.registration.timeout.ms", INT, "60000"),
        ("leader.imbalance.check.interval.seconds", LONG, "300", at_least(1)),
        ("log.dir.failure.timeout.ms", LONG, "30000", at_least(1)),
        ("num.replica.alter.log.dirs.threads", INT, None),
        ("num.replica.fetchers", INT, "1", at_least(1)),
        ("offsets.commit.timeout.ms", INT, "5000", at_least(1)),
        ("replica.fetch.backoff.ms", INT, "1000", at_least(0)),
        ("replica.fetch.max.bytes", INT, "1048576", at_least(0)),
        ("replica.fetch.min.bytes", INT, "1"),
        ("replica.fetch.response.max.bytes", INT, "10485760", at_least(0)),
        ("replica.fetch.wait.max.ms", INT, "500"),
        ("replica.lag.time.max.ms", LONG, "30000"),
        ("replica.selector.class", STRING, None),
        ("replica.socket.receive.buffer.bytes", INT, "65536"),
        ("replica.socket.timeout.ms", INT, "30000"),
        ("request.timeout.ms", INT, "30000"),
        ("unclean.leader.election.interval.ms", LONG, "300000", at_least(1)),
    ),
)
QUORUM: Family = (
    "Belongs to a quorum of several voters; a single voter neither elects nor fetches.",
    (
        ("controller.quorum.append.linger.ms", INT, "25", at_least(0)),
        ("controller.quorum.auto.join.enable", BOOLEAN, "false"),
        ("controller.quorum.election.backoff.max.ms", INT, "1000", at_least(0)),
        ("controller.quorum.election.timeout.ms", INT, "1000", at_least(0)),
        ("controller.quorum.fetch.max.bytes", INT, "1048576", at_least(1)),
        ("controller.quorum.fetch.snapshot.max.bytes", INT, "1048576", at_least(1)),
        ("controller.quorum.fetch.timeout.ms", INT, "2000", at_least(0)),
        ("controller.quorum.request.timeout.ms", INT, "2000", at_least(0)),
        ("controller.quorum.retry.backoff.ms", INT, "20", at_least(0)),
        ("metadata.max.idle.interval.ms", INT, "500", at_least(0)),
        ("metadata.max.retention.bytes", LONG, "104857600"),
        ("metadata.max.retention.ms", LONG, "604800000"),
    ),
)
QUOTAS: Family = (
    "Belongs to quotas, which this version does not have.",
    (
        ("alter.log.dirs.replication.quota.window.num", INT, "11", at_least(1)),
        ("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", at_least(1)),
        ("controller.quota.window.num", INT, "11", at_least(1)),
        ("controller.quota.window.size.seconds", INT, "1", at_least(1)),
        ("quota.window.num", INT, "11", at_least(1)),
        ("quota.window.size.seconds", INT, "1", at_least(1)),
        ("replication.quota.window.num", INT, "11", at_least(1)),
        ("replication.quota.window.size.seconds", INT, "1", at_least(1)),
    ),
)
EXECUTION: Family = (
    "Tunes threads and queues of Apache Kafka that have no counterpart here.",
    (
        ("background.threads", INT, "10", at_least(1)),
        ("connection.failed.authentication.delay.ms", INT, "100", at_least(0)),
        ("controller.performance.always.log.threshold.ms", LONG, "2000", at_least(0)),
        ("controller.performance.sample.period.ms", LONG, "60000", at_least(100)),
        ("delete.records.purgatory.purge.interval.requests", INT, "1"),
        ("early.start.listeners", LIST, None, no_empty_item),
        ("fetch.purgatory.purge.interval.requests", INT, "1000"),
        ("internal.metadata.delete.delay.millis", LONG, "60000"),
        ("internal.metadata.log.segment.bytes", INT, None),
        ("internal.metadata.max.batch.size.in.bytes", INT, "8388608"),
        ("num.network.threads", INT, "3", at_least(1)),
        ("producer.purgatory.purge.interval.requests", INT, "1000"),
        ("queued.max.requests", INT, "500", at_least(1)),
        ("server.max.startup.time.ms", LONG, "9223372036854775807", at_least(0)),
        ("socket.connection.setup.timeout.max.ms", LONG, "30000"),
        ("socket.connection.setup.timeout.ms", LONG, "10000"),
        ("unstable.api.versions.enable", BOOLEAN, "false"),
        ("unstable.feature.versions.enable", BOOLEAN, "false"),
    ),
)
METRICS: Family = (
    "Belongs to metrics reporters, which this version does not have.",
    (
        ("kafka.metrics.polling.interval.secs", INT, "10", at_least(1)),
        ("kafka.metrics.reporters", LIST, "", no_empty_item),
        ("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", no_empty_item),
        ("metrics.num.samples", INT, "2", at_least(1)),
        ("metrics.recording.level", STRING, "INFO"),
        ("metrics.sample.window.ms", LONG, "30000", at_least(1)),
        ("telemetry.max.bytes", INT, "1048576", at_least(1)),
    ),
)
REMOTE_STORAGE: Family = (
    "Belongs to remote storage, which this version does not have.",
    (
        ("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false"),
        ("remote.fetch.max.wait.ms", INT, "500", at_least(1)),
        ("remote.list.offsets.request.timeout.ms", LONG, "30000", at_least(1)),
        ("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", at_least(1)),
        ("remote.log.index.file.cache.ttl.ms", LONG, "900000", at_least(-1)),
        ("remote.log.manager.copier.thread.pool.size", INT, "10", at_least(1)),
        ("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807", at_least(1)),
        ("remote.log.manager.copy.quota.window.num", INT, "11", at_least(1)),
        ("remote.log.manager.copy.quota.window.size.seconds", INT, "1", at_least(1)),
        ("remote.log.manager.expiration.thread.pool.size", INT, "10", at_least(1)),
        ("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807", at_least(1)),
        ("remote.log.manager.fetch.quota.window.num", INT, "11", at_least(1)),
        ("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", at_least(1)),
        ("remote.log.manager.follower.thread.pool.size", INT, "2", at_least(1)),
        ("remote.log.manager.task.interval.ms", LONG, "30000", at_least(1)),
        ("remote.log.manager.task.retry.backoff.max.ms", LONG, "30000", at_least(1)),
        ("remote.log.manager.task.retry.backoff.ms", LONG, "500", at_least(1)),
        ("remote.log.manager.task.retry.jitter", DOUBLE, "0.2", between(0, 0.5)),
        ("remote.log.manager.thread.pool.size", INT, "2", at_least(1)),
        ("remote.log.metadata.custom.metadata.max.bytes", INT, "128", at_least(0)),
        (
            "remote.log.metadata.manager.class.name",
            STRING,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            not_empty,
        ),
        ("remote.log.metadata.manager.class.path", STRING, None),
        ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", not_empty),
        ("remote.log.metadata.manager.listener.name", STRING, None, not_empty),
        ("remote.log.reader.max.pending.tasks", INT, "100", at_least(1)),
        ("remote.log.reader.threads", INT, "10", at_least(1)),
        ("remote.log.storage.manager.class.name", STRING, None, not_empty),
        ("remote.log.storage.manager.class.path", STRING, None),
        ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", not_empty),
        ("remote.log.storage.system.enable", BOOLEAN, "false"),
    ),
)

FAMILIES = (
    TRANSACTIONS,
    SHARE_GROUPS,
    STREAMS_GROUPS,
    CONSUMER_GROUPS,
    COORDINATORS,
    REPLICATION,
    QUORUM,
    QUOTAS,
    EXECUTION,
    METRICS,
    REMOTE_STORAGE,
    *SECURITY_FAMILIES,
)

ACCEPTED_KEYS = tuple(
    ConfigKey(
        name=name,
        type=config_type,
        default=default,
        validator=validator[0] if validator else None,
        documentation=documentation,
        reason="as in Apache Kafka",
        importance=Importance.LOW,
        is_acting=False,
    )
    for documentation, rows in FAMILIES
    for name, config_type, default, *validator in rows
)
