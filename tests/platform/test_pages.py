"""A reader follows the pages on pipelines.

Files are written, commands and scripts run, in a project of its own, in order. A page's Python
blocks begin with a remark that names their file. Remarks of HTML, which no reader sees, say what
happens in between: ``in: FOLDER`` goes into a folder, ``materialize: KEY ...`` does what the
sensors of a running ``tidelog up`` would, ``refused: KEY: TEXT`` is a run that has to fail with
that text, ``installed: FOLDER`` makes a project that has run before and goes into it, ``run: FILE``
runs a script, ``import: FILE`` only imports it, ``unset: VARIABLE`` takes one from the environment,
``mistaken: TEXT`` means that the project does not load, and why. A block of properties names its
file as Python does, and so does one of YAML that is a component; one of JSON or Protobuf is named
by ``file: FILE`` before it. Other YAML is the config of a replay, or an instance's
``dagster.yaml``. What a script's ``print`` lines show behind a remark is compared with what they
print.

Each command is a process of its own, forked from one that has imported Dagster and Spark already
(``forking``).
"""

import os
import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import dagster as dg
import pytest
import yaml  # type: ignore[import-untyped]

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.documents import PROMPT, ROOT, blocks
from tests.platform.forking import ended

pytestmark = [pytest.mark.platform, pytest.mark.timeout(900)]
COMMAND = re.compile(r"^ *\$ ", re.MULTILINE)
PAGES = sorted(
    page for page in (ROOT / "docs" / "pipelines").glob("*.md") if COMMAND.search(page.read_text())
)
PART = re.compile(r"^ *```(\w+)\n(.*?)^ *```$|^<!-- (\w+): (.*?) -->$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^<!-- materialize: .*lake/", re.MULTILINE)
"""What only Spark can do."""
ADDRESS = "127.0.0.1:9092"
ELSEWHERE = ("tidelog up", "tidelog status", "pytest")
MODULES = {"tidelog": "log_service.cli.main", "dagster": "dagster"}
MATERIALIZE = """
import sys
import dagster as dg
from orchestration.definitions import defs

job = defs.resolve_implicit_global_asset_job_def()
for name in sys.argv[1:]:
    ran = job.get_subset(asset_selection={dg.AssetKey.from_user_string(name)}).execute_in_process(raise_on_error=False)
    for event in ran.get_step_failure_events():
        print(event.step_failure_data.user_failure_data, event.step_failure_data.error.to_string())
    assert ran.success, name
"""
INSTALL = """
from pathlib import Path
from orchestration.project.home import dagster_home
from orchestration.installation.instance import open_instance, write_configuration

home = dagster_home(Path(".tidelog").absolute())
home.mkdir(parents=True)
write_configuration(home)
with open_instance(home):
    pass
"""
VALIDATE = """
import sys
import dagster as dg
import yaml
from orchestration.definitions import defs

config = yaml.safe_load(sys.stdin)
jobs = [job for job in defs.get_repository_def().get_all_jobs() if job.name.startswith("replay_")]
assert jobs, "the project has no job that replays"
for job in jobs:
    dg.validate_run_config(job, config)
"""
"""Holds the config of a job to every job of the project that replays."""


