"""Makes one row per figure: its median over the rounds, and the range.

Beside a peer the row also has the peer's median and range, the ratio and the goal. Decides how
figures of rounds and sides become rows, whether a goal is met, and how rows are printed: one table
per peer, because a table's columns are named after the measured products. Knows nothing of the
figures themselves.
"""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby

OURS = "tidelog"
PERCENT = "%"

NOTHING = 1e-9
"""The bound below which a value is the rest of two equal numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The goal of a median: a bound of its ratio to the peer's, or of the value itself."""

    bound: float
    is_floor: bool
    is_ratio: bool = True

    def __str__(self) -> str:
        return (
            f"{'>=' if self.is_floor else '<='}"
            f" {self.bound:.2g}{'' if self.is_ratio else ' itself'}"
        )

    def is_met_by(self, value: float) -> bool:
        return value >= self.bound if self.is_floor else value <= self.bound


def at_least(ratio: float) -> Goal:
    """Return the goal of at least so many times the peer's value, where higher is better."""
    return Goal(bound=ratio, is_floor=True)


def at_most(ratio: float) -> Goal:
    """Return the goal of at most so many times the peer's value, where lower is better."""
    return Goal(bound=ratio, is_floor=False)


def value_at_most(value: float) -> Goal:
    """Return the goal of a median of at most that, in the row's unit, whatever a peer does."""
    return Goal(bound=value, is_floor=False, is_ratio=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure with its values.

    A side's round returns it with one value. Rounds and sides are put together afterwards.
    """

    figure: str
    unit: str
    rounds: tuple[float, ...]
    goal: Goal | None = None
    peer: str = ""
    peer_rounds: tuple[float, ...] = ()
    side: str = OURS
    """The measured side: the product, or another side that has the peer's values beside it, too."""

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def peer_median(self) -> float | None:
        return statistics.median(self.peer_rounds) if self.peer_rounds else None

    @property
    def ratio(self) -> float | None:
        """Return the ratio of our median to the peer's.

        None where there is no peer, or where its median is zero. A figure in per cent is a ratio
        already and has none.
        """
        return self.median / self.peer_median if self.peer_median and self.unit != PERCENT else None

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return the ratio of each round: ours to the neighbouring one of the peer.

        Empty where a round is without one.
        """
        if len(self.rounds) != len(self.peer_rounds) or not all(self.peer_rounds):
            return ()
        return tuple(
            ours / theirs for ours, theirs in zip(self.rounds, self.peer_rounds, strict=True)
        )

    @property
    def is_met(self) -> bool | None:
        """Return whether the goal is met.

        None without a goal, or while there is no value to compare with it.
        """
        if self.goal is None:
            return None
        value = self.ratio if self.goal.is_ratio else self.median
        return None if value is None else self.goal.is_met_by(value)


def merged(rounds: Iterable[Iterable[Row]]) -> list[Row]:
    """Return one row per figure with the values of all rounds, in the order of the first round.

    A figure that a round has twice gets two values.
    """
    rows: dict[str, Row] = {}
    for one in rounds:
        for row in one:
            seen = rows.get(row.figure)
            rows[row.figure] = (
                row if seen is None else replace(seen, rounds=(*seen.rounds, *row.rounds))
            )
    return list(rows.values())


def beside(ours: Mapping[str, list[Row]], peer: str, peers: list[Row]) -> list[Row]:
    """Return our rows with the peer's values of the same figures.

    Several sides stand together, and are named if not ``OURS``. A figure that only we have stands
    alone, under the same peer's name.
    """
    theirs = {row.figure: row.rounds for row in peers}
    figures = list(dict.fromkeys(row.figure for rows in ours.values() for row in rows))
    found = []
    for figure in figures:
        for name, rows in ours.items():
            named = figure if name == OURS or len(ours) == 1 else f"{figure}, {name}"
            found += [
                replace(row, figure=named, side=name, peer=peer, peer_rounds=theirs.get(figure, ()))
                for row in rows
                if row.figure == figure
            ]
    return found


def goals_met(rows: Iterable[Row]) -> str:
    """Return a line that counts the goals that could be judged, and names the missed ones."""
    judged = [row for row in rows if row.is_met is not None]
    if not judged:
        return "no goal can be judged: each is a ratio to a peer that was not measured"
    missed = [row.figure.strip() for row in judged if not row.is_met]
    return (
        f"goals met: {len(judged) - len(missed)} of"
        f" {len(judged)}{'; missed: ' if missed else ''}{'; '.join(missed)}"
    )


def readable(value: float) -> str:
    """Return a number with at least three significant digits and separated thousands.

    The rest of two equal numbers is 0.
    """
    if abs(value) < NOTHING:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(rounds: tuple[float, ...]) -> str:
    return f"{readable(min(rounds))} - {readable(max(rounds))}"


def ratio_text(row: Row) -> str:
    """Return the ratio of the medians, and the lowest and highest ratio of several rounds."""
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
    """Return a table's titles.

    Values of several sides stand under no side's name, because the rows name them.
    """
    named = set(sides)
    measured = named.pop() if len(named) == 1 else "measured"
    return [
        "figure",
        "unit",
        measured,
        "range",
        *([peer, "range", "ratio"] if peer else []),
        "goal",
    ]


def tables(rows: Iterable[Row]) -> Iterator[list[list[str]]]:
    """Yield the cells of one table after the other, titles first.

    Neighbouring rows of the same peer share a table.
    """
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
    return "\n\n".join(
        "\n".join(f"| {' | '.join(line)} |" for line in _ruled(table)) for table in tables(rows)
    )


def _ruled(table: list[list[str]]) -> list[list[str]]:
    return [table[0], ["---", "---", *["--:"] * (len(table[0]) - 3), "---"], *table[1:]]


def as_json(rows: Iterable[Row], **about: object) -> str:
    """Return one object: facts about the run, and every row with its rounds and derived values."""
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
