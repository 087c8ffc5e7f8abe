"""What docs/security.md shows of TLS is what a node takes. ``tests.integration.test_securing_a_cluster`` takes the steps from plaintext,
and ``test_users_and_rights`` what stands between."""

from pathlib import Path

import pytest

from log_service.config.dynamic_keys import STORES, base_name
from log_service.config.properties import parse_properties
from log_service.config.server import parse_server_properties
from log_service.security.tls import connection, listener
from tests.helpers.authority import Authority
from tests.helpers.documents import ROOT, blocks

PAGE = ROOT / "docs" / "security.md"
USERS_BEGIN = PAGE.read_text().partition("## Users with passwords")[0].count("\n") + 1
SHOWN = [block for block in blocks("properties") if block.document == PAGE and block.line < USERS_BEGIN]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_the_keys_that_are_shown_are_keys(block: object, tmp_path: Path) -> None:
    text = getattr(block, "text", "")
    texts = parse_properties(text)
    if "listeners" not in texts:
        assert all(base_name(name) in STORES for name in texts)
        return
    issued = Authority(tmp_path).issue("node")
    config, settings = parse_server_properties({"node.id": "1", "controller.quorum.voters": "1@h:9094", **texts, **issued.properties()})
    assert settings.warning is None
    assert settings.idle_warning is None
    assert [each.security.protocol for each in (*config.listeners, *config.controller_listeners)] == ["SSL", "SSL"]


def test_the_bounds_that_are_told_are_those() -> None:
    told = PAGE.read_text()
    assert f"{listener.HANDSHAKE_DEADLINE_MS // 1_000} seconds each, {listener.MAX_HALF_OPEN_COUNT} at once" in told
    assert f"{listener.MAX_HALF_OPEN_COUNT_PER_HOST} from one address" in told
    assert f"encrypts {connection.CHUNK_BYTES >> 10} KiB at a time" in told
