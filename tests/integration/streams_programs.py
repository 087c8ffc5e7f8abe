"""Compiles the programs of this folder that use Kafka Streams.

It is apart from ``kafka_node``, on which every recording of Apache Kafka's responses depends
(``stories``).
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.kafka_node import java_command, skip_unless_kafka_is_there

COMPILE_SECONDS = 300.0


def streams_program(name: str, folder: Path, *, with_tests: bool = False) -> list[str]:
    """Compile a program of this folder that uses Kafka Streams, and return its command.

    Skip if it cannot be compiled.

    With ``with_tests`` it finds the classes of Kafka Streams' own tests, whose jar lies in a folder
    beside the others.
    """
    skip_unless_kafka_is_there()
    *options, jars = java_command("-Xmx256m")
    if not any(Path(jars).parent.glob("kafka-streams-*.jar")):
        pytest.skip(
            f"{Path(jars).parent} has no Kafka Streams (make kafka-libs fetches it): nothing was tested with it"
        )
    if with_tests:
        folder_of_tests = Path(jars).parent.parent / "test-libs"
        if not any(folder_of_tests.glob("kafka-streams-*-test.jar")):
            pytest.skip(
                f"{folder_of_tests} has no tests of Kafka Streams (make kafka-libs fetches them): nothing was tested with them"
            )
        jars = f"{jars}:{folder_of_tests}/*"
    if shutil.which("javac") is None:
        pytest.skip("there is no javac on the PATH: nothing was tested with Kafka Streams")
    source = Path(__file__).parent / f"{name}.java"
    subprocess.run(
        ["javac", "-cp", jars, "-d", str(folder), str(source)], check=True, timeout=COMPILE_SECONDS
    )
    return [*options, f"{jars}:{folder}", name]
