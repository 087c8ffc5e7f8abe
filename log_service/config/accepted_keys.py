"""Keys of Kafka's server properties that have no effect here, but are accepted in a file.

This module declares their names, types, defaults and bounds as in Apache Kafka 4.3, and why each
family of keys has no effect here. At the start, one warning names the keys with other values than
their defaults. A value of type PASSWORD is never shown.

A key whose protection would be missing if it were ignored has a refusal. A node whose file sets
such a key does not start. ``config.authorizer_keys`` refuses an authorizer in Java, and
``config.listeners`` refuses listeners that are not supported. So no operator can mistake a key here
for protection.
"""

from log_service.config.definition import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    ConfigKey,
    Family,
    Importance,
    Row,
    Trait,
    at_least,
    between,
    no_empty_item,
    not_empty,
    one_of,
    some_items,
)

NOT_HERE = "which cannot run here; remove the key only if the cluster can do without"

TRANSACTIONS: Family = (
    (
        "Tunes transactions in ways that have no counterpart here. Loading reads in fixed steps,"
        " and two-phase commit is not supported."
    ),
    (
        Row("transaction.state.log.load.buffer.size", INT, "5242880", at_least(1)),
        Row("transaction.two.phase.commit.enable", BOOLEAN, "false"),
    ),
)
SHARE_GROUPS: Family = (
    "Tunes share groups in ways that have no counterpart here.",
    (
        Row("group.share.assignors", LIST, "simple", some_items),
        Row(
            "group.share.persister.class.name",
            STRING,
            "org.apache.kafka.server.share.persister.DefaultStatePersister",
            traits=Trait.INTERNAL,
        ),
        Row("share.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
        Row(
            "share.coordinator.cached.buffer.max.bytes",
            INT,
            "1048588",
            at_least(524288),
            update_mode=CLUSTER_WIDE,
        ),
        Row("share.coordinator.load.buffer.size", INT, "5242880", at_least(1)),
        Row("share.coordinator.threads", INT, "1", at_least(1)),
        Row("share.fetch.purgatory.purge.interval.requests", INT, "1000"),
    ),
)
COORDINATORS: Family = (
    (
        "Tunes how coordinators batch, cache and load in Apache Kafka. Here each request is one"
        " batch, and loading reads in fixed steps."
    ),
    (
        Row("group.coordinator.append.linger.ms", INT, "-1", at_least(-1)),
        Row("group.coordinator.background.threads", INT, "2", at_least(1)),
        Row(
            "group.coordinator.cached.buffer.max.bytes",
            INT,
            "1048588",
            at_least(524288),
            update_mode=CLUSTER_WIDE,
        ),
        Row("group.coordinator.threads", INT, "4", at_least(1)),
        Row("offsets.load.buffer.size", INT, "5242880", at_least(1)),
    ),
)
REPLICATION: Family = (
    (
        "Tunes requests between nodes of Apache Kafka. Here the timeouts of the quorum, of broker"
        " sessions and of fetches apply to them."
    ),
    (
        Row("controlled.shutdown.enable", BOOLEAN, "true"),
        Row("controller.socket.timeout.ms", INT, "30000"),
        Row("num.replica.alter.log.dirs.threads", INT, None),
        Row("replica.socket.receive.buffer.bytes", INT, "65536"),
        Row("replica.socket.timeout.ms", INT, "30000"),
        Row("request.timeout.ms", INT, "30000"),
    ),
)
QUORUM: Family = (
    (
        "Tunes the metadata log. Here a fixed number of old snapshots is kept, and appends are not"
        " delayed to make them larger."
    ),
    (
        Row("controller.quorum.append.linger.ms", INT, "25", at_least(0)),
        Row("metadata.max.retention.bytes", LONG, "104857600"),
        Row("metadata.max.retention.ms", LONG, "604800000"),
    ),
)
QUOTAS: Family = (
    (
        "Belongs to throttles. Moves between log directories are not throttled in this version, and"
        " replication is always measured over eleven seconds."
    ),
    (
        Row("alter.log.dirs.replication.quota.window.num", INT, "11", at_least(1)),
        Row("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", at_least(1)),
        Row("replication.quota.window.num", INT, "11", at_least(1)),
        Row("replication.quota.window.size.seconds", INT, "1", at_least(1)),
    ),
)
EXECUTION: Family = (
    "Tunes threads and queues of Apache Kafka that have no counterpart here.",
    (
        Row(
            "background.threads",
            INT,
            "10",
            at_least(1),
            update_mode=CLUSTER_WIDE,
            traits=Trait.THREADS,
        ),
        Row(
            "controller.performance.always.log.threshold.ms",
            LONG,
            "2000",
            at_least(0),
            traits=Trait.INTERNAL,
        ),
        Row(
            "controller.performance.sample.period.ms",
            LONG,
            "60000",
            at_least(100),
            traits=Trait.INTERNAL,
        ),
        Row("delete.records.purgatory.purge.interval.requests", INT, "1"),
        Row("fetch.purgatory.purge.interval.requests", INT, "1000"),
        Row("internal.metadata.delete.delay.millis", LONG, "60000", traits=Trait.INTERNAL),
        Row("internal.metadata.log.segment.bytes", INT, None, traits=Trait.INTERNAL),
        Row("internal.metadata.max.batch.size.in.bytes", INT, "8388608", traits=Trait.INTERNAL),
        Row(
            "num.network.threads",
            INT,
            "3",
            at_least(1),
            update_mode=CLUSTER_WIDE,
            traits=Trait.LISTENER_LIMIT | Trait.THREADS,
        ),
        Row("producer.purgatory.purge.interval.requests", INT, "1000"),
        Row("queued.max.requests", INT, "500", at_least(1)),
        Row(
            "server.max.startup.time.ms",
            LONG,
            "9223372036854775807",
            at_least(0),
            traits=Trait.INTERNAL,
        ),
        Row("socket.connection.setup.timeout.max.ms", LONG, "30000"),
        Row("socket.connection.setup.timeout.ms", LONG, "10000"),
        Row("unstable.api.versions.enable", BOOLEAN, "false", traits=Trait.INTERNAL),
        Row("unstable.feature.versions.enable", BOOLEAN, "false", traits=Trait.INTERNAL),
    ),
)
METRICS: Family = (
    "Belongs to metrics reporters, which this version does not have.",
    (
        Row("kafka.metrics.polling.interval.secs", INT, "10", at_least(1)),
        Row("kafka.metrics.reporters", LIST, "", no_empty_item),
        Row(
            "metric.reporters",
            LIST,
            "org.apache.kafka.common.metrics.JmxReporter",
            no_empty_item,
            update_mode=CLUSTER_WIDE,
            traits=Trait.CLASSES,
        ),
        Row("metrics.num.samples", INT, "2", at_least(1)),
        Row("metrics.recording.level", STRING, "INFO"),
        Row("metrics.sample.window.ms", LONG, "30000", at_least(1)),
    ),
)
REMOTE_STORAGE: Family = (
    "Belongs to remote storage, which this version does not have.",
    (
        Row("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", update_mode=CLUSTER_WIDE),
        Row("remote.fetch.max.wait.ms", INT, "500", at_least(1), update_mode=CLUSTER_WIDE),
        Row(
            "remote.list.offsets.request.timeout.ms",
            LONG,
            "30000",
            at_least(1),
            update_mode=CLUSTER_WIDE,
        ),
        Row(
            "remote.log.index.file.cache.total.size.bytes",
            LONG,
            "1073741824",
            at_least(1),
            update_mode=CLUSTER_WIDE,
        ),
        Row(
            "remote.log.index.file.cache.ttl.ms",
            LONG,
            "900000",
            at_least(-1),
            traits=Trait.INTERNAL,
        ),
        Row(
            "remote.log.manager.copier.thread.pool.size",
            INT,
            "10",
            at_least(1),
            update_mode=CLUSTER_WIDE,
            traits=Trait.THREADS,
        ),
        Row(
            "remote.log.manager.copy.max.bytes.per.second",
            LONG,
            "9223372036854775807",
            at_least(1),
            update_mode=CLUSTER_WIDE,
        ),
        Row("remote.log.manager.copy.quota.window.num", INT, "11", at_least(1)),
        Row("remote.log.manager.copy.quota.window.size.seconds", INT, "1", at_least(1)),
        Row(
            "remote.log.manager.expiration.thread.pool.size",
            INT,
            "10",
            at_least(1),
            update_mode=CLUSTER_WIDE,
            traits=Trait.THREADS,
        ),
        Row(
            "remote.log.manager.fetch.max.bytes.per.second",
            LONG,
            "9223372036854775807",
            at_least(1),
            update_mode=CLUSTER_WIDE,
        ),
        Row("remote.log.manager.fetch.quota.window.num", INT, "11", at_least(1)),
        Row("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", at_least(1)),
        Row(
            "remote.log.manager.follower.thread.pool.size",
            INT,
            "2",
            at_least(1),
            update_mode=CLUSTER_WIDE,
            traits=Trait.THREADS,
        ),
        Row("remote.log.manager.task.interval.ms", LONG, "30000", at_least(1)),
        Row(
            "remote.log.manager.task.retry.backoff.max.ms",
            LONG,
            "30000",
            at_least(1),
            traits=Trait.INTERNAL,
        ),
        Row(
            "remote.log.manager.task.retry.backoff.ms",
            LONG,
            "500",
            at_least(1),
            traits=Trait.INTERNAL,
        ),
        Row(
            "remote.log.manager.task.retry.jitter",
            DOUBLE,
            "0.2",
            between(0, 0.5),
            traits=Trait.INTERNAL,
        ),
        Row("remote.log.manager.thread.pool.size", INT, "2", at_least(1)),
        Row("remote.log.metadata.custom.metadata.max.bytes", INT, "128", at_least(0)),
        Row(
            "remote.log.metadata.manager.class.name",
            STRING,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            not_empty,
        ),
        Row("remote.log.metadata.manager.class.path", STRING, None),
        Row("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", not_empty),
        Row("remote.log.metadata.manager.listener.name", STRING, None, not_empty),
        Row("remote.log.reader.max.pending.tasks", INT, "100", at_least(1)),
        Row(
            "remote.log.reader.threads",
            INT,
            "10",
            at_least(1),
            update_mode=CLUSTER_WIDE,
            traits=Trait.THREADS,
        ),
        Row("remote.log.storage.manager.class.name", STRING, None, not_empty),
        Row("remote.log.storage.manager.class.path", STRING, None),
        Row("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", not_empty),
        Row(
            "remote.log.storage.system.enable",
            BOOLEAN,
            "false",
            refusal="remote storage, which is not there; set it to false",
        ),
    ),
)

TLS: Family = (
    (
        "Tunes TLS in Java. Here OpenSSL checks certificates, and the newest version of TLS that"
        " both sides support is used."
    ),
    (
        Row("ssl.engine.factory.class", CLASS, None, update_mode=PER_BROKER, traits=Trait.ACCESS),
        Row(
            "ssl.keymanager.algorithm",
            STRING,
            "SunX509",
            update_mode=PER_BROKER,
            traits=Trait.ACCESS,
        ),
        Row("ssl.protocol", STRING, "TLSv1.3", update_mode=PER_BROKER),
        Row("ssl.provider", STRING, None, update_mode=PER_BROKER),
        Row("ssl.secure.random.implementation", STRING, None, update_mode=PER_BROKER),
        Row(
            "ssl.trustmanager.algorithm",
            STRING,
            "PKIX",
            update_mode=PER_BROKER,
            traits=Trait.ACCESS,
        ),
    ),
)
SASL: Family = (
    (
        "Belongs to parts of SASL that are not supported: Kerberos, Java classes and their timeouts,"
        " and assertions signed by nodes."
    ),
    (
        Row("sasl.client.callback.handler.class", CLASS, None, traits=Trait.ACCESS),
        Row(
            "sasl.kerberos.kinit.cmd",
            STRING,
            "/usr/bin/kinit",
            update_mode=PER_BROKER,
            traits=Trait.ACCESS,
        ),
        Row("sasl.kerberos.min.time.before.relogin", LONG, "60000", update_mode=PER_BROKER),
        Row(
            "sasl.kerberos.principal.to.local.rules",
            LIST,
            "DEFAULT",
            no_empty_item,
            update_mode=PER_BROKER,
            traits=Trait.ACCESS,
        ),
        Row(
            "sasl.kerberos.service.name", STRING, None, update_mode=PER_BROKER, traits=Trait.ACCESS
        ),
        Row("sasl.kerberos.ticket.renew.jitter", DOUBLE, "0.05", update_mode=PER_BROKER),
        Row("sasl.kerberos.ticket.renew.window.factor", DOUBLE, "0.8", update_mode=PER_BROKER),
        Row(
            "sasl.login.callback.handler.class", CLASS, None, traits=Trait.ACCESS | Trait.MECHANISM
        ),
        Row("sasl.login.class", CLASS, None, traits=Trait.ACCESS | Trait.MECHANISM),
        Row("sasl.login.connect.timeout.ms", INT, None),
        Row("sasl.login.read.timeout.ms", INT, None),
        Row("sasl.login.refresh.buffer.seconds", SHORT, "300", update_mode=PER_BROKER),
        Row("sasl.login.refresh.min.period.seconds", SHORT, "60", update_mode=PER_BROKER),
        Row("sasl.login.refresh.window.factor", DOUBLE, "0.8", update_mode=PER_BROKER),
        Row("sasl.login.refresh.window.jitter", DOUBLE, "0.05", update_mode=PER_BROKER),
        Row("sasl.login.retry.backoff.max.ms", LONG, "10000"),
        Row("sasl.login.retry.backoff.ms", LONG, "100"),
        Row(
            "sasl.oauthbearer.assertion.algorithm",
            STRING,
            "RS256",
            one_of("RS256", "ES256"),
            traits=Trait.ACCESS,
        ),
        Row("sasl.oauthbearer.assertion.claim.aud", STRING, None, traits=Trait.ACCESS),
        Row(
            "sasl.oauthbearer.assertion.claim.exp.seconds",
            INT,
            "300",
            between(0, 86400),
            traits=Trait.ACCESS,
        ),
        Row("sasl.oauthbearer.assertion.claim.iss", STRING, None, traits=Trait.ACCESS),
        Row("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, "false", traits=Trait.ACCESS),
        Row(
            "sasl.oauthbearer.assertion.claim.nbf.seconds",
            INT,
            "60",
            between(0, 3600),
            traits=Trait.ACCESS,
        ),
        Row("sasl.oauthbearer.assertion.claim.sub", STRING, None, traits=Trait.ACCESS),
        Row("sasl.oauthbearer.assertion.file", STRING, None, traits=Trait.ACCESS),
        Row("sasl.oauthbearer.assertion.private.key.file", STRING, None, traits=Trait.ACCESS),
        Row(
            "sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, traits=Trait.ACCESS
        ),
        Row("sasl.oauthbearer.assertion.template.file", STRING, None, traits=Trait.ACCESS),
        Row(
            "sasl.oauthbearer.jwt.retriever.class",
            CLASS,
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            traits=Trait.ACCESS,
        ),
    ),
)
PLUG_INS: Family = (
    "Names a Java class, which cannot run here.",
    (
        Row("alter.config.policy.class.name", CLASS, None, refusal=f"a policy in Java, {NOT_HERE}"),
        Row("client.quota.callback.class", CLASS, None, refusal=f"quotas in Java, {NOT_HERE}"),
        Row(
            "config.providers",
            LIST,
            "",
            no_empty_item,
            CLUSTER_WIDE,
            Trait.CLASSES,
            refusal=(
                "values from elsewhere, which cannot be fetched here; write the values into the"
                " file"
            ),
        ),
        Row("create.topic.policy.class.name", CLASS, None, refusal=f"a policy in Java, {NOT_HERE}"),
        Row(
            "principal.builder.class",
            CLASS,
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            update_mode=PER_BROKER,
            traits=Trait.ACCESS,
        ),
        Row("security.providers", STRING, None),
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
        **row._asdict(),
        documentation=documentation,
        reason="as in Apache Kafka",
        importance=Importance.LOW,
        is_acting=False,
    )
    for documentation, rows in FAMILIES
    for row in rows
)
