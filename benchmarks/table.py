"""One row per figure: its median over the rounds and the range that was seen; beside a peer, that one's figures, the ratio and the goal.

Decides how figures of rounds and sides become rows, whether a goal is met, and how rows are printed: one table per peer, because a table's
columns are named after who was measured. Knows nothing of what is measured.
"""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby

OURS = "tidelog"
PERCENT = "%"

NOTHING = 1e-9
"""What lies below is left of two numbers that are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a median is to reach: a bound of its ratio to the peer's, or of the value itself."""

    bound: float
    is_floor: bool
    is_ratio: bool = True

    def __str__(self) -> str:
        return f"{'>=' if self.is_floor else '<='} {self.bound:.2g}{'' if self.is_ratio else ' itself'}"

    def is_met_by(self, value: float) -> bool:
        return value >= self.bound if self.is_floor else value <= self.bound


def at_least(ratio: float) -> Goal:
    """Ours is to be at least so many times the peer's: for what is better when it is higher."""
    return Goal(bound=ratio, is_floor=True)


def at_most(ratio: float) -> Goal:
    """Ours is to be at most so many times the peer's: for what is better when it is lower."""
    return Goal(bound=ratio, is_floor=False)


def value_at_most(value: float) -> Goal:
    """The median itself is to be at most that, in the row's unit, whatever a peer does."""
    return Goal(bound=value, is_floor=False, is_ratio=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure; a side's round returns it with one value, and rounds and sides are put together afterwards."""

    figure: str
    unit: str
    rounds: tuple[float, ...]
    goal: Goal | None = None
    peer: str = ""
    peer_rounds: tuple[float, ...] = ()
    side: str = OURS
    """Who was measured: the product, or another side that has the peer's values beside it, too."""

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def peer_median(self) -> float | None:
        return statistics.median(self.peer_rounds) if self.peer_rounds else None

    @property
    def ratio(self) -> float | None:
        """Ours to the peer's; None where there is no peer or it has nothing to be compared with. What is a ratio already has none."""
        return self.median / self.peer_median if self.peer_median and self.unit != PERCENT else None

    @property
    def ratios(self) -> tuple[float, ...]:
        """The ratio of each round: ours to the peer's next to it. Empty where a round is without one."""
        if len(self.rounds) != len(self.peer_rounds) or not all(self.peer_rounds):
            return ()
        return tuple(ours / theirs for ours, theirs in zip(self.rounds, self.peer_rounds, strict=True))

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal, or while nothing was measured that it could be held against."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.is_ratio else self.median
        return None if value is None else self.goal.is_met_by(value)


def merged(rounds: Iterable[Iterable[Row]]) -> list[Row]:
    """Return one row per figure with the values of all rounds, in the order of the first; twice in a round is two values."""
    rows: dict[str, Row] = {}
    for one in rounds:
        for row in one:
            seen = rows.get(row.figure)
            rows[row.figure] = row if seen is None else replace(seen, rounds=(*seen.rounds, *row.rounds))
    return list(rows.values())


def beside(ours: Mapping[str, list[Row]], peer: str, peers: list[Row]) -> list[Row]:
    """Return our rows with the peer's values of the same figures; where there are several sides they stand together, named if not ``OURS``.

    A figure that only one of both has stands alone, under the same peer's name.
    """
    theirs = {row.figure: row.rounds for row in peers}
    figures = list(dict.fromkeys(row.figure for rows in ours.values() for row in rows))
    found = []
    for figure in figures:
        for name, rows in ours.items():
            named = figure if name == OURS or len(ours) == 1 else f"{figure}, {name}"
            found += [
                replace(row, figure=named, side=name, peer=peer, peer_rounds=theirs.get(figure, ())) for row in rows if row.figure == figure
            ]
    return found


def goals_met(rows: Iterable[Row]) -> str:
    """Return a line that counts the goals that could be judged, and names what misses its own."""
    judged = [row for row in rows if row.is_met is not None]
    if not judged:
        return "no goal can be judged: each is a ratio to a peer that was not measured"
    missed = [row.figure.strip() for row in judged if not row.is_met]
    return f"goals met: {len(judged) - len(missed)} of {len(judged)}{'; missed: ' if missed else ''}{'; '.join(missed)}"


def readable(value: float) -> str:
    """Three significant digits at least, thousands separated; what is left of two equal numbers is 0."""
    if abs(value) < NOTHING:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(rounds: tuple[float, ...]) -> str:
    return f"{readable(min(rounds))} - {readable(max(rounds))}"


def ratio_text(row: Row) -> str:
    """Return the ratio of the medians, and of several rounds the lowest and the highest."""
    if row.ratio is None:
        return ""
    between = f" ({min(row.ratios):.2f} - {max(row.ratios):.2f})" if len(row.ratios) > 1 else ""
    return f"{row.ratio:.2f}{between}"


def verdict(row: Row) -> str:
    if row.goal is None:
        return ""
    return f"{row.goal}{ {True: ' met', False: ' MISSED', None: ''}[row.is_met] }"


def cells(row: Row) -> list[str]:
    """Return a row's columns."""
    found = [row.figure, row.unit, readable(row.median), spread(row.rounds)]
    if row.peer and row.peer_median is not None:
        found += [readable(row.peer_median), spread(row.peer_rounds), ratio_text(row)]
    elif row.peer:
        found += ["", "", ""]
    return [*found, verdict(row)]


def titles(peer: str, sides: Iterable[str]) -> list[str]:
    """Return a table's titles. Values of several sides stand under no side's name: the rows name them."""
    named = set(sides)
    measured = named.pop() if len(named) == 1 else "measured"
    return ["figure", "unit", measured, "range", *([peer, "range", "ratio"] if peer else []), "goal"]


def tables(rows: Iterable[Row]) -> Iterator[list[list[str]]]:
    """Yield the cells of one table after the other, titles first; rows of the same peer that follow each other share one."""
    for peer, group in groupby(rows, key=lambda row: row.peer):
        found = list(group)
        yield [titles(peer, [row.side for row in found]), *map(cells, found)]


def as_text(rows: Iterable[Row]) -> str:
    return "\n\n".join("\n".join(_aligned(table)) for table in tables(rows))


def _aligned(table: list[list[str]]) -> Iterator[str]:
    widths = [max(len(line[index]) for line in table) for index in range(len(table[0]))]
    for figure, unit, *values in table:
        numbers = (value.rjust(width) for value, width in zip(values, widths[2:], strict=True))
        yield "  ".join([figure.ljust(widths[0]), unit.ljust(widths[1]), *numbers]).rstrip()


def as_markdown(rows: Iterable[Row]) -> str:
    return "\n\n".join("\n".join(f"| {' | '.join(line)} |" for line in _ruled(table)) for table in tables(rows))


def _ruled(table: list[list[str]]) -> list[list[str]]:
    return [table[0], ["---", "---", *["--:"] * (len(table[0]) - 3), "---"], *table[1:]]


def as_json(rows: Iterable[Row], **about: object) -> str:
    """Return one object: what is known about the run, and every row with its rounds and what follows from them."""
    found = [
        {
            **asdict(row),
            "median": row.median,
            "peer_median": row.peer_median,
            "ratio": row.ratio,
            "ratios": row.ratios,
            "is_met": row.is_met,
        }
        for row in rows
    ]
    return json.dumps({**about, "rows": found}, indent=2)