class Reader:
    """Does what a page says."""

    def __init__(self, folder: Path, bootstrap: str, spark_remote: str) -> None:
        self.folder = folder
        self.file = ""
        self.home = folder.parent
        self.bootstrap = bootstrap
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TIDELOG_", "DAGSTER_"))
        }
        self.environment = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "TIDELOG_BOOTSTRAP_SERVERS": bootstrap,
            "TIDELOG_SPARK_REMOTE": spark_remote,
            "COLUMNS": "120",
        }

    def call(self, *arguments: str, given: str = "") -> str:
        """Run Python and return what it prints; it has to end well."""
        code, output, errors = self.ended(*arguments, given=given)
        assert code == 0, f"{arguments}: {output[-3000:]}{errors[-3000:]}"
        return output

    def ended(self, *arguments: str, given: str = "") -> tuple[int | None, str, str]:
        """Run Python; returns its exit code, its output and its errors."""
        return ended(arguments, self.folder, self.environment, self.home, given)

    def read(self, page: Path) -> None:
        for language, indented, order, argument in PART.findall(page.read_text()):
            text = textwrap.dedent(indented)
            if language in {"python", "properties", "json", "proto"}:
                self.write(text)
            elif language == "yaml":
                self.take_yaml(text)
            elif language == "console":
                self.type(text)
            elif order:
                self.obey(order, argument)
            else:
                assert language == "text", f"{page} has a block that nobody knows: {language}"

    def obey(self, order: str, argument: str) -> None:
        """Do what a remark says."""
        if order == "file":
            self.file = argument
        elif order == "in":
            self.enter(argument)
        elif order == "installed":
            self.call("-m", MODULES["tidelog"], "init", argument)
            self.enter(argument)
            self.call("-c", INSTALL)
        elif order == "materialize":
            self.call("-c", MATERIALIZE, *argument.split())
        elif order == "refused":
            self.refuse(*argument.split(": ", 1))
        elif order == "mistaken":
            code, _, errors = self.ended("-c", "import orchestration.definitions")
            assert code, "the project loads"
            assert argument in errors, errors[-3000:]
        elif order == "run":
            self.run(argument)
        elif order == "unset":
            del self.environment[argument]
        else:
            assert order == "import", f"there is a remark that nobody knows: {order}"
            self.call("-c", f"import runpy; runpy.run_path({argument!r})")

    def write(self, text: str) -> None:
        first, _, _ = text.partition("\n")
        assert self.file or first.startswith("# "), f"a block has to name its file: {first}"
        file = self.folder / (self.file or first.removeprefix("# ").strip())
        self.file = ""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(ADDRESS, self.bootstrap))

    def enter(self, folder: str) -> None:
        self.folder /= folder
        self.environment["PYTHONPATH"] = f"{self.folder}{os.pathsep}{ROOT}"

    def take_yaml(self, text: str) -> None:
        if text.startswith("# assets/"):
            self.write(text)
        elif text.startswith("ops:"):
            self.call("-c", VALIDATE, given=text)
        elif "run_monitoring:" in text:
            self.configure(text)
        else:
            assert text.startswith("load_from:"), f"nobody knows what this YAML is: {text}"

    def configure(self, text: str) -> None:
        """Have an instance of Dagster as its ``dagster.yaml`` says."""
        home = self.folder / "instance"
        home.mkdir()
        (home / "dagster.yaml").write_text(text)
        with dg.DagsterInstance.from_config(str(home)) as instance:
            assert (
                instance.run_monitoring_enabled == yaml.safe_load(text)["run_monitoring"]["enabled"]
            )

    def refuse(self, key: str, text: str) -> None:
        code, output, errors = self.ended("-c", MATERIALIZE, key)
        assert code, f"{key} was not refused"
        assert text in output, f"{key}: {output[-3000:]}{errors[-3000:]}"

    def run(self, file: str) -> None:
        printed = self.call(file).splitlines()
        lines = (self.folder / file).read_text().splitlines()
        shown = [line.partition("  # ")[2] for line in lines if "print(" in line and "  # " in line]
        for expected, line in zip(shown, printed, strict=True):
            assert line.startswith(expected.partition("...")[0]), (
                f"{file} shows {expected}, and this was printed: {line}"
            )

    def type(self, text: str) -> None:
        """Run the commands of a block; lines below a command are what it prints, dots stand for
        anything.
        """
        command: str | None = None
        printed: list[str] = []
        for line in text.splitlines():
            if line.startswith(PROMPT):
                command = line.removeprefix(PROMPT).partition("  #")[0].strip()
                printed = [] if command in ELSEWHERE else self.command(command).splitlines()
            elif line.strip() and command not in ELSEWHERE:
                pattern = r"\s+".join(
                    re.escape(word).replace(re.escape("..."), ".*") for word in line.split()
                )
                assert any(re.match(pattern, one.strip()) for one in printed), (
                    f"{command} shows {line!r}, and this was printed: {printed}"
                )

    def command(self, command: str) -> str:
        piped, _, last = command.rpartition(" | ")
        words = shlex.split(last.replace("$PWD", str(self.folder)))
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            self.environment[name] = value
        program, *arguments = words
        assert program in MODULES, f"nobody knows how to run {command}"
        given = (
            subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=True).stdout
            if piped
            else ""
        )
        return self.call("-m", MODULES[program], *arguments, given=given)


def test_a_page_that_is_not_followed_shows_nothing_to_run() -> None:
    shown = {
        block.document
        for block in blocks("python", "console")
        if block.document.parent.name == "pipelines"
    }
    assert shown <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    spark_remote = request.getfixturevalue("spark_remote") if TABLE.search(page.read_text()) else ""
    with BrokerProcess(tmp_path / "broker") as broker:
        folder = tmp_path / "reader"
        folder.mkdir()
        Reader(folder, broker.bootstrap, spark_remote).read(page)
