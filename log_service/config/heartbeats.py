"""The heartbeat interval of brokers, checked against the session timeout of the controller.

Brokers use ``broker.heartbeat.interval.ms``, and controllers use ``broker.session.timeout.ms``. The
files of a cluster may differ, so a file is refused only if it sets both keys or the node has both
roles.
"""

from log_service.common.errors import ConfigError
from log_service.config.server_values import ServerValues
from log_service.config.views import NodeConfig

INTERVAL = "broker.heartbeat.interval.ms"
SESSION = "broker.session.timeout.ms"


def refuse_too_rare(values: ServerValues, roles: frozenset[str]) -> None:
    """Raise ConfigError if the heartbeat interval of brokers is not below the session timeout.

    Otherwise brokers would be fenced between two heartbeats. Apache Kafka starts nevertheless and
    logs an error. Nothing is checked if this file does not decide both values.
    """
    interval_ms, session_ms = values.number(INTERVAL), values.number(SESSION)
    is_decided_here = roles >= {"broker", "controller"} or (
        values.is_set(INTERVAL) and values.is_set(SESSION)
    )
    if is_decided_here and interval_ms >= session_ms:
        raise ConfigError(
            f"{INTERVAL} is {interval_ms}, not below {SESSION}, which is {session_ms}: a broker"
            " would be fenced between two heartbeats; set the interval to half of the timeout at"
            " most"
        )


def rare_heartbeats_warning(config: NodeConfig) -> str | None:
    """Return a warning if a single lost heartbeat fences a broker, else None."""
    interval_ms, session_ms = config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms
    if interval_ms * 2 <= session_ms:
        return None
    return (
        f"{INTERVAL} is {interval_ms}, more than half of {SESSION}, which is {session_ms}: one lost"
        " heartbeat fences a broker; set the interval to half of the timeout at most, on all nodes"
    )
