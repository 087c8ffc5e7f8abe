"""The file of ``--command-config``: what is told of it beside what it says."""

from pathlib import Path

import pytest

from log_service.cli.command_config import read_file


def test_keys_that_no_client_has_are_told_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.trustore.location=/ca.pem\nlinger.ms=5\n")
    assert read_file(file) == {"security_protocol": "SSL"}
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"warning: {file}: these keys are not known and have no effect: ssl.trustore.location (did you mean ssl.truststore.location?)\n"
    )
