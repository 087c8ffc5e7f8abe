"""Either software runs the data of this node.

It has its file of properties, and reads its metadata log by Kafka's tool.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from tests.helpers.broker_process import BrokerProcess
from tests.helpers.ports import free_ports
from tests.integration.kafka_node import java, java_command

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
METADATA = "__cluster_metadata-0"
START_SECONDS = 60


def dump(path: Path) -> list[tuple[str, Any]]:
    """Return (kind, fields) of every record in a metadata segment or snapshot, by Kafka's dump
    tool.
    """
    printed = java(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        str(path),
        cwd=path.parent,
    )
    assert "isvalid: false" not in printed
    records: list[tuple[str, Any]] = []
    for line in printed.splitlines():
        match = re.search(r"headerKeys: \[\] (?:payload: )?([A-Za-z]*):? ?(\{.*\})$", line)
        if match is not None:
            fields = json.loads(match[2])
            records.append((match[1], fields) if match[1] else (fields["type"], fields["data"]))
    return records


class Node:
    """One node's data, and its properties for either software.

    ``properties`` are for Kafka alone, over the others.
    """

    def __init__(
        self, root: Path, *, ports: Sequence[int] = (), properties: Mapping[str, str] | None = None
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.port, self.controller_port = ports or free_ports(2)
        self.data = root / "data"
        self.address = f"127.0.0.1:{self.port}"
        self.properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
        }
        lines = {**self.properties, **(properties or {})}
        self.file = root / "node.properties"
        self.file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))

    def metadata(self, name: str) -> Path:
        return self.data / METADATA / name

    def format_by_kafka(self, *arguments: str) -> None:
        java(
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            "-t",
            CLUSTER_ID,
            "-c",
            str(self.file),
            *arguments,
            cwd=self.root,
        )

    @contextmanager
    def tidelog(self, **properties: str) -> Iterator[BrokerProcess]:
        texts = {
            **self.properties,
            "cluster.id": CLUSTER_ID,
            **{name.replace("_", "."): text for name, text in properties.items()},
        }
        with BrokerProcess(self.root, port=self.port, properties=texts) as broker:
            yield broker

    @contextmanager
    def kafka(self) -> Iterator[AdminClient]:
        with (self.root / "kafka.log").open("ab") as output:
            command = [*java_command(), "kafka.Kafka", str(self.file)]
            process = subprocess.Popen(command, cwd=self.root, stdout=output, stderr=output)
        try:
            admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            deadline = time.monotonic() + START_SECONDS
            while not is_answering(admin):
                assert process.poll() is None, (self.root / "kafka.log").read_text()
                assert time.monotonic() < deadline, "Kafka did not answer in time"
                time.sleep(0.2)
            yield admin
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def is_answering(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except Exception:  # noqa: BLE001 - the client has one exception for everything
        return False
