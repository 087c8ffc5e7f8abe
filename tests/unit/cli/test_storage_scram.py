"""``tidelog storage format --add-scram`` reads passwords from several places.

It prints neither a password nor a key.
"""

import base64
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from log_service.broker.env import real_env
from log_service.cli.main import tidelog
from log_service.config.server import parse_server_properties
from log_service.protocol.stored.metadata_records import UserScramCredentialRecord
from log_service.raft.format import read_bootstrap_records


class Directory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = f"node.id=1\nlog.dirs={path / 'data'}\nlisteners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        (path / "node.properties").write_text(self.text)

    def format(self, user: str, given: str = "") -> Result:
        arguments = [
            "storage",
            "format",
            "-t",
            "c1",
            "--standalone",
            "-c",
            str(self.path / "node.properties"),
            "--add-scram",
            user,
        ]
        return CliRunner().invoke(tidelog, arguments, input=given)

    def users(self) -> list[UserScramCredentialRecord]:
        config, _ = parse_server_properties(self.text)
        records = read_bootstrap_records(real_env(config).files, self.path / "data")
        return [record for record in records if isinstance(record, UserScramCredentialRecord)]


@pytest.mark.parametrize("source", ["password=planted", "passwordfile={}", "passwordfile=-"])
def test_password_from_anywhere(tmp_path: Path, source: str) -> None:
    directory, file = Directory(tmp_path), tmp_path / "alice.txt"
    file.write_text("planted\n")
    result = directory.format(
        f"SCRAM-SHA-256=[name=alice,{source.format(file)}]", given="planted\nrest\n"
    )
    assert result.exit_code == 0, result.output
    (user,) = directory.users()
    assert user.name == "alice"
    assert ("stands in the list of processes" in result.stderr) == (source == "password=planted")
    for hidden in (b"planted", user.salt, user.stored_key, user.server_key):
        shown = (hidden.decode(errors="replace"), hidden.hex(), base64.b64encode(hidden).decode())
        assert not [text for text in shown if text in result.output]


def test_file_that_cannot_be_read_is_told_and_nothing_is_formatted(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    for source in ("passwordfile=/nowhere", "passwordfile=-"):
        result = directory.format(f"SCRAM-SHA-256=[name=alice,{source}]")
        assert result.exit_code == 1
        assert "the password" in str(result.exception)
    assert not (tmp_path / "data").exists()
