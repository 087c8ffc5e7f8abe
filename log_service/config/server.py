"""The configuration of one node, from Kafka's server properties.

This module decides what the keys of a file mean together. It reads no file and knows no machine. An
override takes precedence over the file. A key that would enable a missing feature, such as a policy
in Java or remote storage, is a ``ConfigError``. A harmless key without effect is accepted. An
unknown name goes into ``ServerSettings.unknown_keys``, for one warning.

The file may name a listener of the controller, as Kafka's own sample of a combined node does. Its
address goes into the voter record, and admin clients that connect to a controller use it (KIP-919).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from os.path import normpath
from pathlib import Path

from log_service.common.errors import ConfigError
from log_service.config.authorizer import authorizer_config
from log_service.config.authorizer_keys import comma_warning
from log_service.config.client_security import LoginConfig
from log_service.config.definition import Trait, unknown_keys_warning
from log_service.config.describe import broker_key
from log_service.config.dynamic_broker_config import dynamic_broker_config
from log_service.config.dynamic_keys import base_name, traits_of
from log_service.config.group_times import with_times
from log_service.config.heartbeats import refuse_too_rare
from log_service.config.internal_topics import lone_factor, lone_min_isr
from log_service.config.listeners import (
    ListenerKeys,
    broker_listeners,
    controller_listeners,
    controller_security,
    inter_broker_listener,
    parse_end_points,
    parse_metrics_listener,
    parse_protocol_map,
)
from log_service.config.properties import RepeatedKey, parse_properties, repeated_keys
from log_service.config.quorum import begins_alone, quorum_config, roles, validate_roles
from log_service.config.resolve import log_defaults
from log_service.config.sasl import general_jaas_warning, node_login
from log_service.config.schema_registry import schema_registry_config
from log_service.config.security import PLAINTEXT_SECURITY, ListenerSecurity
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.server_values import ServerValues
from log_service.config.share_groups import share_groups, share_states
from log_service.config.views import (
    ConsumerGroupConfig,
    FetchConfig,
    GroupConfig,
    ListenerConfig,
    LogManagerConfig,
    MetadataLogConfig,
    NetworkLimits,
    NodeConfig,
    QuotaWindows,
    ReplicationConfig,
    ShareFetchConfig,
    StreamsGroupConfig,
    TokenConfig,
    TopicDefaults,
    TransactionConfig,
    VerificationConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The keys that were set: their texts, and which are unknown, without effect, or repeated."""

    texts: Mapping[str, str] = field(repr=False)
    unknown_keys: tuple[str, ...] = ()
    idle_keys: tuple[str, ...] = ()
    repeated_keys: tuple[RepeatedKey, ...] = ()

    @property
    def warning(self) -> str | None:
        """A warning that names the unknown keys and the closest known ones, or None."""
        return unknown_keys_warning(self.unknown_keys, SERVER_KEYS)

    @property
    def idle_warning(self) -> str | None:
        """A warning that names the keys that were set but have no effect here, or None."""
        if not self.idle_keys:
            return None
        return (
            "these keys of Apache Kafka have no effect here (each says why in its documentation):"
            f" {', '.join(self.idle_keys)}"
        )

    @property
    def repeated_warning(self) -> str | None:
        """A warning that names repeated keys of the file, and the lines that count, or None."""
        if not self.repeated_keys:
            return None
        return f"{'; '.join(each.text for each in self.repeated_keys)}. Leave one line of each"

    @property
    def jaas_warning(self) -> str | None:
        """A warning if a JAAS text was set that has no effect on a node, or None.

        The text is not shown.
        """
        return general_jaas_warning(self.texts)

    @property
    def super_users_warning(self) -> str | None:
        """A warning if ``super.users`` seems to separate principals by commas, or None."""
        return comma_warning(self.texts.get("super.users", ""))


REPLICA_SELECTORS = ("RackAwareReplicaSelector", "LeaderSelector")


