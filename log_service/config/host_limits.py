"""The syntax of ``max.connections.per.ip.overrides``: host:count,host:count.

This module parses such a text and refuses every other text. An IPv6 address may be in brackets.
"""

from log_service.common.addresses import plain_address
from log_service.common.errors import ConfigError
from log_service.config.definition import Value


def host_limits(text: str) -> tuple[tuple[str, int], ...]:
    """Return the (host, count) pairs. Addresses are spelled as those of connections.

    Raises:
        ConfigError: an item is not ``host:count``.
    """
    limits = []
    for item in filter(None, (item.strip() for item in text.split(","))):
        host, _, count = item.rpartition(":")
        if not host or not (count.isascii() and count.isdecimal()):
            raise ConfigError(f"{item!r} is not host:count")
        limits.append((plain_address(host.strip("[]")), int(count)))
    return tuple(limits)


def validate_host_limits(value: Value) -> str | None:
    """Accept texts of the form host:count,host:count. Return an error text for any other."""
    try:
        host_limits(str(value))
    except ConfigError as fault:
        return str(fault)
    return None
