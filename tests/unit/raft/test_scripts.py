"""Readable elections: each file of ``testdata`` is a script of commands and of what follows from
them.

RAFT_REWRITE=1 writes what happens now into the files; read the difference before you keep it.
"""

import os
from pathlib import Path

import pytest

from tests.unit.raft.script import play

SCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 12


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_plays_as_it_reads(path: Path) -> None:
    text = path.read_text()
    played = play(text)
    if os.environ.get("RAFT_REWRITE"):
        path.write_text(played)
    assert played == text
