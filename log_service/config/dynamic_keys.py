"""Keys of a broker that may change while it runs, and at which level (Apache Kafka 4.3, KIP-226).

These lists decide nothing about values. A key in no list is read-only. A name that is not a key of
Kafka's is accepted and kept, as in Kafka, because it may belong to a plug-in.
"""

from collections.abc import Iterable
from dataclasses import replace

from log_service.config.definition import ConfigKey, ConfigType, UpdateMode, at_least
from log_service.config.oauth import OF_MECHANISM

CLUSTER_WIDE = frozenset(
    {
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "config.providers",
        "follower.fetch.last.tiered.offset.enable",
        "group.consumer.assignment.interval.ms",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    }
)
"""Keys that may be set for one broker, and as the default of all."""

PER_BROKER = frozenset(
    {
        "cordoned.log.dirs",
        "listener.security.protocol.map",
        "listeners",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys that may be set for one broker only."""

INTERNAL = frozenset(
    {
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "group.share.persister.class.name",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "remote.log.index.file.cache.ttl.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)
"""Keys that are listed only if they are set or named.

A request for all keys of a broker omits them.
"""

STORES = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys of a listener's key store and trust store. They change only with that listener's prefix."""

CLUSTER_WIDE_OF_LISTENERS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Keys whose override for one listener may be set for all brokers, as well as for one."""

PER_LISTENER_ACTING = frozenset(
    {
        *OF_MECHANISM,
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "max.connections",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.server.max.receive.size",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys whose override for one listener has an effect here."""

FILE_ALONE = frozenset(
    {
        *OF_MECHANISM,
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "sasl.enabled.mechanisms",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.server.max.receive.size",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.principal.mapping.rules",
    }
)
"""Keys that are read from the file only, so requests change nothing.

Apache Kafka's running listeners do not change either.
"""

THREAD_COUNTS = frozenset(
    {
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)
"""Keys that may at most double or halve in one step."""

OUR_OWN = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "audit.log.allowed.enable",
        "audit.log.max.bytes",
        "audit.log.max.files",
        "audit.log.path",
        "audit.log.topic",
        "auto.create.topics.declarations",
        "cluster.id",
        "metrics.listener",
        "node.death.grace.ms",
        "sasl.oauthbearer.allowed.algorithms",
        "sasl.oauthbearer.allowed.urls",
        "sasl.oauthbearer.unsecured.tokens.allowed",
        "super.users",
    }
)
"""Keys that Apache Kafka's broker does not know; its authorizer reads some.

They are listed only if set.
"""

ABOUT_ACCESS = STORES | frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "delegation.token.secret.key",
        "early.start.listeners",
        "listener.security.protocol.map",
        "listeners",
        "principal.builder.class",
        "sasl.client.callback.handler.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.mechanism.controller.protocol",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.server.callback.handler.class",
        "ssl.allow.dn.changes",
        "ssl.allow.san.changes",
        "ssl.client.auth",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.principal.mapping.rules",
        "ssl.trustmanager.algorithm",
        "super.users",
    }
)
"""Keys that decide who may log in, as whom, or who the broker shows itself to be.

Every key of OAUTH_PREFIX does so, too. A key store is the identity of the broker, for its clients
and for the nodes that it connects to. Its keys also have the broker read a file that a request
names.
"""

OAUTH_PREFIX = "sasl.oauthbearer."
LISTENER_PREFIX = "listener.name."

KEYS_OF_MECHANISMS = frozenset(
    {
        *OF_MECHANISM,
        "connections.max.reauth.ms",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
    }
)
"""Keys that a listener may have for one mechanism, behind the mechanism's name."""


_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "gssapi")
_OF_LISTENERS = (PER_LISTENER_ACTING | PER_BROKER | CLUSTER_WIDE_OF_LISTENERS | ABOUT_ACCESS | KEYS_OF_MECHANISMS) - {"listeners"}
"""Keys that end the name of a listener with dots. Other keys end in ``.listeners``, too."""
_MOST_WORDS = max(key.count(".") + 1 for key in _OF_LISTENERS)

_QUOTAS = ("follower.replication.throttled.rate", "leader.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second")

_ACTING_QUOTAS = frozenset(_QUOTAS[:2])

