"""The house keeps its sizes and its words: files and functions stay short, files say what they are, names are the field's."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("log_service", "orchestration", "assets", "sensors")
GENERATED = ("log_service/protocol/messages/", "log_service/protocol/stored/")
MAX_FILE_LINES = 700
MAX_TEST_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
UNUSED_WORDS = re.compile(r"(^|_)(utils?|helpers?|manager|misc)($|_)")
KAFKAS_OWN_MANAGERS = {"log_manager", "replica_manager"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bNotImplementedError\b")
WORKPLACE = re.compile(r"/work/|/tmp/peer|\bissue \d+\b", re.IGNORECASE)


def sources(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return [path for path in found if not str(path.relative_to(ROOT)).startswith(GENERATED)]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", sources(*PRODUCT), ids=named)
def test_file_is_short_and_opens_by_saying_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MAX_FILE_LINES, "this is two files"
    assert ast.get_docstring(ast.parse(text)), "a file opens with what it decides and what it does not know"


@pytest.mark.parametrize("path", sources("tests", "benchmarks"), ids=named)
def test_test_file_is_short(path: Path) -> None:
    assert path.read_text().count("\n") <= MAX_TEST_FILE_LINES, "these are two files"


@pytest.mark.parametrize("path", sources(*PRODUCT, "tests", "benchmarks", "tools", "examples"), ids=named)
def test_functions_are_short(path: Path) -> None:
    too_long = [
        f"{node.name}: {length}" for node in functions(path) if (length := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not too_long


@pytest.mark.parametrize("path", sources(*PRODUCT), ids=named)
def test_file_name_is_a_word_of_the_field(path: Path) -> None:
    assert path.stem in KAFKAS_OWN_MANAGERS or not UNUSED_WORDS.search(path.stem)


@pytest.mark.parametrize("path", sources(*PRODUCT, "tests", "benchmarks", "tools", "examples"), ids=named)
def test_nothing_is_left_unfinished(path: Path) -> None:
    if path == Path(__file__):
        return
    found = [line for line in path.read_text().splitlines() if UNFINISHED.search(line) or WORKPLACE.search(line)]
    assert not found
