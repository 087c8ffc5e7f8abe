"""Spark runs code only for those who hold its token.

Its driver listens to no stranger, also on the loopback address.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.platform.driver_ports import RPC_FAILURE, STREAM_FAILURE, call, file_at, listening_ports
from tests.platform.spark_server import warm_server

OTHERS_FILE = "/artifacts/../../../../../../../../../../../../etc/hostname"
"""A way out of the directory from which a driver gives out the files of sessions; it has one once
there was a session.
"""
PROGRAM = """
import sys
from orchestration.settings import load_settings
from orchestration.spark.session import open_session
session = open_session(load_settings())
print(session.range(3).count())
"""


def count_rows(data: Path, remote: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "SPARK_CONNECT_AUTHENTICATE_TOKEN"
    }
    environment |= {"TIDELOG_DATA": str(data), "TIDELOG_SPARK_REMOTE": remote, **more}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_only_those_who_hold_the_token_run_code(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "stranger").mkdir()
    with warm_server(tmp_path / "server", master="local[1]") as (url, child):
        remote = url.partition("/;token=")[0].replace("localhost", "127.0.0.1")
        token = url.partition("token=")[2]
        stranger = count_rows(tmp_path / "stranger", remote)
        wrong = count_rows(
            tmp_path / "stranger", remote, SPARK_CONNECT_AUTHENTICATE_TOKEN="guessed"
        )
        owner = count_rows(tmp_path / "server", remote)
        arguments = Path(f"/proc/{child.pid}/cmdline").read_text()
        inner = [port for port in listening_ports(child.pid) if f":{port}" not in remote]
        refusals = [call(port, bytes(16)) for port in inner]
        no_files = [file_at(port, OTHERS_FILE) for port in inner]
    assert stranger.returncode != 0
    assert "UNAUTHENTICATED" in stranger.stderr
    assert wrong.returncode != 0
    assert "UNAUTHENTICATED" in wrong.stderr
    assert (owner.returncode, owner.stdout.strip()) == (0, "3"), owner.stderr[-2000:]
    assert token not in arguments
    assert token not in (tmp_path / "server" / "server.log").read_text()
    assert len(refusals) == 2, f"the driver and its block manager listen: {inner}"
    for (
        refusal
    ) in refusals:  # without a secret the driver reads what it is sent as an object of Java's
        assert (refusal[0], b"Expected SaslMessage" in refusal) == (RPC_FAILURE, True), refusal[
            :200
        ]
    for nothing in no_files:
        assert (nothing[0], b"Unauthenticated" in nothing) == (STREAM_FAILURE, True), nothing[:200]
