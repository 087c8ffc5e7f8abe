"""A command warns of problems in its settings file.

The file is that of ``--command-config``, or one that the environment names.
"""

import re
from pathlib import Path

import pytest

from log_service.cli.command_config import configured_settings, read_file, read_whole_file
from log_service.common.errors import ConfigError


def test_keys_that_no_client_has_are_told_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert configured_settings("localhost:9092") == {
        "security_protocol": "SASL_SSL",
        "sasl_username": "bob",
    }
    assert capsys.readouterr().err == (
        f"warning: {file}: these keys are not known and have no effect: sasl.mecanism (did you mean sasl.mechanism?)\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sasl.mechanism=SCRAM-SHA-512\n",
            "sasl.mechanism means nothing with security.protocol=PLAINTEXT: set security.protocol=SASL_SSL",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-5\n",
            "sasl.mechanism must be one of PLAIN",
        ),
        ("security.protocol=TLS\n", "security.protocol must be one of PLAINTEXT"),
    ],
)
def test_what_a_file_says_wrong_is_told_by_the_file_and_in_its_words(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(f"{file}: {said}")):
        read_whole_file(file)
