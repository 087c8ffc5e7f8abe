"""The file of ``--command-config``, and the one that the environment names: what is told of them beside what they say."""

from pathlib import Path

import pytest

from log_service.cli.command_config import read_file, told_settings


def test_keys_that_no_client_has_are_told_on_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.trustore.location=/ca.pem\nlinger.ms=5\n")
    assert read_file(file) == {"security_protocol": "SSL"}
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"warning: {file}: these keys are not known and have no effect: ssl.trustore.location (did you mean ssl.truststore.location?)\n"
    )


def test_a_file_that_the_environment_names_is_told_of_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mecanism=PLAIN\nsasl.username=ann\n")
    monkeypatch.setenv("TIDELOG_CLIENT_CONFIG", str(file))
    monkeypatch.setenv("TIDELOG_SASL_USERNAME", "bob")
    assert told_settings("localhost:9092") == {"security_protocol": "SASL_SSL", "sasl_username": "bob"}
    assert capsys.readouterr().err == (
        f"warning: {file}: these keys are not known and have no effect: sasl.mecanism (did you mean sasl.mechanism?)\n"
    )
