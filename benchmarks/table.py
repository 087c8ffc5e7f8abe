"""One row per figure: its median over the rounds and the range that was seen."""

import json
import statistics
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    figure: str
    unit: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


def readable(value: float) -> str:
    """Three significant digits at least, thousands separated."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def as_text(rows: list[Row]) -> str:
    width = max((len(row.figure) for row in rows), default=0)
    lines = [f"{'figure':<{width}}  {'median':>12}  {'lowest':>12}  {'highest':>12}  unit"]
    for row in rows:
        cells = (readable(row.median), readable(min(row.rounds)), readable(max(row.rounds)))
        lines.append(f"{row.figure:<{width}}  {cells[0]:>12}  {cells[1]:>12}  {cells[2]:>12}  {row.unit}")
    return "\n".join(lines)


def as_markdown(rows: list[Row]) -> str:
    lines = ["| figure | median | range | unit |", "|---|--:|--:|---|"]
    lines += [
        f"| {row.figure} | {readable(row.median)} | {readable(min(row.rounds))} - {readable(max(row.rounds))} | {row.unit} |"
        for row in rows
    ]
    return "\n".join(lines)


def as_json(rows: list[Row]) -> str:
    return json.dumps([{"figure": row.figure, "unit": row.unit, "median": row.median, "rounds": row.rounds} for row in rows], indent=2)
