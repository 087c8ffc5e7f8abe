"""The login that a request carries, and the settings of a client with it."""

import base64

import pytest

from log_service.client import ConfigError
from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials, credentials_of
from log_service.http.server.values import HttpError, HttpRequest

SASL = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_jaas_config": SecretText("own"),
    "ssl_ca": "/ca.pem",
}
ANN = Credentials(user="ann", password=SecretText("a:b"))


def request(authorization: str | None) -> HttpRequest:
    """Return a request with a header."""
    headers = {} if authorization is None else {"authorization": authorization}
    return HttpRequest(method="GET", path="/", headers=headers)


def basic(text: str) -> str:
    """Return the header of a login by password."""
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_a_login_is_read_from_the_header() -> None:
    """A password may hold colons. No header is no login."""
    assert credentials_of(request(None)) is None
    assert credentials_of(request(basic("ann:a:b"))) == ANN
    token = Credentials(token=SecretText("a.b.c"))
    assert credentials_of(request("bearer a.b.c")) == token
    assert "a:b" not in repr(ANN)


@pytest.mark.parametrize(
    "text",
    ["", "Basic", "Basic !!!", basic("ann"), basic(":x"), basic("a:"), "Bearer a b", "Negotiate x"],
)
def test_a_header_without_a_login_is_refused(text: str) -> None:
    """It must not become the login of the service itself."""
    with pytest.raises(HttpError) as refused:
        credentials_of(request(text))
    assert refused.value.status == 401


def test_a_client_logs_in_as_the_user_alone() -> None:
    """The login of the service is left out, and the way to connect is kept."""
    assert ANN.settings(SASL) == {
        "security_protocol": "SASL_SSL",
        "ssl_ca": "/ca.pem",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "ann",
        "sasl_password": SecretText("a:b"),
    }
    token = Credentials(token=SecretText("t")).settings(SASL)
    assert token["sasl_mechanism"] == "OAUTHBEARER"
    assert token["sasl_oauthbearer_token"]() == "t"


def test_a_cluster_without_logins_takes_none() -> None:
    """The user would otherwise act as somebody else without knowing it."""
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        ANN.settings({"security_protocol": "SSL"})
