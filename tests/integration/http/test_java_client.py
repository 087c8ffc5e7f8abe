"""Confluent's Java client of a registry, unchanged. ``RegistryJudge.java`` tells its stories.

Its version is 7.5, as it is inside a jar of Apache Flink. Needs Java and the jars of ``make
kafka-libs``; without them the tests skip and say so.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.java_archives import KAFKA_LIBS, QUICK
from tests.helpers.registry_process import RegistryProcess

JUDGE = Path(__file__).with_name("RegistryJudge.java")
STORY_SECONDS = 100.0
STORIES = (
    "schemas are registered and found",
    "metadata and rules come back",
    "references are resolved",
    "refusals have their codes",
    "levels, settings and modes are changed",
    "versions and subjects are deleted",
    "contexts keep schemas apart",
    "Flink's coder writes and reads ids",
)


def skip_unless_flink_is_there() -> Path:
    """Return the folder of the jars, or skip with a reason that says what to do."""
    if KAFKA_LIBS not in os.environ:
        pytest.skip(f"{KAFKA_LIBS} is not set: nothing was tested with Confluent's Java client")
    folder = Path(os.environ[KAFKA_LIBS]).parent / "flink-libs"
    if not list(folder.glob("flink-*.jar")):
        pytest.skip(
            f"{folder} has no jar of Apache Flink (make kafka-libs): nothing was tested with Confluent's Java client"
        )
    if shutil.which("java") is None:
        pytest.skip("there is no java on the PATH: nothing was tested with Confluent's Java client")
    return folder


@pytest.fixture(scope="module")
def told(
    registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str | None]:
    """Let the client tell all of its stories, and return their errors by name."""
    prefix = tmp_path_factory.mktemp("java").name
    command = [
        "java",
        "-Xmx256m",
        *QUICK,
        "-cp",
        f"{skip_unless_flink_is_there()}/*",
        str(JUDGE),
        registry.url,
        prefix,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=STORY_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["story"]: line["error"] for line in lines}


@pytest.mark.parametrize("story", STORIES)
def test_confluents_client_for_java_tells_its_story(
    told: dict[str, str | None], story: str
) -> None:
    """The error is that of the program, with its place."""
    assert told[story] is None, told[story]


def test_every_story_of_the_client_for_java_is_judged(told: dict[str, str | None]) -> None:
    """By its name here."""
    assert tuple(told) == STORIES
