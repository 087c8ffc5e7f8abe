"""A node tells at its start of the doors that its configuration leaves open, and of no closed ones."""

import pytest

from log_service.config.open_doors import open_doors
from log_service.config.server import parse_server_properties

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
STORES = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/k.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/t.pem",
}
GUARDED = {
    "listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:2,SASL_SSL://127.0.0.1:3",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": SCRAM,
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:node",
    **STORES,
}


def told(**named: str | None) -> list[str]:
    """Return the warnings about the guarded node with some keys changed.

    They are named with underscores, and None takes one away.
    """
    changed = {
        name.replace("__", "~").replace("_", ".").replace("~", "_"): text
        for name, text in named.items()
    }
    texts = {
        name: text
        for name, text in {"node.id": "1", **GUARDED, **changed}.items()
        if text is not None
    }
    return list(open_doors(parse_server_properties(texts)[0], texts))


@pytest.mark.parametrize(
    ("client_auth", "listeners"),
    [
        ("none", "listeners PLAINTEXT, SSL may"),
        ("requested", "listeners PLAINTEXT, SSL may"),
        ("required", "listener PLAINTEXT may"),
    ],
)
def test_super_users_without_a_name_are_told_with_the_listeners_that_let_them_in(
    client_auth: str, listeners: str
) -> None:
    (text,) = told(
        super_users="User:node; User:ANONYMOUS", listener_name_ssl_ssl_client_auth=client_auth
    )
    assert text.startswith("super.users has User:ANONYMOUS: each client that reaches ")
    assert listeners in text


def test_nothing_is_told_where_those_without_a_name_may_do_nothing_or_are_not_let_in() -> None:
    assert told() == []
    assert told(super_users="User:node;User:anonymous") == []
    everyone = "User:node;User:ANONYMOUS"
    assert told(super_users=everyone, authorizer_class_name=None) == [], (
        "all clients may do everything: that is not news"
    )
    closed = {
        "listeners": "SSL://127.0.0.1:2,SASL_SSL://127.0.0.1:3",
        "inter_broker_listener_name": "SSL",
    }
    assert told(**closed, super_users=everyone, ssl_client_auth="required") == []


def test_certificates_that_no_listener_asks_for_are_told() -> None:
    only_logins = {"listeners": "SASL_SSL://127.0.0.1:3", "inter_broker_listener_name": "SASL_SSL"}
    between = {"sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512"}
    (text,) = told(**only_logins, **between, ssl_client_auth="required")
    assert text.startswith("ssl.client.auth=required has no effect")
    assert text.endswith("set listener.name.sasl_ssl.ssl.client.auth")
    assert told(**only_logins, **between, ssl_client_auth="none") == []
    assert (
        told(
            **only_logins,
            **between,
            ssl_client_auth="required",
            listener_name_sasl__ssl_ssl_client_auth="required",
        )
        == []
    )
    assert told(ssl_client_auth="required") == [], "listener SSL heeds it"
    (text,) = told(ssl_client_auth="required", listener_name_ssl_ssl_client_auth="none")
    assert "as SASL_SSL," in text
