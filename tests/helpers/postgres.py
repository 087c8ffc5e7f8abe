"""Runs a PostgreSQL server for a test: Debian's package, in a temporary directory.

Tests reach it over a Unix socket. PostgreSQL refuses to run as root, so root's tests run it as the
package's user, ``postgres``, or as ``nobody``.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

START_TIMEOUT_S = 60
USERS = ("postgres", "nobody")


def binaries() -> Path | None:
    """Return the folder of the server's programs, or None where it is not installed."""
    found = [
        folder
        for folder in Path("/usr/lib/postgresql").glob("*/bin")
        if (folder / "initdb").is_file()
    ]
    on_path = shutil.which("initdb")
    return max(found, default=Path(on_path).parent if on_path else None)


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the URL of a server that is ready.

    The server and its files are gone afterwards. Skips the test where there is no PostgreSQL.
    """
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    user = next((name for name in USERS if _exists(name)), None) if os.geteuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="tidelog-postgres-"))
    try:
        if user is not None:
            os.chown(directory, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        tables, log = directory / "tables", directory / "log"
        made = subprocess.run(
            [
                programs / "initdb",
                "-D",
                tables,
                "-A",
                "trust",
                "-U",
                "tests",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ],
            user=user,
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        settings = [
            f"-cunix_socket_directories={directory}",
            "-clisten_addresses=",
            "-cfsync=off",
            "-cshared_buffers=16MB",
        ]
        with log.open("wb") as output:
            server = subprocess.Popen(
                [programs / "postgres", "-D", tables, *settings],
                user=user,
                cwd=directory,
                stdout=output,
                stderr=output,
            )
        try:
            _wait_until_ready(server, programs, directory, log)
            yield f"postgresql+psycopg://tests@/postgres?host={directory}"
        finally:
            server.terminate()
            with suppress(subprocess.TimeoutExpired):
                server.wait(30)
            server.kill()
            server.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_ready(
    server: "subprocess.Popen[bytes]", programs: Path, directory: Path, log: Path
) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while (
        subprocess.run([programs / "pg_isready", "-q", "-h", directory], check=False).returncode
        != 0
    ):
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
