"""The examples run as they are printed, one after the other, against a new broker."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from log_service.client import BlockingProducer
from tests.integration.client_clusters import tidelog

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

RUNS_ON = re.compile(r"running on (http://\S+)")
HEED_INTERRUPTS = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv[0] = "examples/asyncio_service.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The example as a terminal starts it: a shell that runs the tests in the background has them, and
their children, ignore Ctrl-C.
"""
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tidelog(tmp_path_factory.mktemp("cluster")) as bootstrap:
        yield bootstrap


def run_example(servers: str, name: str, *arguments: str) -> str:
    command = [
        sys.executable,
        str(EXAMPLES / f"{name}.py"),
        "--bootstrap-servers",
        servers,
        *arguments,
    ]
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=EXAMPLES.parent
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_every_example_is_tried() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == [
        "admin",
        "asyncio_service",
        "blocking_service",
        "consume",
        "orders",
        "produce",
    ]


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


def test_the_asyncio_service_turns_requests_into_records_and_reads_them(
    servers: str, tmp_path: Path
) -> None:
    with serving(servers, tmp_path / "first.log") as address:
        taken = [
            httpx.post(f"{address}/orders", json={"country": "NL", "amount": 2.5})
            .raise_for_status()
            .json()
            for _ in range(4)
        ]
        assert [each["offset"] for each in taken] == [0, 1, 2, 3], "one key goes to one partition"
        assert httpx.post(f"{address}/orders", json={"country": "NL"}).status_code == 422
        with BlockingProducer(servers) as other:
            other.send("paid-orders", b"no JSON", key=b"NL")
            other.send("paid-orders", b'{"country": "NL", "amount": NaN}', key=b"NL")
        assert (
            httpx.post(f"{address}/orders", json={"country": "DE", "amount": 1.0}).status_code
            == 201
        )
        assert revenue(address, "DE", 1.0) == 1.0, (
            "a record that is no order keeps none behind it from being added"
        )
        assert revenue(address, "NL", 10.0) == 10.0
    with serving(servers, tmp_path / "second.log") as address:
        httpx.post(f"{address}/orders", json={"country": "NL", "amount": 1.0}).raise_for_status()
        assert revenue(address, "NL", 1.0) == 1.0, "the first one committed what it had added"


def test_the_asyncio_service_ends_where_its_background_task_fails(servers: str) -> None:
    """It would respond with the sum of then for ever, and refuse all orders. Here the topic has a
    name that no topic can have.
    """
    command = [
        sys.executable,
        str(EXAMPLES / "asyncio_service.py"),
        "--bootstrap-servers",
        servers,
        "--port",
        "0",
        "--topic",
        "no topic!",
    ]
    finished = subprocess.run(
        command, capture_output=True, text=True, timeout=90, check=False, cwd=EXAMPLES.parent
    )
    assert finished.returncode == 1
    assert "INVALID_TOPIC_EXCEPTION" in finished.stderr
    assert finished.stderr.splitlines()[-1] == "the orders could not be read any more: see above"


@contextmanager
def serving(servers: str, log: Path) -> Iterator[str]:
    """Run the asyncio service until Ctrl-C, which it has to heed; yields its address."""
    command = [sys.executable, "-c", HEED_INTERRUPTS, "--bootstrap-servers", servers, "--port", "0"]
    with (
        log.open("wb") as written,
        subprocess.Popen(command, stdout=written, stderr=written, cwd=EXAMPLES.parent) as process,
    ):
        try:
            deadline = time.monotonic() + 30
            while (
                (found := RUNS_ON.search(log.read_text())) is None
                and process.poll() is None
                and time.monotonic() < deadline
            ):
                time.sleep(0.05)
            assert found is not None, log.read_text()
            yield found.group(1)
            process.send_signal(signal.SIGINT)
            process.wait(30)
        finally:
            process.kill()
    text = log.read_text()
    assert "Application shutdown complete" in text, text
    assert "Traceback" not in text.replace("KeyboardInterrupt", ""), text


def revenue(address: str, country: str, expected: float) -> float:
    """Ask until the background task has added up so much, or patience ends."""
    deadline = time.monotonic() + 30
    while (
        found := float(httpx.get(f"{address}/revenue/{country}").raise_for_status().json())
    ) < expected and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def test_orders_are_billed_and_what_nobody_can_read_is_skipped(servers: str) -> None:
    printed = run_example(servers, "orders")
    assert "skipped orders-0 offset 5: b'this is no JSON'" in printed
    assert "billed 100, 0 records behind" in printed
