"""Reads bytes per second as users type them, for client quotas and replication throttles."""

import re

import click

EXAMPLES = "as in 1048576, 50MiB or 1.5GB"
RATE = re.compile(
    r"(\d+(?:\.\d+)?)\s*(B|KB|KiB|K|MB|MiB|M|GB|GiB|G)?(?:/s)?", re.IGNORECASE | re.ASCII
)
MAX_RATE = 2**63 - 1
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30}
UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    **_BINARY,
    **{f"{unit}ib": size for unit, size in _BINARY.items()},
}


def rate_of(text: str, or_else: str = "", hint: str | None = None) -> int:
    """Return the bytes per second of a text like 50MiB.

    ``or_else`` names other accepted forms in the error's text.

    Raises:
        BadParameter: the text is not a rate, or a rate below one or above the limit of Kafka's
            configs.
    """
    match = RATE.fullmatch(text.strip())
    rate = float(match[1]) * UNITS[(match[2] or "").lower()] if match else 0.0
    if not 1 <= rate < MAX_RATE:
        raise click.BadParameter(
            f"{text!r} is not bytes a second, {EXAMPLES}{or_else}", param_hint=hint
        )
    return int(rate)
