"""The table of the system says whose a listener is.

It counts for the addresses where a connection may end.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from log_service.common import listeners
from log_service.common.listeners import strangers_at

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LOOPBACK, NEXT_LOOPBACK, ANY = "0100007F", "0200007F", "00000000"
LOOPBACK_6, MAPPED, ANY_6 = f"{0:024X}01000000", "0000000000000000FFFF00000100007F", f"{0:032X}"
STRANGER = os.getuid() + 1
Write = Callable[[str], None]


def line(port: int, uid: int, address: str = LOOPBACK, state: str = "0A") -> str:
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:5d}        0 4711 1 0\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Have the system say so."""
    monkeypatch.setattr(listeners, "TABLES", (tmp_path / "none", tmp_path / "tcp"))

    def write(text: str) -> None:
        (tmp_path / "tcp").write_text(HEAD + text)

    return write


@pytest.mark.parametrize(
    ("host", "address", "is_stranger"),
    [
        ("127.0.0.1", LOOPBACK, True),
        ("127.0.0.1", MAPPED, True),
        ("127.0.0.1", ANY, True),
        ("127.0.0.1", ANY_6, True),
        ("127.0.0.1", LOOPBACK_6, False),
        ("127.0.0.1", NEXT_LOOPBACK, False),
        ("::1", LOOPBACK_6, True),
        ("::1", LOOPBACK, False),
    ],
)
def test_other_accounts_are_strangers_where_a_connection_may_end(
    write: Write, host: str, address: str, is_stranger: bool
) -> None:
    write(line(15002, os.getuid()) + line(15002, STRANGER, address))
    assert strangers_at(host, 15002) == ({STRANGER} if is_stranger else set())


def test_what_does_not_listen_there_is_no_stranger(write: Write) -> None:
    write(line(15002, STRANGER, state="01") + line(15003, STRANGER) + line(15002, 0))
    assert not strangers_at("127.0.0.1", 15002)


def test_a_listener_of_ones_own_is_no_stranger() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not strangers_at("localhost", server.getsockname()[1])