def parse_server_properties(
    source: str | Mapping[str, str], overrides: Sequence[str] = (), *, host_name: str = "localhost"
) -> tuple[NodeConfig, ServerSettings]:
    """Return the node's configuration and the keys that were set.

    ``source`` is the text of a .properties file, or its properties. ``overrides`` are ``key=value``
    texts. ``host_name`` is advertised for a listener on every address (``PLAINTEXT://:9092``) if
    ``advertised.listeners`` is not set.

    Raises:
        ConfigError: a value is not valid for its key, or needs a feature that is not supported. The
            message says what to do.
    """
    texts = property_texts(source, overrides)
    _refuse_what_is_not_there(texts)
    for name, text in texts.items():
        key = broker_key(name)
        if key is not None:
            key.parse(text)
    known = {name: text for name, text in texts.items() if name in SERVER_KEYS}
    config = _node_config(ServerValues(known), texts, host_name)
    texts |= {"node.id": str(config.node_id), "broker.id": str(config.node_id)}
    unknown = tuple(sorted(name for name in texts if broker_key(name) is None))
    repeated = _repeated_keys(source, overrides)
    return config, ServerSettings(
        texts=texts, unknown_keys=unknown, idle_keys=idle_keys(texts), repeated_keys=repeated
    )


def property_texts(source: str | Mapping[str, str], overrides: Sequence[str]) -> dict[str, str]:
    """Return the texts of the file by key, replaced by those of ``overrides``."""
    return {
        **(parse_properties(source) if isinstance(source, str) else source),
        **dict(map(parse_override, overrides)),
    }


def _repeated_keys(
    source: str | Mapping[str, str], overrides: Sequence[str]
) -> tuple[RepeatedKey, ...]:
    """Return the keys that the file sets more than once, except overridden ones."""
    overridden = {name for name, _ in map(parse_override, overrides)}
    found = repeated_keys(source) if isinstance(source, str) else ()
    return tuple(each for each in found if each.name not in overridden)


def parse_override(text: str) -> tuple[str, str]:
    """Return key and value of one ``key=value``.

    Raises:
        ConfigError: there is no ``=``, or no key before it.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"override {text!r} is not key=value")
    return name.strip(), value.strip()


def idle_keys(texts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys without effect here that are not at their default.

    An override for a listener is one of them whatever its value, if its key has no effect on
    listeners. Every text must be valid.
    """
    return tuple(sorted(name for name, text in texts.items() if _is_idle(name, text)))


def _is_idle(name: str, text: str) -> bool:
    key = broker_key(name)
    if key is None:
        return False
    if name not in SERVER_KEYS and Trait.LISTENER not in traits_of(base_name(name)):
        return True
    return not key.is_acting and (key.default is None or key.parse(text) != key.parse(key.default))


def _refuse_what_is_not_there(texts: Mapping[str, str]) -> None:
    for name in sorted(texts):
        key = SERVER_KEYS.get(name)
        if key is not None and key.is_refused(texts[name]):
            raise ConfigError(f"{name} asks for {key.refusal}")


