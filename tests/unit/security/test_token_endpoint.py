"""A token of an endpoint is kept for a while, and its refusals have names.

The requests have the endpoint's form.
"""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from log_service.common.errors import ConfigError
from log_service.common.secrets import SecretText
from log_service.config.client_security import TokenEndpointConfig
from log_service.security.issuer_errors import IssuerError
from log_service.security.issuer_requests import IssuerTls, Response
from log_service.security.sasl.jaas import OAUTHBEARER_MODULE, JaasEntry, parse_jaas
from log_service.security.token_endpoint import TokenEndpoint
from tests.helpers.authority import Authority
from tests.helpers.issuer_server import server_context, serving
from tests.unit.security.sasl.issuer import token

URL = "https://issuer.example/token"
PLANTED = "planted secret"
NOTHING: dict[str, Any] = {}


class Endpoint:
    """The server behind the URL responds with ``status`` and ``document``.

    Its tokens are numbered.
    """

    def __init__(self, document: dict[str, Any] | None = None, status: int = 200) -> None:
        self.document = {"expires_in": 100} if document is None else document
        self.status = status
        self.asked: list[dict[str, Any]] = []
        self.tls: IssuerTls | None = None

    def ask(self, url: str, tls: IssuerTls, **request: Any) -> Response:
        assert url == URL
        self.asked.append(request)
        self.tls = tls
        content = (
            {"access_token": f"token-{len(self.asked)}", **self.document}
            if self.status == 200
            else self.document
        )
        return Response(status=self.status, body=json.dumps(content).encode())


async def at_once(work: Callable[[], Any]) -> Any:
    await trio.sleep(1)  # meanwhile others ask, too
    return work()


def made(endpoint: Endpoint, entry: JaasEntry | None = None, **config: Any) -> TokenEndpoint:
    given = {"client_id": "shop", "client_secret": SecretText(PLANTED), **config}
    return TokenEndpoint(TokenEndpointConfig(url=URL, **given), entry, at_once, endpoint.ask)


