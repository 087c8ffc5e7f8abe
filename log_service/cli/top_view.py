"""The screen of ``tidelog top``: three tables, redrawn in place, and the keys that sort them.

Tables are cut to the terminal's rows, and names to its columns. Without a terminal there are no
keys.
"""

import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
import trio
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from log_service.cli.explain import explain
from log_service.cli.output import aligned, counted, narrowed, sized, terminal_width
from log_service.cli.top_rates import Look, Row, Screen, screen_of
from log_service.common.errors import TidelogError

SORT_KEYS = {
    "in": "in",
    "name": "topic",
    "size": "size_bytes",
    "records": "records",
    "partitions": "partitions",
}
HEADER_LINES = 9


class Order:
    """The sort order of topics, which keys may change while the screen is up."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_reversed = False

    def press(self, key: str) -> bool:
        """Apply a key, and return whether it ends the screen."""
        if key == "s":
            keys = sorted(SORT_KEYS)
            self.key = keys[(keys.index(self.key) + 1) % len(keys)]
        elif key == "r":
            self.is_reversed = not self.is_reversed
        return key in {"q", "\x03"}

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows sorted by the current column: largest first, or names from a to z.

        The order may be reversed.
        """
        column = SORT_KEYS[self.key]
        by_name = sorted(rows, key=lambda row: str(row["topic"]))
        if self.key == "name":
            return by_name[::-1] if self.is_reversed else by_name
        return sorted(by_name, key=lambda row: row[column] or 0, reverse=not self.is_reversed)


def headline(screen: Screen) -> str:
    """Return the first line of the screen, and a second one if there is a schema registry."""
    total = sum(row["in"] or 0 for row in screen.topics)
    partitions = sum(row["partitions"] for row in screen.topics)
    lag = sum(row["lag"] for row in screen.groups)
    return (
        f"cluster {screen.cluster_id}  {counted(len(screen.brokers), 'broker')} "
        f" {counted(len(screen.topics), 'topic')}  {counted(partitions, 'partition')}  {total:,.0f}"
        f" records/s  lag {lag:,}"
        + ("" if screen.registry is None else f"\n{registry_line(screen.registry)}")
    )


def registry_line(row: Row) -> str:
    """Return the line of a schema registry."""
    if "failure" in row:
        return f"registry {row['address']}  {row['failure']}"
    figures = (
        counted(row["subjects"], "subject"),
        counted(row["schemas"], "schema"),
        "writes" if row["is_writer"] else "does not write",
    )
    requests = "-" if row["requests"] is None else f"{row['requests']:,}"
    return f"registry {row['address']}  {'  '.join(figures)}  {requests} requests/s"


def tables(screen: Screen, order: Order, limit: int) -> Iterator[str]:
    """Yield the tables of a screen as texts."""
    width = terminal_width()
    yield _table(screen.brokers[:limit], ["broker", "address", "leads", "controller"], [], width)
    has_bytes = any(row["bytes_in"] is not None for row in screen.topics)
    topics = [_shown_topic(row) for row in order(screen.topics)[:limit]]
    columns = [
        "topic",
        "partitions",
        "records",
        "in/s",
        *(["bytes in/s", "bytes out/s"] if has_bytes else []),
        "size",
        "trouble",
    ]
    yield _table(topics, columns, ["topic"], width) if topics else "there are no topics"
    groups = sorted(screen.groups, key=lambda row: (-row["lag"], row["group"]))[:limit]
    shown = [{**row, "out/s": row["out"]} for row in groups]
    yield (
        _table(
            shown,
            ["group", "state", "members", "topics", "out/s", "lag"],
            ["topics", "group"],
            width,
        )
        if shown
        else "there are no groups"
    )


def _table(
    rows: Sequence[Row], columns: Sequence[str], flexible: Sequence[str], width: int | None
) -> str:
    fitting: Sequence[Any] = rows
    for column in flexible:
        if width is not None:
            fitting = narrowed(fitting, columns, column, width)
    return aligned(fitting, columns)


def _shown_topic(row: Row) -> Row:
    trouble = [
        f"{row[name]} {text}"
        for name, text in (
            ("leaderless", "without leader"),
            ("under_replicated", "under-replicated"),
        )
        if row[name]
    ]
    size = None if row["size_bytes"] is None else sized(row["size_bytes"])
    rates = {
        f"bytes {way}/s": None if row[f"bytes_{way}"] is None else sized(int(row[f"bytes_{way}"]))
        for way in ("in", "out")
    }
    return {**row, **rates, "in/s": row["in"], "size": size, "trouble": ", ".join(trouble) or None}


def table_text(screen: Screen, sort_key: str, limit: int) -> str:
    """Return a screen as text."""
    return "\n\n".join([headline(screen), *tables(screen, Order(sort_key), limit)])


async def show_live(
    look: Callable[[], Awaitable[Look]], before: Look, interval_s: float, sort_key: str, limit: int
) -> None:
    """Redraw the screen until a key or Ctrl-C ends it.

    An error is shown on the screen, and the cluster is read again.
    """
    console = Console(highlight=False)
    order = Order(sort_key)
    first, failure = before, ""
    with (
        keys() as pressed,
        Live(console=console, screen=console.is_terminal, auto_refresh=False) as live,
    ):
        screen = screen_of(before, before)
        while True:
            rows = (
                max(3, min(limit, (console.height - HEADER_LINES) // 3))
                if console.is_terminal
                else limit
            )
            texts = [
                headline(screen),
                *tables(screen, order, rows),
                failure or f"sorted by {order.key}: s next, r turns around, q ends",
            ]
            live.update(
                Group(*(Text(f"{text}\n", no_wrap=True, overflow="ellipsis") for text in texts)),
                refresh=True,
            )
            key = await pressed(interval_s)
            if key is not None and order.press(key):
                return
            if key is None:
                try:
                    now = await look()
                    screen, first, failure = screen_of(first, now), now, ""
                except TidelogError as error:
                    failure = f"cannot be reached, trying again: {explain(error)}"


@contextmanager
def keys() -> Iterator[Callable[[float], Awaitable[str | None]]]:
    """Yield a function that waits some seconds for a key. It returns the key, or None.

    The terminal is restored afterwards.
    """
    if not sys.stdin.isatty():
        yield _no_key
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _next_key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def _next_key(seconds: float) -> str | None:
    with trio.move_on_after(seconds):
        await trio.lowlevel.wait_readable(sys.stdin)
        return sys.stdin.read(1)
    return None


async def _no_key(seconds: float) -> str | None:
    try:
        await trio.sleep(seconds)
    except KeyboardInterrupt as error:
        raise click.Abort from error
    return None
