"""``tidelog configs set`` takes secrets from files and standard input.

It warns of a secret in an argument.
"""

from pathlib import Path

import pytest

from log_service.cli.secret_values import with_secrets_read
from log_service.common.errors import ConfigError

JAAS = "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"
PEM = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----"


def test_a_secret_is_what_its_file_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "secret.txt"
    file.write_text(f"{PEM}\n")
    asked = {
        "ssl.keystore.key": f"@{file}",
        JAAS: f"@{file}",
        "listener.name.a.ssl.key.password": f"@{file}",
    }
    assert with_secrets_read(asked) == dict.fromkeys(asked, PEM)
    assert capsys.readouterr().err == ""


def test_other_keys_take_what_begins_with_an_at_sign(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {
        "retention.ms": "@1",
        "match": "@/etc/hostname",
        "ssl.keystore.location": "@store.pem",
        "nobody.knows.this": "@x",
    }
    assert with_secrets_read(asked) == asked
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("key", ["ssl.key.password", JAAS])
def test_a_secret_in_an_argument_is_warned_about_and_not_shown(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_secrets_read({key: "planted", "retention.ms": "1"}) == {
        key: "planted",
        "retention.ms": "1",
    }
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert f"the value of {key} stands in the list of processes" in told
    assert f"give {key}=@FILE" in told
    assert "planted" not in told


def test_a_file_that_holds_no_secret_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, told in (("nowhere", "cannot be read"), ("empty", "is empty")):
        with pytest.raises(ConfigError, match=told):
            with_secrets_read({"ssl.key.password": f"@{tmp_path / name}"})
