"""Answers SQL queries of the console's users as ``tidelog sql`` does, within limits.

A query reads the relations that the console has checked, and no file of the machine. Memory,
temporary files and the size of the answer are limited.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from orchestration.cli.sql import answered, plain, shown
from orchestration.console.process.project import Method, current_settings
from orchestration.values.times import values_of
from orchestration.warehouse.store import (
    Confinement,
)

MAX_ROWS = 500
MAX_COLUMNS = 200
MAX_ANSWER_BYTES = 8 << 20
"""The most bytes of Arrow's columns, which are fetched before cells are cut."""
MAX_TEXT_BYTES = 300_000
"""The most bytes of the cells that are sent to the console."""
MAX_CELL_CHARACTERS = 2_000
MEMORY_BYTES = 512 << 20
SPILL_BYTES = 2 << 30
"""The bytes that one query may spill to disk. The disk may be that of a broker, too."""


def sql(*, question: str, relations: Sequence[str], row_count: int = MAX_ROWS) -> dict[str, Any]:
    """Run a query, and return its columns, its first rows and a sentence on omitted rows.

    :raises ClickException: the query cannot be answered.
    """
    confinement = Confinement(
        relations=relations,
        row_count=row_count,
        answer_bytes=MAX_ANSWER_BYTES,
        memory_bytes=MEMORY_BYTES,
        spill_bytes=SPILL_BYTES,
    )
    answer, notes = answered(question, current_settings(), confinement=confinement)
    return {**cut_to_size(answer, row_count), "notes": notes}


def cut_to_size(answer: pa.Table, row_count: int) -> dict[str, Any]:
    """Return the first columns and rows of ``answer`` as JSON, and sentences on omitted ones."""
    cut = []
    if len(answer.schema) > MAX_COLUMNS:
        cut.append(f"the first {MAX_COLUMNS} of {len(answer.schema)} columns are shown")
        answer = answer.select(range(MAX_COLUMNS))
    is_longer = answer.num_rows > row_count
    answer = answer.slice(0, row_count)
    columns = [
        [_cell(shown(plain(value, one.type))) for value in values_of(column)]
        for one, column in zip(answer.schema, answer.columns, strict=True)
    ]
    rows: list[list[Any]] = []
    size = 0
    for row in zip(*columns, strict=True):
        size += sum(_size(each) for each in row)
        if size > MAX_TEXT_BYTES and rows:
            is_longer = True
            break
        rows.append(list(row))
    if is_longer:
        cut.append(f"the first {len(rows)} rows are shown: narrow the question, or add a LIMIT")
    kinds = [
        {"name": one.name, "type": str(one.type), "kind": _kind(one.type)} for one in answer.schema
    ]
    return {"columns": kinds, "rows": rows, "cut": "; ".join(cut)}


def _cell(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_CELL_CHARACTERS:
        return f"{value[:MAX_CELL_CHARACTERS]}…"
    return value


def _size(cell: Any) -> int:
    return len(cell.encode(errors="replace")) if isinstance(cell, str) else 8


def _kind(found: pa.DataType) -> str:
    if pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found):
        return "number"
    return "time" if pa.types.is_timestamp(found) or pa.types.is_date(found) else "text"


METHODS: dict[str, Method] = {"sql": sql}
