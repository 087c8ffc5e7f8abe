"""The processes behind the pages: their answers within bounds, and the console without them."""

import io
import json
import os
import queue
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest

from orchestration.console.process.main import MAX_ERROR_CHARACTERS, response_to, take_lines
from orchestration.console.process.questions import (
    MAX_CELL_CHARACTERS,
    MAX_COLUMNS,
    MAX_ROWS,
    MAX_TEXT_BYTES,
    cut_to_size,
)
from orchestration.console.values import TEMPORARY_PREFIX

HEAVY = ("dagster", "deltalake", "duckdb", "numpy", "pandas", "pyarrow", "pyspark")


def test_the_console_imports_none_of_the_platforms_libraries(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom orchestration.console.area import area\nfound = area()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], repr(found.label))"
    )
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[] 'Pipelines'"


def test_a_process_takes_its_own_temporary_folder_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spills of a question stayed on the disk when its console was killed."""
    requests = queue.SimpleQueue[bytes]()
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    for name, is_kept in ((f"{TEMPORARY_PREFIX}x", False), ("others", True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "spill").touch()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        take_lines(io.BytesIO(b"{}\n"), requests)
        assert folder.exists() is is_kept
    assert (requests.qsize(), ended) == (2, [0, 0])


def refuse() -> None:
    raise click.ClickException("no" * MAX_ERROR_CHARACTERS)


def fill_memory() -> None:
    raise MemoryError


def fail() -> None:
    raise ValueError("x")


@pytest.mark.parametrize(
    ("method", "told", "is_bug"),
    [
        ("refuse", "nono", False),
        ("fill_memory", "more memory", False),
        ("fail", "ValueError: x", True),
        ("unknown", "KeyError", True),
    ],
)
def test_a_failure_is_a_response(method: str, told: str, *, is_bug: bool) -> None:
    methods = {"refuse": refuse, "fill_memory": fill_memory, "fail": fail}
    line = json.dumps({"method": method, "parameters": {}}).encode()
    response = response_to(line, methods)
    assert told in response["error"]
    assert len(response["error"]) <= MAX_ERROR_CHARACTERS
    assert response["is_bug"] is is_bug


def table(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def test_an_answer_that_fits_is_whole() -> None:
    found = cut_to_size(table(n=[1, None], t=["x", "<b>"]), MAX_ROWS)
    assert found["rows"] == [[1, "x"], ["", "<b>"]]
    assert [(each["name"], each["kind"]) for each in found["columns"]] == [
        ("n", "number"),
        ("t", "text"),
    ]
    assert found["cut"] == ""


def test_columns_of_one_name_stay_apart() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert cut_to_size(twice, MAX_ROWS)["rows"] == [[1, 2]]


def test_rows_columns_cells_and_the_whole_are_bounded() -> None:
    rows = cut_to_size(table(n=list(range(MAX_ROWS + 1))), MAX_ROWS)
    assert len(rows["rows"]) == MAX_ROWS
    assert "the first 500 rows are shown" in rows["cut"]
    wide = cut_to_size(table(**{f"c{number}": [1] for number in range(300)}), MAX_ROWS)
    assert len(wide["columns"]) == len(wide["rows"][0]) == MAX_COLUMNS
    assert "columns are shown" in wide["cut"]
    cell = cut_to_size(table(t=["x" * 10_000]), MAX_ROWS)["rows"][0][0]
    assert len(cell) == MAX_CELL_CHARACTERS + 1
    wide_letters = cut_to_size(table(t=["\N{HIRAGANA LETTER A}" * 1_000] * MAX_ROWS), MAX_ROWS)
    assert len(wide_letters["rows"]) == MAX_TEXT_BYTES // 3_000
    long = cut_to_size(table(t=["x" * MAX_CELL_CHARACTERS] * MAX_ROWS), MAX_ROWS)
    assert sum(len(row[0]) for row in long["rows"]) <= MAX_TEXT_BYTES
    assert "rows are shown" in long["cut"]
