"""The keys of groups (KIP-848, KIP-932, KIP-1071) and of client metrics subscriptions (KIP-714).

This module declares names, types, defaults and bounds, so that tools find the keys of Apache Kafka
4.3. The default of a group's key is the broker's key of the same name with ``group.`` before it.
Some keys also have the broker's least and greatest allowed value. An internal key is not Apache
Kafka's. A request for all keys of a group shows it only if it is set.
"""

import re
from collections.abc import Mapping
from typing import Unpack

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.regexes import validate_regex
from log_service.common.topic_names import INTERNAL_TOPICS, topic_name_fault
from log_service.config.definition import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    ConfigKey,
    ConfigType,
    Options,
    Trait,
    Validator,
    Value,
    declared,
    keyed,
    no_empty_item,
    one_of,
)
from log_service.config.server_keys import SERVER_KEYS

GROUP_PREFIX = "group."
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
"""The topic for records that no member of a share group could process.

The name follows KIP-1191.
"""
MIN_PUSH_INTERVAL_MS, MAX_PUSH_INTERVAL_MS = 100, 3_600_000
CLIENT_ATTRIBUTES = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def _reset_policy(value: Value) -> str | None:
    """Accept latest, earliest, or by_duration: with an ISO 8601 duration.

    Return an error text for any other value.
    """
    text = str(value).lower()
    if text in {"latest", "earliest"} or re.fullmatch(
        r"by_duration:p(?=.)(\d+d)?(t(?=.)(\d+h)?(\d+m)?(\d+(\.\d+)?s)?)?", text
    ):
        return None
    return "it must be latest, earliest, or by_duration: with a duration such as PT1H"


def _dead_letter_topic(value: Value) -> str | None:
    """Accept an empty text and a topic that clients may write to, or return an error text."""
    name = str(value)
    if not name:
        return None
    fault = topic_name_fault(name)
    if fault is None and name in INTERNAL_TOPICS:
        fault = "only brokers write to it"
    return None if fault is None else f"it must be the name of a topic: {fault}"


def _key(
    name: str,
    config_type: ConfigType,
    default: str,
    documentation: str,
    validator: Validator | None = None,
    *,
    reason: str = "as in Apache Kafka",
    **options: Unpack[Options],
) -> ConfigKey:
    return declared(
        name, config_type, default, documentation, reason, validator=validator, **options
    )


def _as_of_broker(name: str, documentation: str) -> ConfigKey:
    """Return a group's key with the default, bounds and effect of the broker's key."""
    key = SERVER_KEYS[GROUP_PREFIX + name]
    assert key.default is not None
    return _key(name, INT, key.default, documentation, key.validator, is_acting=key.is_acting)


_SAME_AS_BROKER = (
    "consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.assignment.interval.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
    "streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas",
    "streams.session.timeout.ms",
)

GROUP_KEYS: Mapping[str, ConfigKey] = keyed(
    (
        *(
            _as_of_broker(name, f"The value of the broker's {GROUP_PREFIX}{name} for one group.")
            for name in _SAME_AS_BROKER
        ),
        _key(
            "share.auto.offset.reset",
            STRING,
            "latest",
            "The offset at which a share group begins to read a topic.",
            _reset_policy,
        ),
        _key(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            "Whether a share group reads records of open transactions.",
            one_of("read_committed", "read_uncommitted"),
        ),
        _key(
            "share.renew.acknowledge.enable",
            BOOLEAN,
            "true",
            "Whether members of a share group may renew their locks.",
        ),
        _key(
            DEAD_LETTER_TOPIC,
            STRING,
            "",
            "The topic for records that members of a share group reject, or that were delivered"
            " too often. Empty means that such records are dropped. Tidelog's own key, named after"
            " KIP-1191.",
            _dead_letter_topic,
            reason="a group without dead letters has no extra work",
            traits=Trait.OWN,
        ),
    )
)

CLIENT_METRICS_KEYS: Mapping[str, ConfigKey] = keyed(
    (
        _key("interval.ms", INT, "300000", "How often clients push their metrics."),
        _key(
            "match",
            LIST,
            "",
            "The clients that push metrics, as attribute=pattern. All patterns must match.",
            no_empty_item,
        ),
        _key(
            "metrics", LIST, "", "Prefixes of the metrics that are pushed. * is all.", no_empty_item
        ),
    )
)


def broker_synonym(group_key: str) -> str | None:
    """Return the broker key whose value is a group key's default, or None if there is none."""
    name = GROUP_PREFIX + group_key
    return name if name in SERVER_KEYS else None


def validate_group_configs(configs: Mapping[str, str], static: Mapping[str, str]) -> None:
    """Check all values of one group, also against the broker's bounds.

    Raises:
        KafkaError: INVALID_CONFIG.
    """
    for name, text in configs.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} is not a configuration of groups")
        value = _parsed(key, text)
        for bound, is_too_far in (("min", int.__lt__), ("max", int.__gt__)):
            limit = _limit(name, bound, static)
            if limit is not None and isinstance(value, int) and is_too_far(value, limit):
                side = "below" if bound == "min" else "above"
                complaint = (
                    f"{name} {value} is {side} the broker's {_limit_name(name, bound)}, which is"
                    f" {limit}"
                )
                raise KafkaError(ErrorCode.INVALID_CONFIG, complaint)


def _limit_name(name: str, bound: str) -> str:
    protocol, _, rest = name.partition(".")
    rest = rest.removeprefix("num.") if bound == "max" and protocol == "streams" else rest
    return f"{GROUP_PREFIX}{protocol}.{bound}.{rest}"


def _limit(name: str, bound: str, static: Mapping[str, str]) -> int | None:
    key = SERVER_KEYS.get(_limit_name(name, bound))
    if key is None:
        return None
    value = key.parse(static.get(key.name, key.default or ""))
    assert isinstance(value, int)
    return value


def validate_client_metrics_configs(name: str, configs: Mapping[str, str]) -> None:
    """Check all values of one client metrics subscription.

    Raises:
        KafkaError: INVALID_REQUEST, there is no such key, or the interval is out of bounds;
            INVALID_CONFIG, a value is not valid for its key, or a pattern makes no sense.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a client metrics subscription needs a name")
    for key_name, text in configs.items():
        key = CLIENT_METRICS_KEYS.get(key_name)
        if key is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"{key_name} is not a configuration of client metrics"
            )
        value = _parsed(key, text)
        if isinstance(value, int) and not MIN_PUSH_INTERVAL_MS <= value <= MAX_PUSH_INTERVAL_MS:
            complaint = (
                f"interval.ms {value} is not between {MIN_PUSH_INTERVAL_MS} and"
                f" {MAX_PUSH_INTERVAL_MS}"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, complaint)
        if key_name == "match" and isinstance(value, tuple):
            _validate_patterns(value)


def _validate_patterns(patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        attribute, equals, expression = pattern.partition("=")
        if not equals or attribute.strip() not in CLIENT_ATTRIBUTES:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"match holds {pattern!r}, which is not attribute=pattern of a client",
            )
        try:
            validate_regex(expression.strip())
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"match holds {pattern!r}: {error}"
            ) from error


def _parsed(key: ConfigKey, text: str) -> Value:
    try:
        return key.parse(text)
    except ConfigError as fault:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(fault)) from fault
