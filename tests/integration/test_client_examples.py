"""The examples run as they are printed, one after the other, against a new broker."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.client_clusters import tidelog

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tidelog(tmp_path_factory.mktemp("cluster")) as bootstrap:
        yield bootstrap


def run_example(servers: str, name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--bootstrap-servers", servers, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=EXAMPLES.parent)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_every_example_is_tried() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == ["admin", "blocking_service", "consume", "orders", "produce"]


def test_what_produce_sends_consume_prints(servers: str) -> None:
    assert "21 records delivered, 0 failed" in run_example(servers, "produce", "--count", "20")
    printed = run_example(servers, "consume", "--idle-ms", "3000")
    assert sum("b'hello " in line for line in printed.splitlines()) == 20
    assert "b'goodbye'" in printed


def test_admin_tells_of_the_cluster(servers: str) -> None:
    printed = run_example(servers, "admin", "--topic", "administered")
    assert "1 brokers, tidelog" in printed
    assert "retention.ms is 86400000 (DYNAMIC_TOPIC_CONFIG)" in printed
    assert "administered-3: offsets 0 to 0" in printed


def test_the_blocking_service_reads_what_its_threads_produce(servers: str) -> None:
    printed = run_example(servers, "blocking_service", "--seconds", "2")
    assert "the first reading is at offset 0" in printed
    assert int(printed.split("read ")[1].split()[0]) > 50


def test_orders_are_billed_and_what_nobody_can_read_is_skipped(servers: str) -> None:
    printed = run_example(servers, "orders")
    assert "skipped orders-0 offset 5: b'this is no JSON'" in printed
    assert "billed 100, 0 records behind" in printed
