"""One row per figure: its median over the rounds and the range that was seen; beside a peer, that one's median and the ratio."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    figure: str
    unit: str
    rounds: tuple[float, ...]
    peer_rounds: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def peer_median(self) -> float:
        return statistics.median(self.peer_rounds)

    @property
    def ratio(self) -> float:
        """Ours to the peer's."""
        return self.median / self.peer_median if self.peer_median else float("inf")


def merged(rounds: Iterable[Iterable[Row]]) -> list[Row]:
    """Return one row per figure with the values of all rounds, in the order of the first."""
    rows: dict[str, Row] = {}
    for one in rounds:
        for row in one:
            seen = rows.get(row.figure)
            rows[row.figure] = row if seen is None else replace(seen, rounds=(*seen.rounds, *row.rounds))
    return list(rows.values())


def beside(ours: Iterable[Row], peers: Iterable[Row]) -> list[Row]:
    """Return our rows with the peer's values of the same figures; a figure that only one of both has stands alone."""
    theirs = {row.figure: row.rounds for row in peers}
    return [replace(row, peer_rounds=theirs.get(row.figure, ())) for row in ours]


def readable(value: float) -> str:
    """Three significant digits at least, thousands separated."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def cells(row: Row, *, is_beside: bool) -> list[str]:
    """Return a row's columns after its name."""
    found = [readable(row.median), f"{readable(min(row.rounds))} - {readable(max(row.rounds))}"]
    if is_beside:
        found += [readable(row.peer_median), f"{row.ratio:.2f}"] if row.peer_rounds else ["", ""]
    return [*found, row.unit]


def titles(*, is_beside: bool) -> list[str]:
    return ["median", "range", *(["Apache Kafka", "ratio"] if is_beside else []), "unit"]


def as_text(rows: list[Row]) -> str:
    is_beside = any(row.peer_rounds for row in rows)
    lines = [["figure", *titles(is_beside=is_beside)], *([row.figure, *cells(row, is_beside=is_beside)] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))]
    return "\n".join(_aligned(line, widths) for line in lines)


def _aligned(line: list[str], widths: list[int]) -> str:
    figure, *values, unit = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
    return "  ".join([line[0].ljust(len(figure)), *values, unit.strip()])


def as_markdown(rows: list[Row]) -> str:
    is_beside = any(row.peer_rounds for row in rows)
    lines = [["figure", *titles(is_beside=is_beside)], ["---", *["--:"] * (len(titles(is_beside=is_beside)) - 1), "---"]]
    lines += [[row.figure, *cells(row, is_beside=is_beside)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_json(rows: list[Row]) -> str:
    return json.dumps(
        [
            {"figure": row.figure, "unit": row.unit, "median": row.median, "rounds": row.rounds, "peer_rounds": row.peer_rounds}
            for row in rows
        ],
        indent=2,
    )
