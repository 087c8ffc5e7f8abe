"""franz-go's client of a registry, unchanged. ``franz_go_sr/main.go`` tells its stories."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.integration.clients_of_a_cluster import HERE, built_by_go

pytestmark = pytest.mark.timeout(600)  # a first build of the program fetches and compiles franz-go
STORY_SECONDS = 60.0
STORIES = (
    "schemas are created and found",
    "schemas of three languages refer to others",
    "refusals have codes that the client knows",
    "versions are deleted softly and then for good",
    "levels, settings and modes are set and reset",
    "schemas come with ids while importing",
    "contexts keep schemas apart",
    "values are encoded behind ids and indexes",
)


@pytest.fixture(scope="module")
def told(
    registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str | None]:
    """Let the client tell all of its stories, and return their errors by name."""
    folder: Path = tmp_path_factory.mktemp("franz-go")
    program = built_by_go(HERE / "franz_go_sr", folder)
    command = [*program, registry.url, folder.name]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=STORY_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["story"]: line["error"] for line in lines}


@pytest.mark.parametrize("story", STORIES)
def test_franz_go_tells_its_story(told: dict[str, str | None], story: str) -> None:
    """The error is that of the program."""
    assert told[story] is None, told[story]


def test_every_story_of_franz_go_is_judged(told: dict[str, str | None]) -> None:
    """By its name here."""
    assert tuple(told) == STORIES
