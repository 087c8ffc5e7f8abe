"""Whether Apache Kafka's recorded responses are still those to what a module asks today.

Beside the recording of a module lies ``recorded/MODULE.story``: a digest of all that decides what
the module asks, of which Apache Kafka, and what it compares. It is written when the whole module
has passed against Apache Kafka with ``TIDELOG_RECORD=1``. As long as it is that of the sources,
Apache Kafka would be asked the same again, and a usual run holds tidelog to the recording alone.
"""

import inspect
import os
import re
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.integration.differential import RECORD

Test = TypeVar("Test", bound=Callable[..., Any])
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
ALWAYS = (
    HERE / "client_clusters.py",
    HERE / "kafka_node.py",
    ROOT / "tests" / "apache_kafka" / "pom.xml",
)
"""How clusters are started, and which Apache Kafka it is."""
HELPERS = ROOT / "tests" / "helpers"
"""What runs tidelog's side."""
IMPORT = re.compile(r"^from (tests(?:\.\w+)*) import (\([^)]*\)|.*)", re.MULTILINE)


def is_recorded_of_today(module: Path) -> bool:
    """Whether the recording of ``module`` was made of the module as it is."""
    kept = _kept(module)
    return kept.exists() and kept.read_text().strip() == story(module)


def keep_story(module: Path) -> None:
    """Write down that the recording of ``module`` is of the module as it is."""
    _kept(module).write_text(f"{story(module)}\n")


def looks_again(test: Test) -> Test:
    """Leave a test to long runs if it only compares Apache Kafka with its recorded responses.

    It is asked the same.
    """
    is_needed = RECORD in os.environ or not is_recorded_of_today(Path(inspect.getfile(test)))
    return test if is_needed else pytest.mark.repeats(test)


def story(module: Path) -> str:
    """Return the digest of what decides the questions of a module."""
    told = sha256()
    for path in sorted({*reached(module), *ALWAYS}):
        told.update(_digest(path))
    return told.hexdigest()


def reached(module: Path) -> set[Path]:
    """Return a module and all modules of the tests that it imports, itself or through others.

    Those that run tidelog's side are left out.
    """
    found: set[Path] = set()
    waiting = [module.absolute()]
    while waiting:
        path = waiting.pop()
        if path not in found and HELPERS not in path.parents:
            found.add(path)
            waiting += _imported(path)
    return found


def _kept(module: Path) -> Path:
    return HERE / "recorded" / f"{module.stem}.story"


@cache
def _digest(path: Path) -> bytes:
    return sha256(path.read_bytes()).digest()


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Return the files that the names of ``from tests.… import …`` may stand for.

    A file is a module, or one of a package.
    """
    named = [
        (ROOT.joinpath(*package.split(".")), re.findall(r"\w+", names))
        for package, names in IMPORT.findall(path.read_text())
    ]
    files = [
        file
        for folder, names in named
        for file in (folder.with_suffix(".py"), *(folder / f"{name}.py" for name in names))
    ]
    return tuple(file for file in files if file.is_file())