def play(story: Callable[[], Any]) -> None:
    trio.run(story, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize(
    ("url", "is_told"), [("http://issuer.example/token?key=planted", True), (URL, False)]
)
def test_secret_that_goes_out_in_the_clear_is_warned_of(
    caplog: pytest.LogCaptureFixture, url: str, *, is_told: bool
) -> None:
    TokenEndpoint(
        TokenEndpointConfig(url=url, client_id="shop", client_secret=SecretText(PLANTED)), None
    )
    told = [
        line
        for line in caplog.messages
        if "secret of this client goes to http://issuer.example/token in the clear" in line
    ]
    assert bool(told) is is_told
    assert "planted" not in caplog.text


def tokens_of(
    endpoint: Endpoint, count: int = 1, pause_s: float = 0, **config: Any
) -> list[tuple[str, bool]]:
    """Ask for tokens one after another, with pauses.

    Return them and whether each was fetched just then.
    """
    told: list[tuple[str, bool]] = []

    async def main() -> None:
        source = made(endpoint, **config)
        for _ in range(count):
            found, is_fresh = await source.token()
            told.append((found.reveal(), is_fresh))
            await trio.sleep(pause_s)

    play(main)
    return told


def authorization(endpoint: Endpoint) -> str:
    scheme, _, text = endpoint.asked[0]["headers"]["Authorization"].partition(" ")
    assert scheme == "Basic"
    return base64.b64decode(text).decode()


def test_endpoint_is_asked_for_a_token_of_the_client() -> None:
    endpoint = Endpoint()
    assert tokens_of(endpoint, scope="logs read") == [("token-1", True)]
    assert endpoint.asked[0]["body"] == b"grant_type=client_credentials&scope=logs+read"
    assert endpoint.asked[0]["headers"]["Content-Type"] == "application/x-www-form-urlencoded"
    assert authorization(endpoint) == f"shop:{PLANTED}"


def test_id_and_secret_are_encoded_where_that_is_asked_for() -> None:
    endpoint = Endpoint()
    tokens_of(endpoint, client_id="a:b", client_secret=SecretText("c d/ü"), is_header_encoded=True)
    assert authorization(endpoint) == "a%3Ab:c+d%2F%C3%BC"


def test_jaas_text_says_what_no_key_does() -> None:
    endpoint = Endpoint()
    entry = parse_jaas(
        f'{OAUTHBEARER_MODULE} required clientId="of text" clientSecret="s" scope="wide";'
    )
    tokens_of(endpoint, entry=entry, client_id=None, client_secret=None)
    assert authorization(endpoint) == "of text:s"
    assert endpoint.asked[0]["body"].endswith(b"scope=wide")
    other = Endpoint()
    tokens_of(other, entry=entry, scope="narrow")
    assert authorization(other) == f"shop:{PLANTED}"
    assert other.asked[0]["body"].endswith(b"scope=narrow")


@pytest.mark.parametrize(
    "document",
    [
        {"expires_in": 100},
        {"expires_in": "100"},
        {"access_token": token("rsa", iat=5, exp=105)},
        {"access_token": "", "id_token": "x", "expires_in": 100},
    ],
)
def test_token_is_kept_for_four_fifths_of_its_lifetime(document: dict[str, Any]) -> None:
    endpoint = Endpoint(document)
    assert [is_fresh for _, is_fresh in tokens_of(endpoint, 4, 39)] == [True, False, False, True]


@pytest.mark.parametrize(
    "document",
    [
        NOTHING,
        {"expires_in": -1},
        {"expires_in": "soon"},
        {"expires_in": True},
        {"access_token": "a.b.c"},
    ],
)
def test_token_of_unknown_lifetime_is_for_one_login(document: dict[str, Any]) -> None:
    assert [is_fresh for _, is_fresh in tokens_of(Endpoint(document), 3)] == [True, True, True]


def test_logins_at_once_wait_for_one_token() -> None:
    endpoint = Endpoint()
    told: list[str] = []

    async def main() -> None:
        source = made(endpoint)

        async def log_in() -> None:
            told.append((await source.token())[0].reveal())

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(log_in)

    play(main)
    assert told == ["token-1"] * 10
    assert len(endpoint.asked) == 1


def test_token_that_a_broker_refused_is_not_used_again() -> None:
    async def main() -> None:
        source = made(Endpoint())
        first, _ = await source.token()
        source.forget(first)
        second, is_fresh = await source.token()
        assert (second.reveal(), is_fresh) == ("token-2", True)
        source.forget(first)  # told late: the second one is good
        assert await source.token() == (second, False)

    play(main)


@pytest.mark.parametrize(
    ("status", "may_pass"),
    [(400, False), (401, False), (302, False), (429, True), (500, True), (503, True)],
)
def test_refusals_say_what_the_endpoint_says_and_no_secret(status: int, may_pass: bool) -> None:
    endpoint = Endpoint(
        {
            "error": "invalid_client",
            "error_description": f"not\n{PLANTED}",
            "access_token": "leaked",
        },
        status,
    )
    with pytest.raises(IssuerError) as caught:
        tokens_of(endpoint)
    assert str(caught.value) == f"{URL} responded with status {status} (invalid_client: not?***)"
    assert caught.value.may_pass is may_pass


@pytest.mark.parametrize(
    "document", [{"access_token": ""}, {"access_token": 7}, {"access_token": "x" * 70_000}]
)
def test_response_without_a_token(document: dict[str, Any]) -> None:
    with pytest.raises(IssuerError, match="responded with no access_token") as caught:
        tokens_of(Endpoint(document))
    assert not caught.value.may_pass


@pytest.mark.parametrize(
    ("missing", "option"), [("client_id", "clientId"), ("client_secret", "clientSecret")]
)
def test_id_and_secret_have_to_be_named(missing: str, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"{missing.replace('_', '.')} is missing.*{option}"):
        made(Endpoint(), parse_jaas(f"{OAUTHBEARER_MODULE} required;"), **{missing: None})


def test_nothing_shows_a_secret() -> None:
    source = made(Endpoint())
    assert PLANTED not in repr(source)
    assert PLANTED not in repr(source._config)


def test_endpoint_with_a_private_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    document = json.dumps({"access_token": "mine", "expires_in": 5}).encode()

    async def main() -> None:
        with serving(
            lambda _: (200, document), server_context(authority.issue("issuer"))
        ) as issuer:
            for ca in (str(authority.truststore), authority.truststore.read_text()):
                config = TokenEndpointConfig(
                    url=f"{issuer.base}/token",
                    client_id="shop",
                    client_secret=SecretText(PLANTED),
                    ca=ca,
                )
                found, _ = await TokenEndpoint(config, None).token()
                assert found.reveal() == "mine"
            config = TokenEndpointConfig(
                url=f"{issuer.base}/token", client_id="shop", client_secret=SecretText(PLANTED)
            )
            with pytest.raises(
                IssuerError,
                match=r"is not trusted.*sasl_oauthbearer_ca; the ssl\.truststore\.\* of the connections",
            ):
                await TokenEndpoint(config, None).token()
            assert (
                issuer.asked[0].headers["Authorization"]
                == f"Basic {base64.b64encode(f'shop:{PLANTED}'.encode()).decode()}"
            )

    trio.run(main)


def test_authority_that_cannot_be_read_is_told_before_anything_is_connected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.pem"):
        made(Endpoint(), ca=str(tmp_path / "none.pem"))


def test_authority_is_named_once(tmp_path: Path) -> None:
    entry = parse_jaas(
        f'{OAUTHBEARER_MODULE} required ssl.truststore.type=PEM ssl.truststore.location="{tmp_path}/a.pem";'
    )
    with pytest.raises(ConfigError, match="keep one of them"):
        made(Endpoint(), entry, ca=str(tmp_path / "b.pem"))
