"""The times of groups whose members send heartbeats, and the check of their combinations.

The keys are ``group.consumer.*`` (KIP-848), ``group.share.*`` (KIP-932) and ``group.streams.*``
(KIP-1071). They are declared in ``server_keys``.
"""

from typing import Any, TypeVar

from log_service.common.errors import ConfigError
from log_service.config.server_values import ServerValues
from log_service.config.views import HeartbeatTimes

T = TypeVar("T", bound=HeartbeatTimes)


def with_times(config: type[T], values: ServerValues, protocol: str, **more: Any) -> T:
    """Return the configuration of a protocol's groups, from the file's times and ``more``.

    ``more`` are the values of other fields.

    Raises:
        ConfigError: a value is not between its bounds, or the heartbeat interval is not below the
            session timeout.
    """
    prefix = f"group.{protocol}"

    def number(name: str) -> int:
        return values.number(f"{prefix}.{name}")

    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        shortest, value, longest = number(f"min.{name}"), number(name), number(f"max.{name}")
        if not shortest <= value <= longest:
            raise ConfigError(
                f"{prefix}.{name} is {value}, which is not between {shortest} and {longest}, its"
                " min and max"
            )
    if number("heartbeat.interval.ms") >= number("session.timeout.ms"):
        raise ConfigError(
            f"{prefix}.heartbeat.interval.ms has to be below {prefix}.session.timeout.ms: members"
            " would time out"
        )
    return values.view(config, **more)
