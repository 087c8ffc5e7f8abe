"""Plots of the last hour as values: the paths of SVG lines, and texts with the same figures.

Values in, values out. The picture has no text, so that words keep their size on a small screen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from log_service.http.console.history.history import History, Point, SeriesKey
from log_service.http.console.history.sampler import SPAN_MS
from log_service.http.console.rendering import UNKNOWN, shown_number, sized

WIDTH, HEIGHT = 600, 100
GAP_MS = 120_000
"""A line has a gap if no sample was taken for longer than this."""

Shown = Callable[[float], str]
"""Return a value for people, with its unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotLine:
    """One line of a plot. ``path`` is an SVG path. The other fields are texts for a person."""

    label: str
    path: str
    latest: str
    least: str
    most: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One plot. ``top`` is the value at its upper edge. The value at its lower edge is 0."""

    title: str
    top: str
    lines: tuple[PlotLine, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is no value to show."""
        return not self.lines


def plot_of(
    title: str,
    named: Sequence[tuple[str, Sequence[Point]]],
    shown: Shown,
    now_ms: int,
    *,
    base: int = 10,
) -> Plot:
    """Return the plot of some series of the last hour.

    ``named`` has the name and the points of each series. A series without values has no line.
    ``shown`` formats a value. ``base`` is the base of the unit's multiples, so that the upper edge
    is a round number.
    """
    with_values = [
        (label, points, [value for _, value in points if value is not None])
        for label, points in named
    ]
    with_values = [each for each in with_values if each[2]]
    most = max((max(values) for _, _, values in with_values), default=0.0)
    multiple = 1
    while base > 10 and most >= base * multiple:
        multiple *= base
    top = rounded_up(most / multiple) * multiple
    lines = tuple(
        PlotLine(
            label=label,
            path=path_of(points, top, now_ms),
            latest=UNKNOWN if points[-1][1] is None else shown(points[-1][1]),
            least=shown(min(values)),
            most=shown(max(values)),
        )
        for label, points, values in with_values
    )
    return Plot(title=title, top=shown(top), lines=lines)


def path_of(points: Sequence[Point], top: float, now_ms: int) -> str:
    """Return the path of a line. The line has a gap at each missing value."""
    parts: list[str] = []
    before_ms: int | None = None
    for at_ms, value in points:
        if value is None:
            before_ms = None
            continue
        x = WIDTH * (1 - (now_ms - at_ms) / SPAN_MS)
        y = HEIGHT * (1 - value / top)
        is_joined = before_ms is not None and at_ms - before_ms <= GAP_MS
        parts.append(f"{'L' if is_joined else 'M'}{x:.1f} {y:.1f}")
        if not is_joined:
            parts.append("h0.1")  # a single value is a dot
        before_ms = at_ms
    return "".join(parts)


def rounded_up(value: float) -> float:
    """Return the next number of the form 1, 2 or 5 times a power of ten, and 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{value:.0f}") - 1 if value >= 1 else -3)
    while value > power * 10:
        power *= 10
    return next(power * each for each in (1, 2, 5, 10) if power * each >= value)


def shown_count(value: float) -> str:
    """Format a count, with one digit after the point if it is small."""
    return f"{value:.1f}" if 0 < value < 10 else str(shown_number(round(value)))


def shown_rate(value: float) -> str:
    """Format a count per second."""
    return f"{shown_count(value)}/s"


def shown_bytes(value: float) -> str:
    """Format a number of bytes per second."""
    return f"{sized(round(value))}/s"


def shown_ms(value: float) -> str:
    """Format a duration in milliseconds."""
    return f"{value:.3g} ms" if value < 1_000 else f"{value / 1_000:.3g} s"


def cluster_plots(history: History, now_ms: int) -> tuple[Plot, ...]:
    """Return the plots of the whole cluster."""

    def points(*key: str) -> Sequence[Point]:
        return history.points(key, now_ms - SPAN_MS)

    def durations(request: str) -> Sequence[tuple[str, Sequence[Point]]]:
        return [(quantile, points(request, quantile)) for quantile in ("p50", "p99")]

    in_and_out = [("in", points("bytes in")), ("out", points("bytes out"))]
    return (
        plot_of("Records in", [("records", points("records in"))], shown_rate, now_ms),
        plot_of("Bytes", in_and_out, shown_bytes, now_ms, base=1_024),
        plot_of("Produce requests", durations("produce"), shown_ms, now_ms),
        plot_of("Fetches, without waiting for records", durations("fetch"), shown_ms, now_ms),
    )


def lag_plot(history: History, keys: Sequence[SeriesKey], now_ms: int) -> Plot:
    """Return the plot of a group's lag, the sum over its topics.

    The line has a gap where the lag of a topic is unknown.
    """
    points = history.total(keys, now_ms - SPAN_MS)
    return plot_of("Lag in records", [("lag", points)], shown_count, now_ms)
