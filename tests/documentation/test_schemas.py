"""The page on schemas runs as it is printed: a registry, and the requests of a reader with curl."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from log_service.http.schema_registry.settings import read_registry_settings
from tests.helpers.broker_process import BrokerThread
from tests.helpers.documents import ROOT, Block, blocks
from tests.helpers.registry_process import RegistryProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "schemas.md"
SHOWN = "http://127.0.0.1:8085"


def on_the_page(*languages: str) -> list[Block]:
    """Return the page's blocks, from its beginning to its end."""
    found = [block for block in blocks(*languages) if block.document == PAGE]
    return sorted(found, key=lambda block: block.line)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks with curl, which is not installed")
def test_the_requests_on_the_page_are_answered(tmp_path: Path) -> None:
    """Each of them succeeds, in the order of the page."""
    commands = [command for block in on_the_page("console") for command in block.commands]
    served = [command for command in commands if command.startswith("tidelog registry serve")]
    assert served == [f"tidelog registry serve --listen {SHOWN} -b 127.0.0.1:9092"]
    asked = [command for command in commands if command.startswith("curl")]
    assert len(asked) == len(commands) - len(served)
    with BrokerThread(tmp_path / "broker") as broker, RegistryProcess(tmp_path, broker.bootstrap) as registry:
        answers = []
        for command in asked:
            words = shlex.split(command.replace(SHOWN, registry.url))
            ran = subprocess.run([*words, "--silent", "--show-error", "--fail"], capture_output=True, check=False)
            assert ran.returncode == 0, f"{command}: {ran.stdout!r}{ran.stderr!r}"
            answers.append(json.loads(ran.stdout))
    registered, latest, by_id, level, compared = answers
    assert registered["id"] == latest["id"] == 1
    assert latest["schema"] == by_id["schema"]
    assert level == {"compatibility": "FULL"}
    assert not compared["is_compatible"]


def test_the_settings_file_on_the_page_is_understood() -> None:
    """It has no key without a meaning."""
    for block in on_the_page("properties"):
        settings = read_registry_settings(block.text, "the page")
        assert settings.unused == ()
        assert settings.advertised.host == "registry-1.example"
