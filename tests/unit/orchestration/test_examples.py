"""The examples in docstrings give what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WITH_EXAMPLES = [
    file
    for file in sorted((ROOT / "orchestration").rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]
MODULES = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in WITH_EXAMPLES]


def test_there_are_examples() -> None:
    assert "orchestration.offsets.ranges" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_an_example_gives_what_it_says(name: str) -> None:
    tried = doctest.testmod(import_module(name))
    assert tried.attempted
    assert not tried.failed
