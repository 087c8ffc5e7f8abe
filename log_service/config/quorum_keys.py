"""The keys of the metadata quorum in Kafka's server properties: its members, times and sizes.

This module declares names, types, defaults and bounds. ``config.quorum`` decides what a combination
means. The defaults are Kafka's, because voters of both products in one quorum must agree on
timeouts.
"""

import re

from log_service.config.definition import (
    BOOLEAN,
    INT,
    ConfigKey,
    ConfigType,
    Importance,
    Validator,
    Value,
    ViewField,
    at_least,
    declared,
    to,
)

VOTER = re.compile(r"(?P<id>\d{1,10})@(?P<host>.+):(?P<port>\d{1,5})")
BOOTSTRAP_SERVER = re.compile(r"(?P<host>.+):(?P<port>\d{1,5})")


def _each(pattern: re.Pattern[str], shape: str) -> Validator:
    """Return a validator that accepts lists in which every item matches a pattern."""

    def validate(value: Value) -> str | None:
        assert isinstance(value, tuple)
        strange = [item for item in value if not pattern.fullmatch(item)]
        return f"it names {strange[0]!r}, which is not {shape}" if strange else None

    return validate


def _number(
    name: str,
    default: str,
    lowest: int,
    documentation: str,
    reason: str,
    *,
    fields: tuple[ViewField, ...],
) -> ConfigKey:
    return declared(
        name, INT, default, documentation, reason, validator=at_least(lowest), fields=fields
    )


QUORUM_KEYS = (
    ConfigKey(
        name="controller.quorum.voters",
        type=ConfigType.LIST,
        default="",
        documentation=("Voters of the metadata quorum as id@host:port, the same list on every node. The "
"list is not used once the metadata names the voters."),
        reason="this node alone is the quorum",
        validator=_each(VOTER, "id@host:port"),
        importance=Importance.HIGH,
    ),
    ConfigKey(
        name="controller.quorum.bootstrap.servers",
        type=ConfigType.LIST,
        default="",
        documentation=("Controllers, as host:port, that a node asks for the leader of the metadata "
"quorum."),
        reason="this node alone is the quorum",
        validator=_each(BOOTSTRAP_SERVER, "host:port"),
        importance=Importance.HIGH,
    ),
    _number("controller.quorum.election.timeout.ms", "1000", 0, "A voter that knows no leader waits between one and two times this "
            "before it stands for election.", "as in Apache Kafka", fields=to("QuorumConfig.election_timeout_ms")),
    _number("controller.quorum.fetch.timeout.ms", "2000", 0, "A voter that hears nothing from its leader for this time stands for "
            "election. A leader that a majority does not fetch from for one and a half times this time resigns.", "as in Apache Kafka",
            fields=to("QuorumConfig.fetch_timeout_ms")),
    _number("controller.quorum.election.backoff.max.ms", "1000", 0, "The longest wait before an election after a leader has resigned.",
            "as in Apache Kafka", fields=to("QuorumConfig.election_backoff_max_ms")),
    _number("controller.quorum.request.timeout.ms", "2000", 0, "How long a request to another controller may take.",
            "as in Apache Kafka", fields=to("QuorumConfig.request_timeout_ms")),
    _number("controller.quorum.retry.backoff.ms", "20", 0, "Pause before the next request to a controller after a failed one.",
            "as in Apache Kafka", fields=to("QuorumConfig.retry_backoff_ms")),
    _number("controller.quorum.fetch.max.bytes", "1048576", 1, "Bytes of metadata records in one response.", "as in Apache Kafka",
            fields=to("QuorumConfig.fetch_max_bytes")),
    _number("controller.quorum.fetch.snapshot.max.bytes", "1048576", 1, "Bytes of a snapshot in one response.", "as in Apache Kafka",
            fields=to("QuorumConfig.snapshot_max_bytes")),
    ConfigKey(
        name="controller.quorum.auto.join.enable",
        type=BOOLEAN,
        default="false",
        documentation=("Whether a controller that is not a voter asks to become one. It needs "
"kraft.version 1."),
        reason="as in Apache Kafka",
        fields=to("QuorumConfig.is_auto_join_enabled"),
    ),
    _number("metadata.max.idle.interval.ms", "500", 0, "How often the active controller of a quorum with several voters writes an "
            "empty record, so that the other nodes can tell that they are up to date. 0 means never.", "as in Apache Kafka",
            fields=to("QuorumConfig.max_idle_interval_ms")),
)  # fmt: skip