def _node_config(values: ServerValues, texts: Mapping[str, str], host_name: str) -> NodeConfig:
    node_id, node_roles = _node_id(values), roles(values)
    keys = _listener_keys(values, texts, host_name)
    quorum = quorum_config(values, keys.controller_names[0])
    own_controllers = controller_listeners(keys)
    validate_roles(node_id, node_roles, quorum, keys.controller_names, own_controllers)
    refuse_too_rare(values, node_roles)
    listeners = broker_listeners(keys, is_broker="broker" in node_roles)
    is_alone = begins_alone(node_roles, quorum, own_controllers)
    if is_alone and not own_controllers:  # its voter record names a listener of its broker
        quorum = replace(quorum, listener_name=listeners[0].name)
    to_controllers = _controller_security(keys, listeners, own_controllers, is_alone=is_alone)
    has_peers = not is_alone or bool(own_controllers)
    log_dirs = _log_dirs(values)
    dynamic = dynamic_broker_config(log_dirs, texts)
    metadata_log_dir = Path(values.optional_text("metadata.log.dir") or log_dirs[0])
    config = values.view(
        NodeConfig,
        node_id=node_id,
        listeners=listeners,
        log_manager=values.view(
            LogManagerConfig,
            log_dirs=log_dirs,
            cordoned_log_dirs=dynamic.cordoned_log_dirs,
            cleaner=dynamic.cleaner,
        ),
        metadata_log_dir=metadata_log_dir,
        is_alone=is_alone,
        metrics_listener=parse_metrics_listener(values.text("metrics.listener")),
        inter_broker_listener_name=inter_broker_listener(keys, listeners),
        controller_listeners=own_controllers,
        controller_security=to_controllers,
        inter_broker_login=_broker_login(keys, listeners) if has_peers else None,
        controller_login=_controller_login(keys, to_controllers) if has_peers else None,
        quorum=quorum,
        log=log_defaults(texts),
        metadata_log=values.view(
            MetadataLogConfig, is_directory_apart=metadata_log_dir not in log_dirs
        ),
        limits=values.view(NetworkLimits, connections=dynamic.connections),
        groups=_groups(values),
        transactions=_transactions(values),
        share_states=share_states(values, is_only_voter=_is_only_voter(values)),
        fetch=values.view(FetchConfig),
        share_fetch=_share_fetch(values),
        topics=_topics(values),
        replication=values.view(ReplicationConfig, is_rack_aware=_is_rack_aware(values)),
        tokens=values.view(TokenConfig),
        quota_windows=values.view(QuotaWindows),
        mutation_quota_windows=_mutation_quota_windows(values),
        verification=values.view(VerificationConfig),
        authorizer=authorizer_config(values, frozenset(keys.controller_names)),
        schema_registry=schema_registry_config(texts),
    )
    return (
        config
        if values.flag("auto.leader.rebalance.enable")
        else replace(config, leader_balance_interval_ms=None)
    )


def _controller_security(
    keys: ListenerKeys,
    listeners: tuple[ListenerConfig, ...],
    own_controllers: tuple[ListenerConfig, ...],
    *,
    is_alone: bool,
) -> ListenerSecurity:
    if own_controllers:
        return own_controllers[0].security
    return PLAINTEXT_SECURITY if is_alone else controller_security(keys, listeners)


def _broker_login(keys: ListenerKeys, listeners: tuple[ListenerConfig, ...]) -> LoginConfig | None:
    """Return this node's login to other brokers, or None if their listener has no logins."""
    name = inter_broker_listener(keys, listeners)
    own = next((listener.security.sasl for listener in listeners if listener.name == name), None)
    return (
        None
        if own is None
        else node_login(keys.texts, name, "sasl.mechanism.inter.broker.protocol", own)
    )


def _controller_login(keys: ListenerKeys, security: ListenerSecurity) -> LoginConfig | None:
    """Return this node's login to controllers, or None if their listener has no logins."""
    if not security.protocol.startswith("SASL"):
        return None
    return node_login(
        keys.texts, keys.controller_names[0], "sasl.mechanism.controller.protocol", security.sasl
    )


def _node_id(values: ServerValues) -> int:
    broker_id = values.number("broker.id")
    if not values.is_set("node.id"):
        if broker_id < 0:
            raise ConfigError("node.id is missing; give the node a number, for example node.id=1")
        return broker_id
    node_id = values.number("node.id")
    if broker_id not in {-1, node_id}:
        raise ConfigError(
            f"node.id is {node_id} and broker.id is {broker_id}; they name the same thing, set"
            " node.id alone"
        )
    return node_id


def _listener_keys(values: ServerValues, texts: Mapping[str, str], host_name: str) -> ListenerKeys:
    advertised = values.items("advertised.listeners")
    return ListenerKeys(
        listeners=parse_end_points("listeners", values.items("listeners")),
        advertised=parse_end_points("advertised.listeners", advertised) if advertised else None,
        protocols=parse_protocol_map(values.text("listener.security.protocol.map")),
        controller_names=tuple(
            dict.fromkeys(name.upper() for name in values.items("controller.listener.names"))
        ),
        inter_broker_name=values.optional_text("inter.broker.listener.name"),
        inter_broker_protocol=values.text("security.inter.broker.protocol"),
        host_name=host_name,
        texts=texts,
    )


