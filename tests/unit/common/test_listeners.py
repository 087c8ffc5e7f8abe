"""Whose a listener is: the table of the system says it, whatever the address."""

import os
import socket
from pathlib import Path

import pytest

from log_service.common import listeners
from log_service.common.listeners import strangers_at

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(port: int, state: str, uid: int, address: str = "0100007F") -> str:
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:5d}        0 4711 1 0\n"


def test_other_accounts_that_listen_on_the_port_are_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, stranger, another = os.getuid(), os.getuid() + 1, os.getuid() + 2
    narrow, wide = tmp_path / "tcp", tmp_path / "tcp6"
    narrow.write_text(HEAD + line(15002, "0A", mine) + line(15002, "01", another) + line(15003, "0A", another))
    wide.write_text(HEAD + line(15002, "0A", stranger, f"{0:024X}01000000"))
    monkeypatch.setattr(listeners, "TABLES", (narrow, wide))
    assert strangers_at(15002) == {stranger}
    wide.write_text(HEAD + line(15002, "0A", 0))
    assert not strangers_at(15002), "root can read every secret without a listener"
    monkeypatch.setattr(listeners, "TABLES", (tmp_path / "none",))
    assert not strangers_at(15002)


def test_a_listener_of_ones_own_is_no_stranger() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not strangers_at(server.getsockname()[1])
