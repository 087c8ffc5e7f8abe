"""Prints the demo's results: rows, dead letters, offsets and lag, an answer, times, next steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from orchestration.demo.verification import TopicProof
from orchestration.retained.lag import TopicLag

ANSWER_ROWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results that are printed.

    ``steps`` are (name, seconds). ``faults`` are sentences on failed checks. There are none if the
    demo passed.
    """

    proofs: Sequence[TopicProof]
    rows: Mapping[str, int]
    dead_letters: Sequence[Mapping[str, str | int]]
    lags: Mapping[str, TopicLag]
    question: str
    answer: pa.Table
    steps: Sequence[tuple[str, float]]
    faults: Sequence[str]
    next_command: str


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print the summary."""
    console.print(_topics(outcome.proofs))
    console.print(
        _table(
            "What was computed from them",
            ["asset", "rows"],
            [[name, _number(rows)] for name, rows in outcome.rows.items()],
        )
    )
    console.print(_dead_letters(outcome.dead_letters))
    console.print(_offsets(outcome.lags))
    console.print(_answer(outcome.question, outcome.answer))
    console.print(
        _table(
            "How long it took",
            ["step", "seconds"],
            [[name, f"{seconds:.1f}"] for name, seconds in outcome.steps],
        )
    )
    for fault in outcome.faults:
        console.print(f"[red]does not hold:[/red] {fault}", highlight=False)
    if not outcome.faults:
        records = sum(proof.records for proof in outcome.proofs)
        console.print(
            f"[green]All holds:[/green] each of {_number(records)} records is exactly one row or"
            " one dead letter, and every lag is 0.",
            highlight=False,
        )
    console.print(f"Look at it in the UI:  [bold]{outcome.next_command}[/bold]", highlight=False)


def _topics(proofs: Sequence[TopicProof]) -> Table:
    rows = [
        [
            proof.topic,
            _number(proof.records),
            proof.table,
            _number(proof.rows),
            _number(proof.dead_letters),
            _verdict(proof),
        ]
        for proof in proofs
    ]
    return _table(
        "Topics and their tables",
        ["topic", "records", "table", "rows", "dead letters", "each offset once"],
        rows,
    )


def _verdict(proof: TopicProof) -> str:
    return "[red]no[/red]" if proof.faults else "[green]yes[/green]"


def _dead_letters(summary: Sequence[Mapping[str, str | int]]) -> Table:
    rows = [
        [str(one["target"]), str(one["rule"]), str(one["reason"]), _number(int(one["count"]))]
        for one in summary
    ]
    return _table(
        "Dead letters", ["table", "rule", "reason", "records"], rows or [["-", "-", "none", "0"]]
    )


def _offsets(lags: Mapping[str, TopicLag]) -> Table:
    rows = [
        [
            f"{lag.topic}-{one.partition}",
            table,
            str(one.committed_offset),
            str(one.high_watermark),
            str(one.lag),
        ]
        for table, lag in lags.items()
        for one in lag.partitions
    ]
    return _table(
        "Offsets per partition", ["partition", "table", "committed", "high watermark", "lag"], rows
    )


def _answer(question: str, answer: pa.Table) -> Table:
    rows = [
        [_cell(value) for value in row.values()] for row in answer.slice(0, ANSWER_ROWS).to_pylist()
    ]
    more = (
        f" (the first {ANSWER_ROWS} of {answer.num_rows} rows)"
        if answer.num_rows > ANSWER_ROWS
        else ""
    )
    return _table(
        question + more,
        [name.replace("_", " ") for name in answer.column_names],
        rows,
        numbers=_numeric(answer),
    )


def _table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[bool] | None = None,
) -> Table:
    """Build a table. Columns with only numbers are aligned to the right."""
    is_number = numbers or [
        bool(rows) and all(_looks_numeric(row[index]) for row in rows)
        for index in range(len(columns))
    ]
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="dim",
    )
    for column, right in zip(columns, is_number, strict=True):
        made.add_column(column, justify="right" if right else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    made.add_section()
    return made


def _numeric(answer: pa.Table) -> list[bool]:
    return [
        pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        for field in answer.schema
    ]


def _looks_numeric(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").isdigit()


def _number(value: int) -> str:
    return f"{value:,}"


def _cell(value: Any) -> str:
    return "-" if value is None else str(value)
