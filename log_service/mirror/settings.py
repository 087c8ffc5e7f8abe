"""The settings of a mirror: clusters, flows between them, and the content of each flow (KIP-382).

The keys are MirrorMaker's. This module decides the meaning of each key and refuses invalid ones. A
key of a flow is looked up as ``A->B.key`` first, then as ``key``, which holds for all flows. A key
of a cluster is ``A.`` and the key of a Kafka client. The caller passes in the file's text.

Invariants: errors name keys and aliases, never secrets. Enabled flows do not mirror a topic back
into its own cluster, or topics of two sources into one topic. Here this is checked with each name
and pattern of the file as a topic's name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from log_service.common.errors import ConfigError, KafkaError
from log_service.common.regexes import is_match, validate_regex
from log_service.config.client import COMPRESSIONS, ProducerConfig
from log_service.config.client_properties import settings_of_properties
from log_service.config.properties import parse_properties
from log_service.mirror.replication_policy import ReplicationPolicy, is_internal

ALIAS = re.compile(r"[A-Za-z0-9_-]{1,60}")
ARROW: Final = "->"
IDENTITY, DEFAULT = "IdentityReplicationPolicy", "DefaultReplicationPolicy"
POLICIES = {"default": False, "identity": True, DEFAULT.lower(): False, IDENTITY.lower(): True}
RESETS = ("earliest", "latest")
BOOLEANS = {"true": True, "false": False}
MAX_SECONDS = 86_400

FLOW_DEFAULTS: Mapping[str, str] = {
    "enabled": "false",
    "topics": ".*",
    "topics.exclude": r".*[\-\.]internal, .*\.replica, __.*",
    "groups": ".*",
    "groups.exclude": r"console-consumer-.*, connect-.*, __.*, tidelog\..*, tidelog-topic\..*",
    "config.properties.exclude": (
        r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
        r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type,"
        r" unclean\.leader\.election\.enable, min\.insync\.replicas"
    ),
    "replication.policy.class": DEFAULT,
    "replication.policy.separator": ".",
    "replication.factor": "-1",
    "refresh.topics.interval.seconds": "30",
    "sync.topic.configs.enabled": "true",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "10",
    "consumer.auto.offset.reset": "earliest",
    "commit.interval.ms": "100",
}
"""The keys of flows, with their defaults."""

WITHOUT_MEANING: Final = re.compile(
    r"(emit\.(heartbeats|checkpoints)|heartbeats\.|checkpoints\.|offset[.-](syncs|lag|flush)|sync\.topic\.acls|refresh\.groups|tasks\.max"
    r"|(refresh\.topics|sync\.topic\.configs)\.(enabled|interval)|(topic|group|config\.property)\.filter\.class|producer\.|consumer\.|admin\.).*"
)
"""Keys of MirrorMaker's that this mirror has no use for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The alias of a cluster, its bootstrap servers, and settings of the clients that connect."""

    alias: str
    bootstrap_servers: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    compression: str = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """The settings of one flow.

    ``topics``, ``groups`` and the excluded names are regular expressions that match whole names.
    """

    source: ClusterSettings
    target: ClusterSettings
    policy: ReplicationPolicy
    topics: tuple[str, ...]
    topics_excluded: tuple[str, ...]
    groups: tuple[str, ...]
    groups_excluded: tuple[str, ...]
    configs_excluded: tuple[str, ...]
    replication_factor: int
    refresh_topics_s: int
    is_syncing_configs: bool
    is_syncing_groups: bool
    sync_groups_s: int
    auto_offset_reset: str
    commit_interval_ms: int

    @property
    def name(self) -> str:
        """The flow's name for people, as in the file: ``A->B``."""
        return f"{self.source.alias}{ARROW}{self.target.alias}"

    @property
    def offsets_topic(self) -> str:
        """The topic of the target cluster that holds the flow's progress."""
        return f"mirror-offsets.{self.source.alias}.internal"

    @property
    def transactional_id(self) -> str:
        """The transactional id of the flow's producer. It allows one producer at a time."""
        return f"tidelog-mirror.{self.source.alias}.{self.target.alias}"

    def remote_topic(self, topic: str) -> str:
        """Return the name that a topic of the source gets in the target."""
        return self.policy.remote_topic(self.source.alias, topic)

    def selects_topic(self, topic: str) -> bool:
        """Whether the flow's patterns select a topic of the source, by its name alone.

        Internal topics and topics that came from the target are not selected. ``loop_of`` and
        ``mixed_with`` may still exclude the topic.
        """
        is_wanted = _matches_any(self.topics, topic) and not _matches_any(
            self.topics_excluded, topic
        )
        return (
            is_wanted
            and not is_internal(topic)
            and not self.policy.is_cycle(topic, self.target.alias)
        )

    def selects_group(self, group_id: str) -> bool:
        """Whether the flow copies the committed offsets of a group of the source."""
        return _matches_any(self.groups, group_id) and not _matches_any(
            self.groups_excluded, group_id
        )

    def selects_config(self, key: str) -> bool:
        """Whether the flow copies the topic config ``key`` to the target."""
        return not _matches_any(self.configs_excluded, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """The settings of one file. ``unused`` are keys of the file that have no effect."""

    flows: tuple[FlowSettings, ...]
    unused: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, name: str) -> "MirrorSettings":
        """Return the settings in the text of a properties file. Errors call the file ``name``.

        Raises:
            ConfigError: a cluster is not declared, no flow is enabled, a value is invalid for its
                key, or flows bring a topic back to its own cluster or mix topics of several
                sources.
        """
        return _Reading(parse_properties(text), name).settings()