def _log_dirs(values: ServerValues) -> tuple[Path, ...]:
    names = values.items("log.dirs") if values.is_set("log.dirs") else values.items("log.dir")
    paths = [Path(normpath(name)) for name in names]
    if len(set(paths)) != len(names):
        raise ConfigError(f"log.dirs names a directory twice: {', '.join(names)}")
    for inner, outer in permutations(paths, 2):
        if outer in inner.parents:
            raise ConfigError(
                f"log.dirs names {inner}, which lies in {outer}: name directories that lie beside"
                " each other"
            )
    return tuple(Path(name) for name in names)


def _topics(values: ServerValues) -> TopicDefaults:
    return values.view(
        TopicDefaults,
        asked_partition_count=(
            values.number("num.partitions") if values.is_set("num.partitions") else -1
        ),
        asked_replication_factor=(
            values.number("default.replication.factor")
            if values.is_set("default.replication.factor")
            else -1
        ),
    )


def _mutation_quota_windows(values: ServerValues) -> QuotaWindows:
    size_s = values.number("controller.quota.window.size.seconds")
    return QuotaWindows(count=values.number("controller.quota.window.num"), size_ms=size_s * 1_000)


def _is_rack_aware(values: ServerValues) -> bool:
    name = values.optional_text("replica.selector.class")
    selector = "LeaderSelector" if name is None else name.rpartition(".")[2]
    if selector not in REPLICA_SELECTORS:
        text = (
            f"replica.selector.class is {name!r}; it must be one of {', '.join(REPLICA_SELECTORS)}:"
            " others are classes of Java"
        )
        raise ConfigError(text)
    return selector == "RackAwareReplicaSelector"


def _is_only_voter(values: ServerValues) -> bool:
    """Whether the file names no other node of the metadata quorum."""
    named = (
        values.items("controller.quorum.voters"),
        values.items("controller.quorum.bootstrap.servers"),
    )
    return "controller" in values.items("process.roles") and all(len(each) <= 1 for each in named)


def _transactions(values: ServerValues) -> TransactionConfig:
    is_only_voter = _is_only_voter(values)
    return values.view(
        TransactionConfig,
        lone_state_log_replication_factor=lone_factor(
            values, "transaction.state.log", is_only_voter=is_only_voter
        ),
        lone_state_log_min_isr=lone_min_isr(
            values, "transaction.state.log", is_only_voter=is_only_voter
        ),
    )


def _streams_groups(values: ServerValues) -> StreamsGroupConfig:
    wanted, most = (
        values.number("group.streams.num.standby.replicas"),
        values.number("group.streams.max.standby.replicas"),
    )
    if wanted > most:
        raise ConfigError(
            f"group.streams.num.standby.replicas is {wanted}, above"
            f" group.streams.max.standby.replicas, which is {most}"
        )
    return with_times(StreamsGroupConfig, values, "streams", node_id=_node_id(values))


def _share_fetch(values: ServerValues) -> ShareFetchConfig:
    def number(name: str) -> int:
        return values.number(f"group.share.{name}")

    for name in ("delivery.count.limit", "record.lock.duration.ms", "partition.max.record.locks"):
        least, value, most = number(f"min.{name}"), number(name), number(f"max.{name}")
        if not least <= value <= most:
            raise ConfigError(
                f"group.share.{name} is {value}, which is not between {least} and {most}, its min"
                " and max"
            )
    session_count, group_size = number("max.share.sessions"), number("max.size")
    if session_count < group_size:
        raise ConfigError(
            f"group.share.max.share.sessions is {session_count}, below group.share.max.size, which"
            f" is {group_size}"
        )
    return values.view(ShareFetchConfig)


def _groups(values: ServerValues) -> GroupConfig:
    shortest, longest = (
        values.number("group.min.session.timeout.ms"),
        values.number("group.max.session.timeout.ms"),
    )
    if shortest > longest:
        raise ConfigError(
            f"group.min.session.timeout.ms is {shortest}, above group.max.session.timeout.ms, which"
            f" is {longest}"
        )
    node_id = _node_id(values)
    return values.view(
        GroupConfig,
        lone_offsets_topic_replication_factor=lone_factor(
            values, "offsets.topic", is_only_voter=_is_only_voter(values)
        ),
        consumer=with_times(ConsumerGroupConfig, values, "consumer", node_id=node_id),
        streams=_streams_groups(values),
        share=share_groups(values, node_id),
    )
