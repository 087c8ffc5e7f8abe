"""Reads times that users type, and prints times."""

from datetime import UTC, datetime
from typing import Any

import click

from log_service.cli.numbers import checked_size


class TimeParameter(click.ParamType[int]):
    """Milliseconds since 1970, or ISO 8601 (local time if it names no zone)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds since 1970."""
        text = str(value)
        if text.isdecimal():
            return checked_size(int(text), self, param, ctx)
        try:
            return int(datetime.fromisoformat(text).timestamp() * 1_000)
        except ValueError:
            self.fail(
                f"{text!r} is neither ISO 8601, like 2026-11-21T10:00, nor milliseconds since 1970",
                param,
                ctx,
            )


def as_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds, or a dash if no calendar has it."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
    except (OverflowError, ValueError, OSError):
        return "-"
