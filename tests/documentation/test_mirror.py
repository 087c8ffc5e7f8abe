"""The page on mirrors runs as it is printed, from its first block to its last, between two
clusters.
"""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin
from log_service.mirror.settings import FLOW_DEFAULTS, MirrorSettings
from tests.documentation.running import ADDRESS, environment, run_python, words
from tests.helpers.documents import ROOT, Block, blocks
from tests.integration.client_clusters import tidelog
from tests.integration.mirrors import until, values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "mirror.md"
AWAY = "127.0.0.1:9192"
FILE = "mirror.properties"
WITH_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The addresses of the clusters that stand for those on the page."""
    with (
        tidelog(tmp_path_factory.mktemp("home"), WITH_ACLS) as home,
        tidelog(tmp_path_factory.mktemp("away"), WITH_ACLS) as away,
    ):
        yield {ADDRESS: home, AWAY: away}


def on_the_page(*languages: str) -> list[Block]:
    """The page's blocks, from its beginning to its end."""
    return sorted(
        (block for block in blocks(*languages) if block.document == PAGE),
        key=lambda block: block.line,
    )


def moved(text: str, servers: dict[str, str]) -> str:
    """A text of the page, with the addresses of the test's clusters."""
    for shown, real in servers.items():
        text = text.replace(shown, real)
    return text


def test_the_page_runs_as_it_is_printed(servers: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(moved(on_the_page("properties")[0].text, servers))
    for block in on_the_page("console", "python"):
        if block.language == "python":
            run_python(replace(block, text=moved(block.text, servers)), servers[ADDRESS], tmp_path)
            continue
        for command in block.commands:
            if command.startswith("tidelog mirror run"):
                with in_the_background(command, servers, tmp_path):
                    until(
                        lambda: (
                            sum(len(values(servers[AWAY], "home.orders", each)) for each in (0, 1))
                            == 3
                        ),
                        "the records are there",
                    )
                continue
            printed = shell(moved(command, servers), servers, tmp_path)
            assert "tidelog consume" not in command or sorted(printed.split()) == ["1", "2", "3"]
            assert "status" not in command or "home.orders" in printed
    with BlockingAdmin(servers[AWAY]) as away:
        assert sorted(map(str, away.describe_acls())) == [
            "User:alice may read group billing",
            "User:alice may read topic home.orders",
            "User:bob may read topic home.invoices. and what begins so",
        ]


def shell(command: str, servers: dict[str, str], directory: Path) -> str:
    """Run a command, with what is before its last pipe, and return what it printed."""
    before, _, last = command.rpartition(" | ")
    given = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout
    ran = subprocess.run(
        words(last),
        cwd=directory,
        env=environment(servers[ADDRESS]),
        input=given,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, f"{command}: {ran.stdout!r}{ran.stderr!r}"
    return ran.stdout.decode()


@contextmanager
def in_the_background(command: str, servers: dict[str, str], directory: Path) -> Iterator[None]:
    """Run a command beside the test, and stop it in order."""
    process = subprocess.Popen(
        words(command), cwd=directory, env=environment(servers[ADDRESS]), stdout=subprocess.PIPE
    )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_files_of_the_page_are_read() -> None:
    names = [
        [flow.name for flow in MirrorSettings.of(block.text, FILE).flows]
        for block in on_the_page("properties")
    ]
    assert names == [["home->away"], ["home->away", "away->home"]]


def test_the_page_names_every_key_and_its_default() -> None:
    text = PAGE.read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    told = {key.strip("`| "): row[1] for row in rows for key in row[0].split(",")}
    assert set(FLOW_DEFAULTS) <= told.keys()
    for key in (
        "enabled",
        "topics",
        "replication.policy.class",
        "refresh.topics.interval.seconds",
        "commit.interval.ms",
    ):
        assert told[key].strip("`") == FLOW_DEFAULTS[key]