QUOTA_KEYS = {
    name: ConfigKey(
        name=name,
        type=ConfigType.LONG,
        default=None,
        validator=at_least(0),
        documentation="Bytes a second of replication between nodes or directories.",
        reason="no limit",
        update_mode=UpdateMode.CLUSTER_WIDE,
        is_acting=name in _ACTING_QUOTAS,
    )
    for name in _QUOTAS
}
"""Broker keys that cannot be set in the file. They are set at run time, and listed only if set."""

OBSERVER, OBSERVER_PROMOTION = "tidelog.observer", "tidelog.observer.promotion"
OBSERVER_KEYS = {
    OBSERVER: ConfigKey(
        name=OBSERVER,
        type=ConfigType.BOOLEAN,
        default=None,
        documentation="Whether the broker's replicas copy everything without being in sync. Needs the feature tidelog.observers.",
        reason="no broker is an observer",
        update_mode=UpdateMode.PER_BROKER,
    ),
    OBSERVER_PROMOTION: ConfigKey(
        name=OBSERVER_PROMOTION,
        type=ConfigType.STRING,
        default=None,
        documentation="Whether partitions under min.insync.replicas take observers that have caught up: by-hand (none) or under-min-isr.",
        reason="observers come in sync by hand",
        update_mode=UpdateMode.CLUSTER_WIDE,
    ),
}
"""Like QUOTA_KEYS, but not Apache Kafka's.

The controller checks their values, which depend on the cluster.
"""
RUNTIME_KEYS = {**QUOTA_KEYS, **OBSERVER_KEYS}


def with_update_modes(keys: Iterable[ConfigKey]) -> list[ConfigKey]:
    """Return the keys with the update modes and visibility from these lists."""
    return [
        replace(
            key,
            update_mode=_mode(key.name),
            is_internal=key.is_internal or key.name in INTERNAL | OUR_OWN,
            is_about_access=is_about_access(key.name),
        )
        for key in keys
    ]


def _mode(name: str) -> UpdateMode:
    if name in CLUSTER_WIDE:
        return UpdateMode.CLUSTER_WIDE
    return UpdateMode.PER_BROKER if name in PER_BROKER else UpdateMode.READ_ONLY


def base_name(name: str) -> str:
    """Return the key that a listener's override belongs to, or the name itself."""
    override = _override(name)
    return name if override is None else override[1]


def _override(name: str) -> tuple[str, str] | None:
    """Return listener and key of an override, None if the name is no override.

    The name of a listener may have dots (``EXT.A``), and keys have dots, too. So it ends where a key
    begins that listeners have. Before any other key it ends at its first dot, as in Apache Kafka.
    """
    if not name.startswith(LISTENER_PREFIX):
        return None
    listener, key = _split(name.removeprefix(LISTENER_PREFIX))
    if not key:
        return None
    may_have_mechanism = key in KEYS_OF_MECHANISMS or key.startswith(OAUTH_PREFIX)
    for mechanism in _MECHANISMS:
        if may_have_mechanism and listener.endswith(f".{mechanism}"):
            return listener.removesuffix(f".{mechanism}"), key
        if key.startswith(f"{mechanism}."):
            return listener, key.removeprefix(f"{mechanism}.") or key
    return listener, key


def _split(rest: str) -> tuple[str, str]:
    """Split an override without its prefix before its key. Works on long names, too."""
    start = rest.find(f".{OAUTH_PREFIX}")
    if start > 0:
        return rest[:start], rest[start + 1 :]
    words = rest.rsplit(".", _MOST_WORDS)
    for position in range(1, len(words)):
        key = ".".join(words[position:])
        if key in _OF_LISTENERS and len(key) + 1 < len(rest):
            return rest[: -len(key) - 1], key
    listener, _, key = rest.partition(".")
    return listener, key


def is_about_access(name: str) -> bool:
    """Whether a key decides who may log in, as whom, or who the broker shows itself to be."""
    base = base_name(name)
    return base in ABOUT_ACCESS or base.startswith(OAUTH_PREFIX)


def counts_from_file_alone(name: str) -> bool:
    """Whether a request that sets the key for a broker changes nothing.

    A JAAS text of PLAIN does change the users.
    """
    base = base_name(name)
    return base in FILE_ALONE or (base == "sasl.jaas.config" and not name.endswith(".plain.sasl.jaas.config"))


def listener_name(name: str) -> str | None:
    """Return the upper-case listener of a key, None for a key without a listener's prefix."""
    override = _override(name)
    return None if override is None else override[0].upper()
