"""Clients of a registry for JavaScript: Confluent's, and the one of KafkaJS's makers, unchanged.

Needs Node.js, and packages of npm in the versions of ``javascript/package-lock.json``. Without them
the tests skip and say so. ``javascript/*.js`` tell the stories, which are judged here by name.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.proto_messages import Messages

HERE = Path(__file__).parent / "javascript"
INSTALL_SECONDS = 300.0
STORY_SECONDS = 60.0
OLDEST_NODE = 18

pytestmark = pytest.mark.timeout(INSTALL_SECONDS + STORY_SECONDS)

PROTOS = {
    "common.proto": 'syntax = "proto3"; package meta; message Common { string id = 1; map<string, int64> counts = 2; }\n',
    "shop.proto": 'syntax = "proto3"; package shop; import "common.proto"; import "google/protobuf/timestamp.proto";\n'
    "message First { message Inner { bytes data = 1; } Inner inner = 1; }\n"
    "message Click { meta.Common common = 1; google.protobuf.Timestamp at = 2; repeated string tags = 3; }\n",
}
"""One level of imports: the client asks for those of imports as text, which it cannot read."""

STORIES = {
    "confluent": (
        "the client registers and finds",
        "the client is refused with codes",
        "the client changes settings and deletes",
        "Avro comes back by id and by guid",
        "Avro is registered from a value, under each name",
        "JSON comes back, and is validated",
        "Protobuf comes back, with imports and maps",
        "rules in CEL run",
        "rules in JSONata migrate between groups",
    ),
    "kafkajs": (
        "Avro comes back to another reader",
        "a level is set with the first version, and held",
        "JSON comes back, and is validated",
        "Protobuf comes back",
        "references of three languages are resolved",
    ),
}


def node() -> str:
    """Return the path of Node.js, or skip."""
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        pytest.skip(
            "there is no node and npm on the PATH: nothing was tested with clients for JavaScript"
        )
    version = subprocess.run(
        [found, "--version"], capture_output=True, text=True, check=True
    ).stdout
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        pytest.skip(
            f"Node.js is older than {OLDEST_NODE}: nothing was tested with clients for JavaScript"
        )
    return found


def installed() -> Path:
    """Install the packages beside those of Python, once for each lock file, and return the folder."""
    version = sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:12]
    folder = Path(sys.prefix) / f"javascript-{version}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(HERE, partial)
            install(partial)
            partial.rename(folder)
    return folder


def install(folder: Path) -> None:
    """Install what the lock file names. Scripts of packages do not run."""
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
    )
    if done.returncode:
        pytest.skip(
            f"npm cannot install the clients for JavaScript here: nothing was tested with them: {done.stderr[-300:]}"
        )


@pytest.fixture(scope="module")
def told(
    registry: RegistryProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, str | None]]:
    """Let each client tell all of its stories, and return their errors by name."""
    program, packages = node(), installed()
    protos = tmp_path_factory.mktemp("protos")
    Messages(protos, PROTOS)
    found = {}
    for client in STORIES:
        command = [
            program,
            str(HERE / f"{client}.js"),
            registry.url,
            f"{client}-{protos.name}",
            str(protos / "compiled.bin"),
        ]
        environment = {**os.environ, "NODE_PATH": str(packages / "node_modules")}
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=STORY_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found[client] = {line["story"]: line["error"] for line in lines}
    return found


@pytest.mark.parametrize(
    ("client", "story"),
    [(client, story) for client, stories in STORIES.items() for story in stories],
)
def test_a_client_for_javascript_tells_its_story(
    told: dict[str, dict[str, str | None]], client: str, story: str
) -> None:
    """The error is that of the program, with its lines."""
    assert told[client][story] is None, told[client][story]


def test_every_story_of_a_client_for_javascript_is_judged(
    told: dict[str, dict[str, str | None]],
) -> None:
    """By its name here."""
    assert {client: tuple(stories) for client, stories in told.items()} == STORIES
