"""``tidelog up`` goes on while its Spark is away.

Producers produce, declared topics come first, and the waits are told.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, BlockingProducer, ConfigResource
from tests.helpers.ports import free_port
from tests.platform.installation import ROOT, environment, wait_until

pytestmark = [pytest.mark.platform, pytest.mark.timeout(300)]
TOPICS = """\
from orchestration.topics.spec import TopicSpec, topic_asset

orders = topic_asset(TopicSpec(name="orders", partitions=4, configs={"retention.ms": 3_600_000}))
"""
TIDELOG = (sys.executable, "-m", "log_service.cli.main")
PATIENCE_S = 120.0


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """Run ``tidelog up``; yields the file of what it says, and its process."""
    said = folder / "up.out"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*TIDELOG, "up", "--no-console", *arguments],
            cwd=folder,
            env=environment(),
            stdout=output,
            stderr=output,
        )
    try:
        yield said, process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(100)


def states(data: Path) -> dict[str, dict[str, object]]:
    told = subprocess.run(
        [*TIDELOG, "status", "--json", "--data", str(data)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return {one["name"]: one for one in json.loads(told.stdout or "[]")}


def test_producing_goes_on_and_topics_are_declared_first(tmp_path: Path) -> None:
    project, data = tmp_path / "shop", tmp_path / "data"
    (project / "assets").mkdir(parents=True)
    (project / "assets" / "__init__.py").write_text("")
    (project / "assets" / "topics.py").write_text(TOPICS)
    port = free_port()
    ports = [
        "--broker-port",
        port,
        "--ui-port",
        free_port(),
        "--metrics-port",
        0,
        "--registry-port",
        0,
    ]
    spark = ["--spark-remote", f"sc://127.0.0.1:{free_port()}", "--start-timeout", 25]
    arguments = ["--data", data, "--project", project, *ports, *spark]
    servers = f"127.0.0.1:{port}"
    with running(tmp_path, *map(str, arguments)) as (said, process):
        wait_until(lambda: "broker   ready" in said.read_text(), PATIENCE_S, said.read_text)
        with BlockingProducer(servers) as producer, BlockingAdmin(servers) as admin:
            producer.send("orders", value=b"earlier than the project").wait()
            producer.send("others", value=b"declared by nobody").wait()
            found = admin.describe_topics(["orders", "others"])
            assert (found["orders"].partition_count, found["others"].partition_count) == (4, 1)
            resource = ConfigResource.topic("orders")
            assert admin.describe_configs([resource])[resource]["retention.ms"].value == "3600000"
            admin.delete_topics(["orders"])
        with BlockingProducer(servers) as producer, BlockingAdmin(servers) as admin:
            producer.send("orders", value=b"while it is deleted").wait()
            assert admin.describe_topics(["orders"])["orders"].partition_count == 4
            found_states = states(data)
            assert (found_states["broker"]["state"], found_states["code"]["waits_for"]) == (
                "ready",
                ["spark"],
            )
            wait_until(
                lambda: "did not respond within 25 s: start it" in said.read_text(),
                PATIENCE_S,
                said.read_text,
            )
            assert process.poll() is None
            assert "start it, or unset TIDELOG_SPARK_REMOTE" in str(
                states(data)["spark"]["failure"]
            )
            producer.send("orders", value=b"Spark is still away").wait()
