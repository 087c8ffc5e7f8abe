"""The page on the REST proxy runs as it is printed: a proxy, and a reader's requests with curl."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from log_service.client import BlockingAdmin, NewTopic
from log_service.http.rest_proxy.settings import read_rest_settings
from tests.helpers.broker_process import BrokerThread
from tests.helpers.documents import ROOT, Block, blocks
from tests.helpers.rest_process import RestProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PAGE = ROOT / "docs" / "rest.md"
SHOWN = "http://127.0.0.1:8082"


def on_the_page(*languages: str) -> list[Block]:
    """Return the page's blocks, from its beginning to its end."""
    found = [block for block in blocks(*languages) if block.document == PAGE]
    return sorted(found, key=lambda block: block.line)


def asked(command: str, proxy: str) -> bytes:
    """Run a command of the page, and return its output. It has to succeed."""
    words = [*shlex.split(command.replace(SHOWN, proxy)), "--silent", "--show-error", "--fail"]
    ran = subprocess.run(words, capture_output=True, check=False)
    assert ran.returncode == 0, f"{command}: {ran.stdout!r}{ran.stderr!r}"
    return ran.stdout


@pytest.mark.skipif(
    shutil.which("curl") is None, reason="the page asks with curl, which is not installed"
)
def test_the_requests_on_the_page_are_answered(tmp_path: Path) -> None:
    """Each of them succeeds, in the order of the page."""
    commands = [command for block in on_the_page("console") for command in block.commands]
    served = [command for command in commands if command.startswith("tidelog rest serve")]
    assert served == [f"tidelog rest serve --listen {SHOWN} -b 127.0.0.1:9092"]
    others = [command for command in commands if command not in served]
    with (
        BrokerThread(tmp_path / "broker") as broker,
        BlockingAdmin(broker.bootstrap) as admin,
        RestProcess(tmp_path, broker.bootstrap) as proxy,
    ):
        admin.create_topics([NewTopic(name="payments", partition_count=1)])
        found = [asked(command, proxy.url) for command in others]
    written, offsets, _, _, read, *_, clusters = found
    assert len(json.loads(clusters)["data"]) == 1
    assert [each["offset"] for each in json.loads(written)["offsets"]] == [0, 1]
    assert json.loads(offsets) == {"beginning_offset": 0, "end_offset": 2}
    assert [each["value"] for each in json.loads(read)] == [{"amount": 7}, {"amount": 8}]
    whole, last, once, acquired = (
        out for command, out in zip(others, found, strict=True) if "/v1/" in command
    )
    assert [json.loads(line).get("value") for line in whole.split(b"\n")[:2]] == [
        {"amount": 7},
        {"amount": 8},
    ]
    assert b'"value": {"amount": 8}' in last
    assert b'"reason": "limit"' in last
    assert json.loads(acquired)["records"] == []
    assert json.loads(once) == {"partition": 0, "offset": 2}


def test_the_settings_file_on_the_page_is_understood() -> None:
    """It has no key without a meaning."""
    for block in on_the_page("properties"):
        settings = read_rest_settings(block.text, "the page")
        assert settings.unused == ()
        assert settings.logins == {"basic"}
