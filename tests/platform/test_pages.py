"""The pages on pipelines as a reader follows them: files are written, commands and scripts run, in a project of its own, in order.

A page's Python blocks begin with a remark that names their file. Remarks of HTML, which no reader sees, say what happens in between:
``in: FOLDER`` goes into a folder, ``materialize: KEY`` does what the sensor of a running ``tidelog up`` would, ``run: FILE`` runs a script.
What a script's ``print`` lines show behind a remark is compared with what they print.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.documents import PROMPT, ROOT
from tests.platform.test_kills import warm_server

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]
PAGES = sorted((ROOT / "docs" / "pipelines").glob("*.md"))
PART = re.compile(r"^```(\w+)\n(.*?)^```$|^<!-- (\w+): (.*?) -->$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"
ELSEWHERE = ("tidelog up",)
MATERIALIZE = """
import sys
import dagster as dg
from orchestration.definitions import defs

key = dg.AssetKey.from_user_string(sys.argv[1])
job = defs.resolve_implicit_global_asset_job_def()
assert job.get_subset(asset_selection={key}).execute_in_process().success
"""


@pytest.fixture(scope="module")
def spark_remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warm_server(tmp_path_factory.mktemp("server")) as (url, _):
        yield url


class Reader:
    """Does what a page says."""

    def __init__(self, folder: Path, bootstrap: str, spark_remote: str) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "DAGSTER_"))}
        self.environment = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "TIDELOG_BOOTSTRAP_SERVERS": bootstrap,
            "TIDELOG_SPARK_REMOTE": spark_remote,
            "COLUMNS": "120",
        }

    def call(self, *arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert ran.returncode == 0, f"{arguments}: {ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        return ran.stdout

    def read(self, page: Path) -> None:
        for language, text, order, argument in PART.findall(page.read_text()):
            if language == "python":
                self.write(text)
            elif language == "console":
                self.type(text)
            elif order == "in":
                self.folder /= argument
                self.environment["PYTHONPATH"] = f"{self.folder}{os.pathsep}{ROOT}"
            elif order == "materialize":
                self.call("-c", MATERIALIZE, argument)
            elif order == "run":
                self.run(argument)
            else:
                assert language in {"yaml", "text"}, f"{page} has a block or a remark that nobody knows: {language}{order}"

    def write(self, text: str) -> None:
        first, _, _ = text.partition("\n")
        assert first.startswith("# "), f"a Python block has to name its file: {first}"
        file = self.folder / first.removeprefix("# ").strip()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(ADDRESS, self.bootstrap))

    def run(self, file: str) -> None:
        printed = self.call(file).splitlines()
        lines = (self.folder / file).read_text().splitlines()
        shown = [line.partition("  # ")[2] for line in lines if "print(" in line and "  # " in line]
        for expected, line in zip(shown, printed, strict=True):
            assert line.startswith(expected.partition("...")[0]), f"{file} shows {expected}, and this was printed: {line}"

    def type(self, text: str) -> None:
        """Run the commands of a block; lines below a command are what it prints, dots stand for anything."""
        command: str | None = None
        printed: list[str] = []
        for line in text.splitlines():
            if line.startswith(PROMPT):
                command = line.removeprefix(PROMPT).partition("  #")[0].strip()
                printed = [] if command in ELSEWHERE else self.command(command).splitlines()
            elif line.strip() and command not in ELSEWHERE:
                pattern = re.escape(line.strip()).replace(re.escape("..."), ".*").replace(r"\ ", r"\s+").replace(" ", r"\s+")
                assert any(re.match(pattern, one.strip()) for one in printed), f"{command} shows {line!r}, and this was printed: {printed}"

    def command(self, command: str) -> str:
        piped, _, last = command.rpartition(" | ")
        program, *arguments = shlex.split(last)
        assert program == "tidelog", f"nobody knows how to run {command}"
        if piped:
            return subprocess.run(
                ["bash", "-c", f"{piped} | {shlex.join([sys.executable, '-m', 'log_service.cli.main', *arguments])}"],
                cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=True,
            ).stdout  # fmt: skip
        return self.call("-m", "log_service.cli.main", *arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page: Path, tmp_path: Path, spark_remote: str) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        folder = tmp_path / "reader"
        folder.mkdir()
        Reader(folder, broker.bootstrap, spark_remote).read(page)