def loop_of(flows: Sequence[FlowSettings], flow: FlowSettings, topic: str) -> tuple[str, ...]:
    """Return the names of the flows, in order, that bring ``topic`` back to the source of ``flow``.

    The result is empty if the topic does not come back. This can only happen with the identity
    policy, because the default policy puts the alias of the source into the topic's name.
    """
    return _path_back(flows, flow.source.alias, flow, topic, ())


def mixed_with(flows: Sequence[FlowSettings], flow: FlowSettings, topic: str) -> tuple[str, ...]:
    """Return the names of the other flows that would write into the target topic of ``topic``.

    They would if their sources have a topic of the same name. The result is empty with the default
    policy, because it puts the alias of the source into the topic's name.
    """
    return tuple(
        each.name
        for each in flows
        if each.target.alias == flow.target.alias
        and each.source.alias != flow.source.alias
        and each.selects_topic(topic)
        and each.remote_topic(topic) == flow.remote_topic(topic)
    )


def _path_back(
    flows: Sequence[FlowSettings],
    start: str,
    flow: FlowSettings,
    topic: str,
    passed: tuple[FlowSettings, ...],
) -> tuple[str, ...]:
    if flow in passed or not flow.selects_topic(topic):
        return ()
    passed = (*passed, flow)
    if flow.target.alias == start:
        return tuple(each.name for each in passed)
    arrived = flow.remote_topic(topic)
    onward = (
        _path_back(flows, start, each, arrived, passed)
        for each in flows
        if each.source.alias == flow.target.alias
    )
    return next((path for path in onward if path), ())


def _matches_any(patterns: Iterable[str], name: str) -> bool:
    return any(is_match(pattern, name) for pattern in patterns)


