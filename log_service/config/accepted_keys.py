"""Keys of Kafka's server properties that have no effect here, but are accepted in a file.

This module declares their names, types, defaults and bounds as in Apache Kafka 4.3, and why each
family has no effect here. Keys with other values than their defaults are named in one warning at
the start. A value of type PASSWORD is never shown.

Keys that would weaken a promise if ignored are refused elsewhere. ``config.authorizer_keys``
refuses an authorizer in Java, ``config.server`` a policy, and ``config.listeners`` what a listener
cannot be. No key here can therefore be mistaken for protection.
"""

from log_service.config.definition import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    Family,
    Importance,
    at_least,
    between,
    no_empty_item,
    not_empty,
    one_of,
    some_items,
)

TRANSACTIONS: Family = (
    "Tunes transactions in ways that have no counterpart here: loading reads in fixed steps, two-phase commit is not there.",
    (
        ("transaction.state.log.load.buffer.size", INT, "5242880", at_least(1)),
        ("transaction.two.phase.commit.enable", BOOLEAN, "false"),
    ),
)
SHARE_GROUPS: Family = (
    "Tunes share groups in ways that have no counterpart here.",
    (
        ("group.share.assignors", LIST, "simple", some_items),
        ("group.share.persister.class.name", STRING, "org.apache.kafka.server.share.persister.DefaultStatePersister"),
        ("share.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
        ("share.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(524288)),
        ("share.coordinator.load.buffer.size", INT, "5242880", at_least(1)),
        ("share.coordinator.threads", INT, "1", at_least(1)),
        ("share.fetch.purgatory.purge.interval.requests", INT, "1000"),
    ),
)
COORDINATORS: Family = (
    "Tunes how coordinators batch, cache and load in Apache Kafka; here each request is one batch, and loading reads in fixed steps.",
    (
        ("group.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
        ("group.coordinator.background.threads", INT, "2", at_least(1)),
        ("group.coordinator.cached.buffer.max.bytes", INT, "1048588", at_least(524288)),
        ("group.coordinator.threads", INT, "4", at_least(1)),
        ("offsets.load.buffer.size", INT, "5242880", at_least(1)),
    ),
)
REPLICATION: Family = (
    "Tunes requests between nodes of Apache Kafka; here they have the times of the quorum, of sessions and of fetches.",
    (
        ("controlled.shutdown.enable", BOOLEAN, "true"),
        ("controller.socket.timeout.ms", INT, "30000"),
        ("num.replica.alter.log.dirs.threads", INT, None),
        ("replica.socket.receive.buffer.bytes", INT, "65536"),
        ("replica.socket.timeout.ms", INT, "30000"),
        ("request.timeout.ms", INT, "30000"),
    ),
)
QUORUM: Family = (
    "Old snapshots of the metadata go by their number here; appends are not held back to make them larger.",
    (
        ("controller.quorum.append.linger.ms", INT, "25", at_least(0)),
        ("metadata.max.retention.bytes", LONG, "104857600"),
        ("metadata.max.retention.ms", LONG, "604800000"),
    ),
)
QUOTAS: Family = (
    "Belongs to throttles of moves between log directories, which this version does not have, "
    "and of replicas, which are measured over eleven seconds here.",
    (
        ("alter.log.dirs.replication.quota.window.num", INT, "11", at_least(1)),
        ("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", at_least(1)),
        ("replication.quota.window.num", INT, "11", at_least(1)),
        ("replication.quota.window.size.seconds", INT, "1", at_least(1)),
    ),
)
EXECUTION: Family = (
    "Tunes threads and queues of Apache Kafka that have no counterpart here.",
    (
        ("background.threads", INT, "10", at_least(1)),
        ("controller.performance.always.log.threshold.ms", LONG, "2000", at_least(0)),
        ("controller.performance.sample.period.ms", LONG, "60000", at_least(100)),
        ("delete.records.purgatory.purge.interval.requests", INT, "1"),
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

TLS: Family = (
    "Tunes TLS in Java. The newest version that both sides speak is used; certificates are checked by OpenSSL.",
    (
        ("ssl.engine.factory.class", CLASS, None),
        ("ssl.keymanager.algorithm", STRING, "SunX509"),
        ("ssl.protocol", STRING, "TLSv1.3"),
        ("ssl.provider", STRING, None),
        ("ssl.secure.random.implementation", STRING, None),
        ("ssl.trustmanager.algorithm", STRING, "PKIX"),
    ),
)
SASL: Family = (
    "Belongs to parts of SASL that are not there: Kerberos, Java classes, their times, and nodes that sign assertions.",
    (
        ("sasl.client.callback.handler.class", CLASS, None),
        ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit"),
        ("sasl.kerberos.min.time.before.relogin", LONG, "60000"),
        ("sasl.kerberos.principal.to.local.rules", LIST, "DEFAULT", no_empty_item),
        ("sasl.kerberos.service.name", STRING, None),
        ("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05"),
        ("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8"),
        ("sasl.login.callback.handler.class", CLASS, None),
        ("sasl.login.class", CLASS, None),
        ("sasl.login.connect.timeout.ms", INT, None),
        ("sasl.login.read.timeout.ms", INT, None),
        ("sasl.login.refresh.buffer.seconds", SHORT, "300"),
        ("sasl.login.refresh.min.period.seconds", SHORT, "60"),
        ("sasl.login.refresh.window.factor", DOUBLE, "0.8"),
        ("sasl.login.refresh.window.jitter", DOUBLE, "0.05"),
        ("sasl.login.retry.backoff.max.ms", LONG, "10000"),
        ("sasl.login.retry.backoff.ms", LONG, "100"),
        ("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", one_of("RS256", "ES256")),
        ("sasl.oauthbearer.assertion.claim.aud", STRING, None),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", INT, "300", between(0, 86400)),
        ("sasl.oauthbearer.assertion.claim.iss", STRING, None),
        ("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false"),
        ("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, "60", between(0, 3600)),
        ("sasl.oauthbearer.assertion.claim.sub", STRING, None),
        ("sasl.oauthbearer.assertion.file", STRING, None),
        ("sasl.oauthbearer.assertion.private.key.file", STRING, None),
        ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
        ("sasl.oauthbearer.assertion.template.file", STRING, None),
        ("sasl.oauthbearer.jwt.retriever.class", CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    ),
)
PLUG_INS: Family = (
    "Names a Java class, which cannot run here.",
    (
        ("alter.config.policy.class.name", CLASS, None),
        ("client.quota.callback.class", CLASS, None),
        ("config.providers", LIST, "", no_empty_item),
        ("create.topic.policy.class.name", CLASS, None),
        ("principal.builder.class", CLASS, "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
        ("security.providers", STRING, None),
    ),
)

FAMILIES = (
    TRANSACTIONS,
    SHARE_GROUPS,
    COORDINATORS,
    REPLICATION,
    QUORUM,
    QUOTAS,
    EXECUTION,
    METRICS,
    REMOTE_STORAGE,
    TLS,
    SASL,
    PLUG_INS,
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
