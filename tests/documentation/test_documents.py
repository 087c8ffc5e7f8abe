"""The names in the documents exist.

They are targets of links, languages of blocks, commands and options, targets of make, and keys of
YAML.
"""

import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import yaml  # type: ignore[import-untyped]

from log_service.cli.main import tidelog
from tests.helpers.documents import (
    ROOT,
    Block,
    anchors,
    blocks,
    blocks_of,
    documents,
    inline_code,
    links,
)

LANGUAGES = {"python", "console", "json", "proto", "yaml", "text", "properties", "sh"}
MAKE = re.compile(r"make ([a-z-]+)")
TEST_FILE = re.compile(r"\b(?:tests|tools|benchmarks|examples)/[\w/.-]+\.py\b")
INNER_COMMAND = re.compile(r"\$\(([^()$]+)\)")
SELECTED_TESTS = re.compile(r"pytest (tests/[\w/.-]+\.py) -k (\w+|\"[\w ]+\")")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("document", documents(), ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    for target in links(document):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            assert "." in parts.netloc, target
            continue
        found = document if not parts.path else document.parent / parts.path
        assert found.exists(), f"{document} links to {target}"
        assert not parts.fragment or parts.fragment in anchors(found), (
            f"{document} links to {target}"
        )


@pytest.mark.parametrize("document", documents(), ids=named)
def test_blocks_say_what_they_are(document: Path) -> None:
    assert {block.language for block in blocks_of(document)} <= LANGUAGES


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_yaml(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text))


@pytest.mark.parametrize("document", documents(), ids=named)
def test_tests_in_the_text_exist(document: Path) -> None:
    """The pages on pipelines name tests of the reader's own project."""
    for code in inline_code(document) if document.parent.name != "pipelines" else ():
        for name in TEST_FILE.findall(code):
            assert (ROOT / name).exists(), f"{document}: {code}"
        selected = SELECTED_TESTS.fullmatch(code)
        if selected is not None:
            text = (ROOT / selected[1]).read_text()
            assert all(word in text for word in selected[2].strip('"').split(" or ")), (
                f"{document}: {code}"
            )


@pytest.mark.parametrize("document", documents(), ids=named)
def test_commands_in_the_text_exist(document: Path) -> None:
    for code in inline_code(document):
        if code.startswith("tidelog "):
            check_command(shlex.split(code)[1:])


@pytest.mark.parametrize("block", blocks("sh", "text"), ids=str)
def test_commands_that_only_a_reader_can_run_exist(block: Block) -> None:
    """Blocks of ``sh`` and ``text`` are for other hosts, so that no test runs them."""
    lines = [
        line for line in block.text.replace("\\\n", " ").splitlines() if not line.startswith("#")
    ]
    for command in (part for line in lines for part in [*INNER_COMMAND.findall(line), line]):
        if command.startswith("tidelog "):
            check_command(shlex.split(command, comments=True)[1:])


@pytest.mark.parametrize("block", blocks("console"), ids=str)
def test_commands_that_are_typed_exist(block: Block) -> None:
    """Also those that start a whole installation, which a test may type in its own words."""
    for command in (part for typed in block.commands for part in typed.split(" | ")):
        if command.startswith("tidelog "):
            check_command(shlex.split(command)[1:])


def check_command(words: list[str]) -> None:
    """Follow the words of a command down the tree of commands.

    ``create / list`` names two that stand side by side.
    """
    command: click.Command = tidelog
    told = "tidelog " + " ".join(words)
    level: click.Command = tidelog
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in options_of(command), f"{told}: no option {word}"
        elif word == "/":
            command = level
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"{told}: no command {word}"
            level, command = command, found


def options_of(command: click.Command) -> set[str]:
    return {name for option in command.params for name in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("document", documents(), ids=named)
def test_targets_of_make_exist(document: Path) -> None:
    commands = [
        command
        for block in blocks_of(document)
        if block.language == "console"
        for command in block.commands
    ]
    wanted = {
        target
        for text in [*commands, *inline_code(document)]
        for target in MAKE.findall(text)
        if text.startswith("make ")
    }
    for target in sorted(wanted):
        planned = subprocess.run(
            ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert planned.returncode == 0, planned.stderr
