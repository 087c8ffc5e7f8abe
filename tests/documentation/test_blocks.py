"""The blocks of the documents run against a broker of the test's own.

They are Python, and the lines that a reader types.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from log_service.client import BlockingAdmin, BlockingConsumer, BlockingProducer, NewTopic
from log_service.supervisor.protection import CONSOLE, REGISTRY
from log_service.supervisor.spec import CODE
from orchestration.installation.services import DAEMON, SPARK, WEB
from tests.documentation.running import environment, run_python, words
from tests.helpers.broker_process import BrokerThread
from tests.helpers.documents import ROOT, Block, blocks

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
PATIENCE_S = 60.0

PAGES_ELSEWHERE: Mapping[str, str] = {
    "mirror.md": "tests/documentation/test_mirror.py",
    "rest.md": "tests/documentation/test_rest.py",
    "schemas.md": "tests/documentation/test_schemas.py",
    "exactly-once.md": "tests/documentation/test_exactly_once.py",
    "queues.md": "tests/documentation/test_queues.py",
    "serializers.md": "tests/documentation/test_serializers.py",
    "security.md": "tests/documentation/test_users_and_rights.py",
    "secure-installation.md": "tests/integration/test_up_secure.py",
}
"""Pages whose blocks are run on other clusters."""
RUNS_ELSEWHERE: Mapping[str, str] = {
    "tidelog up": "tests/platform/test_kills.py",
    "tidelog up --brokers 3 --only-broker": "tests/integration/test_up_cluster.py",
    "tidelog cluster add --start --execute": "tests/integration/test_up_cluster.py",
    "tidelog cluster remove 4 --execute": "tests/integration/test_up_cluster.py",
    "tidelog cluster roll --execute": "tests/integration/test_up_cluster.py",
    "tidelog cluster stop 2": "tests/integration/test_up_cluster.py",
    "tidelog cluster start 2": "tests/integration/test_up_cluster.py",
    "tidelog cluster features --set tidelog.observers=1": "tests/integration/test_observers.py",
    "tidelog configs set tidelog.observer=true --broker 3": "tests/integration/test_observers.py",
    "tidelog configs set tidelog.observer.promotion=under-min-isr --cluster-default": "tests/integration/test_observers.py",
    "tidelog configs unset tidelog.observer --broker 3": "tests/integration/test_observers.py",
    ".venv/bin/tidelog up --data .tidelog-demo": "tests/platform/test_demo.py",
}
"""Commands that start a whole installation, or need several brokers, and the tests that run them.
"""

RUNS_UNTIL_STOPPED: Mapping[str, str] = {
    "tidelog top": "orders",
    "tidelog serve server.properties --override num.partitions=3": "is ready",
}
"""Commands that go on until Ctrl-C, and what they show before."""

HEED_INTERRUPTS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from log_service.cli.main import main
main()
"""
"""The command line as a terminal starts it: a shell that runs the tests in the background has them,
and their children, ignore Ctrl-C.
"""


class Node(NamedTuple):
    """A broker whose files lie where the documents' commands look for them."""

    bootstrap: str
    directory: Path


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A broker in this process: what the documents show is started as processes of their own."""
    directory = tmp_path_factory.mktemp("reader")
    with BrokerThread(
        directory, properties={"log.dirs": str(directory / ".tidelog" / "broker" / "logs")}
    ) as running:
        yield Node(running.bootstrap, directory)


def blocks_here(language: str) -> list[Block]:
    """Return the blocks that are run here.

    The pages on pipelines are followed by ``tests/platform/test_pages.py``.
    """
    return [
        block
        for block in blocks(language)
        if block.document.parent.name != "pipelines" and block.document.name not in PAGES_ELSEWHERE
    ]


@pytest.mark.parametrize("block", blocks_here("python"), ids=str)
def test_python_runs_as_it_is_printed(block: Block, broker: Node, tmp_path: Path) -> None:
    run_python(block, broker.bootstrap, tmp_path)


def typed_here(block: Block) -> list[str]:
    """The commands of a block that are run here."""
    return [
        command
        for command in block.commands
        if not command.startswith("make ") and command not in RUNS_ELSEWHERE
    ]


@pytest.mark.parametrize(
    "block", [block for block in blocks_here("console") if typed_here(block)], ids=str
)
def test_commands_run_as_they_are_printed(block: Block, broker: Node) -> None:
    prepare(broker)
    for command in typed_here(block):
        shown = RUNS_UNTIL_STOPPED.get(command)
        if shown is None:
            before, _, last = command.rpartition(" | ")
            given = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout
            ran = subprocess.run(
                words(last),
                cwd=broker.directory,
                env=environment(broker.bootstrap),
                input=given,
                capture_output=True,
                check=False,
            )
            assert ran.returncode == 0, f"{command}: {ran.stdout!r}{ran.stderr!r}"
            assert ran.stdout or ran.stderr, f"{command} said nothing"
        else:
            run_until(command, shown, broker)


def test_the_components_that_the_readme_shows_are_those_that_start() -> None:
    shown = next(block for block in blocks("console") if "everything is ready" in block.text)
    names = [
        line.split()[0]
        for line in shown.text.splitlines()
        if " ready" in line and not line.startswith(("$", "everything"))
    ]
    assert names == ["broker", REGISTRY, CONSOLE, SPARK, CODE, WEB, DAEMON]


def test_what_runs_elsewhere_is_still_shown() -> None:
    shown = {command for block in blocks("console") for command in block.commands}
    assert {*RUNS_UNTIL_STOPPED, *RUNS_ELSEWHERE} <= shown
    assert all((ROOT / test).exists() for test in RUNS_ELSEWHERE.values())
    for page, test in PAGES_ELSEWHERE.items():
        assert page in (ROOT / test).read_text(), f"{test} does not read {page}"


def prepare(broker: Node) -> None:
    """Have what the commands are about: groups with commits, and a file of server properties."""
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name="sold", partition_count=1)], timeout_ms=30_000)
    with BlockingProducer(broker.bootstrap) as producer:
        producer.send("sold", value=b"{}").wait()
    for group in ("tidelog.clean_orders", "billing"):
        with BlockingConsumer(
            broker.bootstrap, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["sold"])
            assert next(iter(consumer))
            consumer.commit()
    data = broker.directory / "served"
    text = f"process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={data}\n"
    (broker.directory / "server.properties").write_text(text)


def run_until(command: str, shown: str, broker: Node) -> None:
    """Start a command, wait until it shows a text, and stop it as Ctrl-C does."""
    output = broker.directory / "shown.txt"
    with output.open("wb") as written:
        command_line = [sys.executable, "-c", HEED_INTERRUPTS, *words(command)[3:]]
        process = subprocess.Popen(
            command_line,
            cwd=broker.directory,
            env=environment(broker.bootstrap),
            stdout=written,
            stderr=written,
        )
        deadline = time.monotonic() + PATIENCE_S
        while (
            shown not in output.read_text()
            and time.monotonic() < deadline
            and process.poll() is None
        ):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()
    assert shown in output.read_text(), f"{command}: {output.read_text()}"
