"""Readers find the pages of the documentation's site.

Its reference has each public name, its build has no warning and no network.
"""

import ast
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from orchestration.project.new import files
from tests.helpers.documents import ROOT, blocks, prose
from tools.client_settings_page import PAGE, page

DOCS = ROOT / "docs"
LISTED = re.compile(r"^::: (\S+)$", re.MULTILINE)
EXPORTING = (
    "log_service.client",
    "orchestration",
)
"""Packages whose ``__all__`` is public."""
NOT_DECLARED_WITH = frozenset({"orchestration.defs"})
"""Names that pages import and no reference explains: the project itself."""
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(\S+?)["'> ]|<link\b[^>]*\bhref=["']?(\S+?)["'> ]|url\(["']?(.+?)["')]"""
)


def pages_of(entries: list[Any]) -> Iterator[str]:
    """The pages that a part of the navigation names."""
    for entry in entries:
        for one in entry.values() if isinstance(entry, dict) else [entry]:
            yield from pages_of(one) if isinstance(one, list) else [one]


def test_each_page_is_in_the_navigation_once() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    assert sorted(pages_of(navigation)) == sorted(
        str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")
    ), "see nav in zensical.toml"


def test_what_goes_on_in_a_list_is_indented_by_four() -> None:
    """The site's Markdown takes less for the end of the list; GitHub takes both."""
    less = re.compile(r"\n\n {1,3}[^ \n].*")
    assert [
        (file.name, found) for file in DOCS.rglob("*.md") for found in less.findall(prose(file))
    ] == []


def test_the_settings_of_clients_are_those_that_are_declared() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tools.client_settings_page"


def listed_names() -> list[str]:
    """Every name that a page of the reference explains."""
    return [
        name
        for file in sorted((DOCS / "reference").glob("*.md"))
        for name in LISTED.findall(file.read_text())
    ]


def imported_names(source: str) -> Iterator[str]:
    """The names that Python code imports from tidelog."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("log_service.client", "orchestration")
        ):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_each_public_name_is_in_the_reference_once() -> None:
    exported = {
        f"{package}.{name}" for package in EXPORTING for name in import_module(package).__all__
    }
    shown = [block.text for block in blocks("python")] + [
        text for path, text in files("shop").items() if path.endswith(".py")
    ]
    declared = [
        path.read_text()
        for folder in ("assets", "sensors", "examples")
        for path in sorted((ROOT / folder).glob("*.py"))
    ]
    used = {name for source in [*shown, *declared] for name in imported_names(source)}
    listed = listed_names()
    assert len(listed) == len(set(listed))
    assert sorted((exported | used) - set(listed) - NOT_DECLARED_WITH) == [], (
        "name them on a page of docs/reference"
    )


@pytest.mark.parametrize("name", listed_names())
def test_what_the_reference_lists_says_what_it_is(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute)
    if inspect.isclass(found) or inspect.isfunction(found):
        assert found.__doc__, f"{name} has no docstring"


@pytest.mark.timeout(240)
@pytest.mark.skipif(
    find_spec("zensical") is None,
    reason="the generator of the site is not installed: make docs installs it",
)
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("log_service", "orchestration"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr

    written = [path for path in (tmp_path / "site").rglob("*") if path.suffix in {".html", ".css"}]
    loaded = {
        next(filter(None, found)) for path in written for found in LOADED.findall(path.read_text())
    }
    assert loaded, "the pattern finds nothing any more"
    assert {target for target in loaded if re.match(r"(https?:)?//", target)} == set()

    reference = "".join(
        path.read_text() for path in (tmp_path / "site" / "reference").glob("*.html")
    )
    assert [name for name in listed_names() if f'id="{name}"' not in reference] == []
    assert ":raises" not in reference
    assert "Raises:" in reference
    assert "BlockingProducer" in (tmp_path / "site" / "search.json").read_text()
