"""Prepares one node of Apache Kafka beside ours: same work, same clients, same properties.

Its jars come from ``make kafka-libs`` (or the folder that TIDELOG_KAFKA_LIBS names) and it needs
``java``. Its heap is 1 GiB. Its garbage collector and everything else are its own defaults.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.broker_process import (
    BenchmarkError,
    Beside,
    Installation,
    free_port,
    listener_properties,
    write_properties,
)

NAME = "Apache Kafka"
HEAP = "-Xmx1g"
LIBS = Path(__file__).parent.parent / ".kafka" / "libs"


def java_command() -> list[str]:
    """Return the command that starts one of Kafka's programs. Its class and arguments follow."""
    libs = Path(os.environ.get("TIDELOG_KAFKA_LIBS") or LIBS)
    if not any(libs.glob("kafka_*.jar")):
        raise BenchmarkError(
            f"there are no jars of Apache Kafka in {libs}: run `make kafka-libs`, or name a folder"
            " with TIDELOG_KAFKA_LIBS"
        )
    if shutil.which("java") is None:
        raise BenchmarkError("there is no java on the PATH, which Apache Kafka needs")
    return ["java", HEAP, "-cp", f"{libs}/*"]


def apache_kafka_in(directory: Path, *, beside: Sequence[Beside] = (), **more: str) -> Installation:
    """Prepare one node that is broker and controller, on free ports, in a formatted directory.

    ``more`` are among its properties.
    """
    command = java_command()
    address, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    properties = write_properties(
        directory,
        address,
        **listener_properties(
            address, [*beside, Beside(name="CONTROLLER", protocol="PLAINTEXT", address=controller)]
        ),
        process_roles="broker,controller",
        controller_quorum_voters=f"1@{controller}",
        controller_listener_names="CONTROLLER",
        offsets_topic_replication_factor="1",
        transaction_state_log_replication_factor="1",
        transaction_state_log_min_isr="1",
        share_coordinator_state_topic_replication_factor="1",
        share_coordinator_state_topic_min_isr="1",
        **more,
    )
    tool = [*command, "kafka.tools.StorageTool"]
    cluster_id = subprocess.run(
        [*tool, "random-uuid"], check=True, capture_output=True, text=True
    ).stdout.split()[-1]
    subprocess.run(
        [*tool, "format", "-t", cluster_id, "-c", str(properties)], check=True, capture_output=True
    )
    return Installation(
        name=NAME,
        argv=(*command, "kafka.Kafka", str(properties)),
        address=address,
        directory=directory,
    )
