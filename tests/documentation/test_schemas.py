"""The page on schemas runs as it is printed: a registry, and the requests of a reader with curl."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from log_service.config.properties import parse_properties
from log_service.config.server import parse_server_properties
from log_service.http.schema_registry.settings import read_registry_settings
from tests.helpers.broker_process import BrokerThread
from tests.helpers.documents import ROOT, Block, blocks
from tests.helpers.registry_process import RegistryProcess
from tests.integration.command_line import run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "schemas.md"
SHOWN = "http://127.0.0.1:8085"


def on_the_page(*languages: str) -> list[Block]:
    """Return the page's blocks, from its beginning to its end."""
    found = [block for block in blocks(*languages) if block.document == PAGE]
    return sorted(found, key=lambda block: block.line)


def asked(command: str, bootstrap: str, registry: str) -> bytes:
    """Run a command of the page, and return its output. It has to succeed."""
    if command.startswith("curl"):
        words = shlex.split(command.replace(SHOWN, registry))
        ran = subprocess.run(
            [*words, "--silent", "--show-error", "--fail"], capture_output=True, check=False
        )
        assert ran.returncode == 0, f"{command}: {ran.stdout!r}{ran.stderr!r}"
        return ran.stdout
    before, _, tidelog = command.rpartition(" | ")
    given = " ".join(shlex.split(before)[1:])
    finished = run(
        shlex.split(tidelog.replace(SHOWN, registry))[1:], bootstrap=bootstrap, given=given
    )
    assert finished.exit_code == 0, f"{command}: {finished.errors}"
    return finished.output.encode()


@pytest.mark.skipif(
    shutil.which("curl") is None, reason="the page asks with curl, which is not installed"
)
def test_the_requests_on_the_page_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them succeeds, in the order of the page, beside the file that the page shows."""
    (file,) = on_the_page("json")
    (tmp_path / "payment.avsc").write_text(file.text)
    monkeypatch.chdir(tmp_path)
    commands = [command for block in on_the_page("console") for command in block.commands]
    served = [command for command in commands if command.startswith("tidelog registry serve")]
    assert served == [f"tidelog registry serve --listen {SHOWN} -b 127.0.0.1:9092"]
    others = [command for command in commands if command not in served]
    with (
        BrokerThread(tmp_path / "broker") as broker,
        RegistryProcess(tmp_path, broker.bootstrap) as registry,
    ):
        found = {command: asked(command, broker.bootstrap, registry.url) for command in others}
    (printed,) = [
        output for command, output in found.items() if command.startswith("tidelog consume")
    ]
    assert json.loads(printed) == {"id": 7, "note": "paid"}
    answers = [
        json.loads(output) for command, output in found.items() if command.startswith("curl")
    ]
    registered, latest, by_id, level, compared = answers
    assert registered["id"] == latest["id"] == 1
    assert latest["schema"] == by_id["schema"]
    assert level == {"compatibility": "FULL"}
    assert not compared["is_compatible"]


def test_the_settings_files_on_the_page_are_understood() -> None:
    """They have no key without a meaning, for the broker or for the registry."""
    of_broker: list[Block] = []
    of_registry: list[Block] = []
    for block in on_the_page("properties"):
        (of_broker if block.text.startswith("confluent.") else of_registry).append(block)
    for block in of_broker:
        config, texts = parse_server_properties({"node.id": "1"} | parse_properties(block.text))
        assert texts.unknown_keys == ()
        assert config.schema_registry is not None
    assert of_broker
    for block in of_registry:
        settings = read_registry_settings(block.text, "the page")
        assert settings.unused == ()
        assert settings.advertised.host == "registry-1.example"