class _Reading:
    """Turns the properties of one file into settings, and remembers which keys it used."""

    def __init__(self, properties: Mapping[str, str], name: str) -> None:
        self._properties = properties
        self._name = name
        self._used: set[str] = set()

    def settings(self) -> MirrorSettings:
        """Return the settings in the file.

        Raises:
            ConfigError: as ``MirrorSettings.of``.
        """
        clusters = {alias: self._cluster(alias) for alias in self._aliases()}
        pairs = self._pairs(clusters)
        self._refuse_unknown(pairs)
        enabled = [pair for pair in pairs if self._boolean(pair, "enabled")]
        if not enabled:
            raise ConfigError(
                f"{self._name} enables no flow: write, say,"
                f" {ARROW.join([*clusters][:2])}.enabled=true"
            )
        flows = tuple(
            self._flow(clusters[source], clusters[target], (source, target))
            for source, target in enabled
        )
        self._refuse_circles(flows)
        self._refuse_mixtures(flows)
        known = {
            f"{ARROW.join(pair)}.{key}" for pair in pairs for key in FLOW_DEFAULTS
        } | FLOW_DEFAULTS.keys()
        return MirrorSettings(
            flows=flows, unused=tuple(sorted(self._properties.keys() - self._used - known))
        )

    def _aliases(self) -> list[str]:
        aliases = self._list(self._taken("clusters", ""))
        if len(aliases) < 2 or len(set(aliases)) != len(aliases):
            raise ConfigError(
                f"{self._name}: clusters has to list two or more aliases, each once, as in:"
                " clusters = A, B"
            )
        for alias in aliases:
            if ALIAS.fullmatch(alias) is None:
                raise ConfigError(
                    f"{self._name}: the alias {alias!r} of a cluster may have letters, digits, '_'"
                    " and '-' only, at most 60"
                )
        return aliases

    def _cluster(self, alias: str) -> ClusterSettings:
        own = {
            key.removeprefix(f"{alias}."): value
            for key, value in self._properties.items()
            if key.startswith(f"{alias}.")
        }
        servers = own.pop("bootstrap.servers", "").strip()
        if not servers:
            raise ConfigError(
                f"{self._name} does not say where the cluster {alias} is: write"
                f" {alias}.bootstrap.servers=host:port"
            )
        compression = own.pop(
            "producer.compression.type", self._taken("producer.compression.type", COMPRESSIONS[0])
        ).strip()
        client = settings_of_properties(own, f"{self._name}, cluster {alias}")
        try:
            ProducerConfig.of(servers, {**client, "compression": compression})
        except ConfigError as error:
            raise ConfigError(f"{self._name}, cluster {alias}: {error}") from error
        named = {f"{alias}.{key}" for key in ("bootstrap.servers", "producer.compression.type")}
        self._used |= named | {
            f"{alias}.{key}" for key in own if settings_of_properties({key: own[key]}, "")
        }
        return ClusterSettings(
            alias=alias, bootstrap_servers=servers, client=client, compression=compression
        )

    def _pairs(self, clusters: Mapping[str, ClusterSettings]) -> list[tuple[str, str]]:
        """Return the aliases of source and target of each flow that a key of the file names.

        Raises:
            ConfigError: an alias is not among the clusters, or source and target are the same.
        """
        pairs: dict[tuple[str, str], None] = {}
        for key in self._properties:
            named, _, _ = key.partition(".")
            source, arrow, target = named.partition(ARROW)
            if not arrow:
                continue
            unknown = [alias for alias in (source, target) if alias not in clusters]
            if unknown or source == target:
                what = (
                    f"{unknown[0]!r} is not among its clusters"
                    if unknown
                    else "it goes to where it comes from"
                )
                raise ConfigError(f"{self._name}: {key} names no flow: {what}")
            pairs[source, target] = None
        return [*pairs]

    def _refuse_unknown(self, pairs: Iterable[tuple[str, str]]) -> None:
        for pair in pairs:
            prefix = f"{ARROW.join(pair)}."
            for name in self._properties:
                key = name.removeprefix(prefix)
                if (
                    name.startswith(prefix)
                    and key not in FLOW_DEFAULTS
                    and WITHOUT_MEANING.fullmatch(key) is None
                ):
                    near = get_close_matches(key, FLOW_DEFAULTS, 1)
                    hint = (
                        f"did you mean {prefix}{near[0]}?"
                        if near
                        else f"a flow has {', '.join(FLOW_DEFAULTS)}"
                    )
                    raise ConfigError(f"{self._name}: a flow has no key {key!r}; {hint}")

    def _flow(
        self, source: ClusterSettings, target: ClusterSettings, pair: tuple[str, str]
    ) -> FlowSettings:
        reset = self._value(pair, "consumer.auto.offset.reset").strip()
        if reset not in RESETS:
            raise ConfigError(
                f"{self._called(pair, 'consumer.auto.offset.reset')} must be {' or '.join(RESETS)},"
                f" not {reset!r}"
            )
        return FlowSettings(
            source=source,
            target=target,
            policy=self._policy(pair),
            topics=self._patterns(pair, "topics"),
            topics_excluded=self._patterns(pair, "topics.exclude"),
            groups=self._patterns(pair, "groups"),
            groups_excluded=self._patterns(pair, "groups.exclude"),
            configs_excluded=self._patterns(pair, "config.properties.exclude"),
            replication_factor=self._number(pair, "replication.factor", -1, 32_767),
            refresh_topics_s=self._number(pair, "refresh.topics.interval.seconds", 1, MAX_SECONDS),
            is_syncing_configs=self._boolean(pair, "sync.topic.configs.enabled"),
            is_syncing_groups=self._boolean(pair, "sync.group.offsets.enabled"),
            sync_groups_s=self._number(pair, "sync.group.offsets.interval.seconds", 1, MAX_SECONDS),
            auto_offset_reset=reset,
            commit_interval_ms=self._number(pair, "commit.interval.ms", 0, 10_000),
        )

    def _policy(self, pair: tuple[str, str]) -> ReplicationPolicy:
        given = self._value(pair, "replication.policy.class").strip()
        is_identity = POLICIES.get(given.rpartition(".")[2].lower())
        separator = self._value(pair, "replication.policy.separator").strip()
        if is_identity is None:
            text = (
                f"{self._called(pair, 'replication.policy.class')} must be {DEFAULT} or {IDENTITY},"
                f" not {given!r}"
            )
            raise ConfigError(text)
        if re.fullmatch(r"[._-]{1,8}", separator) is None:
            raise ConfigError(
                f"{self._called(pair, 'replication.policy.separator')} must be of '.', '_' and '-',"
                f" not {separator!r}"
            )
        return ReplicationPolicy(is_identity=is_identity, separator=separator)

    def _refuse_circles(self, flows: Sequence[FlowSettings]) -> None:
        """Refuse flows that bring a topic back to its own cluster.

        Each name and pattern of the file is tried as the name of a topic.

        Raises:
            ConfigError: there are such flows.
        """
        for flow in flows:
            for topic in flow.topics:
                if path := loop_of(flows, flow, topic):
                    raise ConfigError(
                        f"{self._name}: {' and '.join(path)} would carry the topic {topic} round in"
                        " a circle, because the identity policy keeps names: give each direction"
                        f" topics of its own, or use {DEFAULT}"
                    )

    def _refuse_mixtures(self, flows: Sequence[FlowSettings]) -> None:
        """Refuse flows that mirror topics of several sources into one topic.

        Each name and pattern of the file is tried as the name of a topic.

        Raises:
            ConfigError: there are such flows.
        """
        for flow in flows:
            for topic in flow.topics:
                if flow.selects_topic(topic) and (others := mixed_with(flows, flow, topic)):
                    raise ConfigError(
                        f"{self._name}: {' and '.join((flow.name, *others))} would mix the topics"
                        f" {topic} of their sources in one, because the identity policy keeps"
                        f" names: give each source topics of its own, or use {DEFAULT}"
                    )

    # Values

    def _value(self, pair: tuple[str, str], key: str) -> str:
        return self._properties.get(
            f"{ARROW.join(pair)}.{key}", self._properties.get(key, FLOW_DEFAULTS[key])
        )

    def _called(self, pair: tuple[str, str], key: str) -> str:
        return f"{self._name}: {ARROW.join(pair)}.{key}"

    def _boolean(self, pair: tuple[str, str], key: str) -> bool:
        value = self._value(pair, key).strip().lower()
        if value not in BOOLEANS:
            raise ConfigError(f"{self._called(pair, key)} must be true or false, not {value!r}")
        return BOOLEANS[value]

    def _number(self, pair: tuple[str, str], key: str, at_least: int, at_most: int) -> int:
        value = self._value(pair, key).strip()
        if re.fullmatch(r"-?[0-9]{1,9}", value) is None or not at_least <= int(value) <= at_most:
            raise ConfigError(
                f"{self._called(pair, key)} must be a whole number from {at_least} to {at_most},"
                f" not {value!r}"
            )
        return int(value)

    def _patterns(self, pair: tuple[str, str], key: str) -> tuple[str, ...]:
        patterns = self._list(self._value(pair, key))
        for pattern in patterns:
            try:
                validate_regex(pattern)
            except KafkaError as error:
                raise ConfigError(f"{self._called(pair, key)}: {error}") from error
        return tuple(patterns)

    def _taken(self, key: str, default: str) -> str:
        self._used.add(key)
        return self._properties.get(key, default)

    @staticmethod
    def _list(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]
