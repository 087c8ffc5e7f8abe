"""An operator is warned of a new cluster that no client can ever use."""

import logging
from collections.abc import Collection
from pathlib import Path

import pytest
from click.testing import CliRunner

from log_service.broker.logins.first_users import lockout_warning
from log_service.cli.main import tidelog
from log_service.config.authorizer_keys import STANDARD_AUTHORIZER
from log_service.config.server import parse_server_properties
from tests.unit.broker.context import HOST, PORT, Story, tell
from tests.unit.broker.logins.login_story import LISTENER, PACKAGE

SCRAM = {
    "node.id": "1",
    "listeners": f"GUARDED://{HOST}:{PORT}",
    "listener.security.protocol.map": "GUARDED:SASL_PLAINTEXT",
    "inter.broker.listener.name": "GUARDED",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    f"{LISTENER}.scram-sha-512.sasl.jaas.config": f'{PACKAGE}.scram.ScramLoginModule required username="node" password="p";',
}
PLAIN = SCRAM | {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    f"{LISTENER}.plain.sasl.jaas.config": f'{PACKAGE}.plain.PlainLoginModule required user_alice="p" user_admin="p";',
}
CLEAR = {"node.id": "1", "listeners": f"PLAINTEXT://{HOST}:{PORT}"}
AUTHORIZER = {"authorizer.class.name": STANDARD_AUTHORIZER}


@pytest.mark.parametrize(
    ("texts", "scram_users", "told"),
    [
        (SCRAM, (), "no user can ever log in to this new cluster"),
        (
            SCRAM | AUTHORIZER | {"super.users": "User:admin"},
            (),
            "no user can ever log in to this new cluster",
        ),
        (SCRAM, ("alice",), None),
        (SCRAM | AUTHORIZER | {"super.users": "User:admin"}, ("admin",), None),
        (
            SCRAM | AUTHORIZER | {"super.users": "User:admin"},
            ("alice",),
            "of super.users (User:admin)",
        ),
        (PLAIN, (), None),
        (PLAIN | AUTHORIZER, (), "super.users, which may make the first one, names no principal"),
        (PLAIN | AUTHORIZER | {"allow.everyone.if.no.acl.found": "true"}, (), None),
        (PLAIN | AUTHORIZER | {"super.users": "User:admin"}, (), None),
        (PLAIN | AUTHORIZER | {"super.users": "User:root"}, (), "of super.users (User:root)"),
        (CLEAR, (), None),
        (CLEAR | AUTHORIZER | {"super.users": "User:ANONYMOUS"}, (), None),
        (CLEAR | AUTHORIZER | {"super.users": "User:admin"}, (), "of super.users (User:admin)"),
    ],
)
def test_who_is_locked_out_of_a_new_cluster(
    texts: dict[str, str], scram_users: Collection[str], told: str | None
) -> None:
    warning = lockout_warning(parse_server_properties(texts)[0], scram_users)
    assert (warning is None) == (told is None), warning
    assert told is None or told in (warning or "")


def test_names_in_certificates_and_tokens_may_be_any() -> None:
    texts = {
        "node.id": "1",
        "listeners": "SSL://127.0.0.1:9092",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.truststore.location": "authority.pem",
        "ssl.truststore.type": "PEM",
        **AUTHORIZER,
    }
    assert (
        lockout_warning(parse_server_properties(texts | {"super.users": "User:CN=admin"})[0])
        is None
    )
    assert lockout_warning(parse_server_properties(texts)[0]) is not None


def test_a_node_that_begins_such_a_cluster_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Story) -> None:
        """It starts, as Apache Kafka does."""

    tell(story, authorizer_class_name=STANDARD_AUTHORIZER)
    (told,) = [record for record in caplog.records if "new cluster" in record.getMessage()]
    assert told.levelno == logging.WARNING


def test_the_command_that_formats_says_so_too(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    texts = SCRAM | {
        "log.dirs": str(tmp_path / "data"),
        "listeners": f"GUARDED://{HOST}:{PORT},CONTROLLER://{HOST}:1",
        "listener.security.protocol.map": "GUARDED:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "process.roles": "broker,controller",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "listener.name.controller.scram-sha-512.sasl.jaas.config": SCRAM[
            f"{LISTENER}.scram-sha-512.sasl.jaas.config"
        ],
    }
    file.write_text("".join(f"{key}={text}\n" for key, text in texts.items()))
    command = ["storage", "format", "-t", "c1", "--standalone", "-c", str(file)]
    result = CliRunner().invoke(tidelog, command)
    assert result.exit_code == 0, result.output
    assert "warning: no user can ever log in to this new cluster" in result.stderr
    again = CliRunner().invoke(tidelog, [*command, "--ignore-formatted"])
    assert "warning" not in again.stderr, "it began before"
