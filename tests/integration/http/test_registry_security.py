"""A secured registry lets some users in, and each may do some things.

Passwords, certificates, tokens and ACLs are those of a real node.
"""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.helpers.authority import Authority
from tests.helpers.registry_process import RegistryProcess
from tests.integration.http.secured import ANN, BOB, OPERATOR, Secured, basic, secured, until
from tests.integration.secure_nodes import password_of

pytestmark = pytest.mark.timeout(240)

INT = {"schema": '"int"'}
FORBIDDEN = (403, 40301)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A secured node."""
    with secured(tmp_path_factory.mktemp("secured")) as running:
        running.allow(ANN, "write orders")
        running.allow(BOB, "describe orders")
        yield running


@pytest.fixture(scope="module")
def registry(cluster: Secured) -> Iterator[RegistryProcess]:
    """A secured registry, in which the operator has registered a schema for orders and one for
    salaries.
    """
    with cluster.registry() as running:
        with cluster.client(running, certificate=OPERATOR) as operator:
            for subject, text in (("orders-value", '"int"'), ("salaries-value", '"long"')):
                assert (
                    operator.post(
                        f"/subjects/{subject}/versions", json={"schema": text}
                    ).status_code
                    == 200
                )
        yield running


def refusal(response: httpx.Response) -> tuple[int, int]:
    """Return the status and the error code of a refusal."""
    return response.status_code, response.json()["error_code"]


# Logins


def test_a_user_of_the_cluster_logs_in_by_password(
    cluster: Secured, registry: RegistryProcess
) -> None:
    """A change of its password at the cluster counts, because there is no second store of
    passwords.
    """
    with cluster.client(registry, authorization=basic(ANN)) as ann:
        assert ann.get("/subjects/orders-value/versions").json() == [1]
        cluster.set_password("carl", "first")
        cluster.allow("carl", "describe orders")
        with cluster.client(registry, authorization=basic("carl", "first")) as carl:
            until(
                lambda: carl.get("/subjects/orders-value/versions").status_code == 200,
                "the right of carl",
            )
        cluster.set_password("carl", "second")
        with cluster.client(registry, authorization=basic("carl", "second")) as carl:
            assert carl.get("/subjects/orders-value/versions").status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        basic(ANN, "wrong"),
        basic("unknown"),
        basic(ANN, password_of(BOB)),
        "Basic",
        "Basic !!!",
        "Negotiate abc",
        "Bearer abc",
        "Bearer a.b.c",
    ],
)
def test_who_cannot_log_in_is_told_how_and_nothing_else(
    cluster: Secured, registry: RegistryProcess, authorization: str | None
) -> None:
    """An unknown user gets the same refusal as one with a wrong password."""
    headers = {} if authorization is None else {"authorization": authorization}
    with cluster.client(registry, **headers) as stranger:
        for method, target in (
            ("GET", "/subjects"),
            ("GET", "/"),
            ("GET", "/metrics"),
            ("POST", "/subjects/a/versions"),
            ("HEAD", "/subjects"),
        ):
            response = stranger.request(method, target, json=INT if method == "POST" else None)
            assert response.status_code == 401
            challenges = response.headers.get_list("www-authenticate")
            assert challenges == [
                'Basic realm="schema registry", charset="UTF-8"',
                'Bearer realm="schema registry"',
            ]
        assert stranger.get("/healthz").status_code == 200
        assert stranger.get("/readyz").text == "ok\n"


def test_guesses_of_a_password_are_slowed_down_for_their_address_alone(
    cluster: Secured, registry: RegistryProcess
) -> None:
    """Attempts at the same time guess no faster. The user logs in from another address meanwhile."""

    def guess(number: int) -> int:
        with cluster.client(
            registry, address="127.0.0.2", authorization=basic(BOB, f"guess {number}")
        ) as client:
            return client.get("/subjects").status_code

    with ThreadPoolExecutor(24) as pool:
        guesses = [pool.submit(guess, number) for number in range(24)]
        with cluster.client(registry, authorization=basic(BOB)) as bob:
            assert bob.get("/subjects").status_code == 200
        statuses = [each.result() for each in guesses]
    assert set(statuses) == {401, 429}
    assert statuses.count(429) >= 5


def test_a_certificate_of_the_authority_is_a_login(
    cluster: Secured, registry: RegistryProcess
) -> None:
    """A rule maps its name to a user. A password wins over it."""
    cluster.allow("dora", "describe orders")
    with cluster.client(registry, certificate="Dora") as dora:
        until(lambda: dora.get("/subjects").json() == ["orders-value"], "the right of dora")
        refused = dora.post("/subjects/orders-value/versions", json=INT)
        assert refusal(refused) == FORBIDDEN
        assert refused.json()["message"].startswith(
            "User:dora may not register schemas of subject 'orders-value'"
        )
        as_ann = dora.post(
            "/subjects/orders-value/versions", json=INT, headers={"authorization": basic(ANN)}
        )
        assert as_ann.status_code == 200
        assert (
            dora.get("/subjects", headers={"authorization": basic(ANN, "wrong")}).status_code == 401
        )


def test_a_certificate_of_another_authority_is_none(
    cluster: Secured, registry: RegistryProcess
) -> None:
    """The connection ends, and no request is heard."""
    context = cluster.context(OPERATOR, Authority(cluster.directory / "stranger"))
    with (
        httpx.Client(base_url=registry.url, verify=context) as stranger,
        pytest.raises(httpx.TransportError),
    ):
        stranger.get("/healthz")


def test_a_token_of_the_issuer_is_a_login(cluster: Secured, registry: RegistryProcess) -> None:
    """Its subject is the user."""
    cluster.allow("tess", "describe orders")
    with cluster.client(registry, authorization=f"Bearer {cluster.issuer.token()}") as tess:
        until(lambda: tess.get("/subjects").json() == ["orders-value"], "the right of tess")
        refused = tess.delete("/subjects/orders-value")
        assert refused.json()["message"].startswith(
            "User:tess may not delete versions of subject 'orders-value'"
        )


@pytest.mark.parametrize(
    "wrong",
    ["expired", "other audience", "other issuer", "no subject", "unsigned", "damaged", "other key"],
)
def test_a_token_that_is_not_to_be_trusted_is_refused(
    cluster: Secured, registry: RegistryProcess, wrong: str
) -> None:
    """For each request anew, because no session remembers it."""
    issuer = cluster.issuer
    right = issuer.token()
    head, _, rest = right.partition(".")
    tokens = {
        "expired": issuer.token(exp=int(time.time()) - 600),
        "other audience": issuer.token(aud="logs"),
        "other issuer": issuer.token(iss="https://evil"),
        "no subject": issuer.token(sub=None),
        "unsigned": f"eyJhbGciOiJub25lIn0.{rest.partition('.')[0]}.",
        "damaged": f"{head}.{rest[:-8]}AAAAAAAA",
        "other key": issuer.token("other rsa"),
    }
    with cluster.client(registry) as client:
        assert client.get("/", headers={"authorization": f"Bearer {right}"}).status_code == 200
        assert (
            client.get("/", headers={"authorization": f"Bearer {tokens[wrong]}"}).status_code == 401
        )


def test_new_keys_of_the_issuer_are_fetched(cluster: Secured, registry: RegistryProcess) -> None:
    """An issuer changes its keys now and then. The former ones end with it."""
    first, second = cluster.issuer.token(), cluster.issuer.token("ec")

    def is_taken(token: str) -> bool:
        with cluster.client(registry, authorization=f"Bearer {token}") as client:
            return client.get("/").status_code == 200

    cluster.issuer.kinds[:] = ["ec"]
    until(lambda: is_taken(second), "the new key")
    # The refusal below asks for the keys again, and a key id is asked for once a minute.
    cluster.issuer.kinds[:] = ["rsa"]
    assert not is_taken(first)
    until(lambda: is_taken(first), "the former key again")


def test_only_tls_is_spoken(cluster: Secured, registry: RegistryProcess) -> None:
    """A request without it gets no response."""
    host, port = registry.url.removeprefix("https://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = plain.recv(1_000)
        assert b"HTTP/1.1" not in received


# Rights


def test_rights_decide_what_each_may_do(cluster: Secured, registry: RegistryProcess) -> None:
    """ann writes orders, and bob looks at them. Nobody but the super user sees salaries."""
    ann, bob = (cluster.client(registry, authorization=basic(user)) for user in (ANN, BOB))
    with ann, bob, cluster.client(registry, certificate=OPERATOR) as operator:
        for each in (ann, bob):
            until(lambda each=each: each.get("/subjects").json() == ["orders-value"], "the list")  # type: ignore[misc]
            assert refusal(each.get("/subjects/salaries-value/versions/1")) == FORBIDDEN
            secret_id = operator.get("/subjects/salaries-value/versions/1").json()["id"]
            assert "salaries" not in each.get(f"/schemas/ids/{secret_id}").text
            assert refusal(each.get(f"/schemas/ids/{secret_id}")) == FORBIDDEN
            assert "salaries" not in each.get("/schemas").text
            assert refusal(each.delete("/subjects/orders-value")) == FORBIDDEN
            assert refusal(each.put("/config", json={"compatibility": "NONE"})) == FORBIDDEN
            assert (
                refusal(each.put("/config/orders-value", json={"compatibility": "NONE"}))
                == FORBIDDEN
            )
        made = ann.post("/subjects/orders-value/versions", json={"schema": '["int","null"]'})
        assert made.status_code == 200, made.text
        refused = bob.post("/subjects/orders-value/versions", json={"schema": '["int","null"]'})
        assert refused.json()["message"] == (
            "User:bob may not register schemas of subject 'orders-value': that takes WRITE on topic orders"
        )
        assert operator.get("/subjects").json() == ["orders-value", "salaries-value"]
        assert (
            operator.put("/config/salaries-value", json={"compatibility": "NONE"}).status_code
            == 200
        )


def test_a_change_of_acls_counts_within_seconds(
    cluster: Secured, registry: RegistryProcess
) -> None:
    """A new right, a DENY beside it, and its end."""
    cluster.set_password("eve", "eve-secret")
    with cluster.client(registry, authorization=basic("eve", "eve-secret")) as eve:
        assert refusal(eve.get("/subjects/orders-value/versions")) == FORBIDDEN
        cluster.allow("eve", "describe ord*")
        until(
            lambda: eve.get("/subjects/orders-value/versions").status_code == 200, "the new right"
        )
        cluster.allow("eve", "describe orders", permission="deny")
        until(lambda: eve.get("/subjects/orders-value/versions").status_code == 403, "the denial")
        cluster.forbid("eve")
        cluster.allow("eve", "describe orders", host="127.0.0.3")
        with cluster.client(
            registry, address="127.0.0.3", authorization=basic("eve", "eve-secret")
        ) as elsewhere:
            until(
                lambda: elsewhere.get("/subjects/orders-value/versions").status_code == 200,
                "the right of an address",
            )
        assert refusal(eve.get("/subjects/orders-value/versions")) == FORBIDDEN


# Several instances


@pytest.fixture(scope="module")
def follower(cluster: Secured, registry: RegistryProcess) -> Iterator[RegistryProcess]:
    """A second instance, which forwards changes to the first one."""
    with cluster.registry() as running:
        yield running


def test_a_follower_passes_the_login_of_its_client_on(
    cluster: Secured, follower: RegistryProcess
) -> None:
    """The rights of the client count, and not those of the instance."""
    ann, bob = (cluster.client(follower, authorization=basic(user)) for user in (ANN, BOB))
    with ann, bob:
        until(lambda: ann.get("/subjects").json() == ["orders-value"], "the list")
        made = ann.post(
            "/subjects/orders-value/versions", json={"schema": '["int","null","string"]'}
        )
        assert made.status_code == 200, made.text
        assert (
            refusal(bob.post("/subjects/orders-value/versions", json={"schema": '["int","null"]'}))
            == FORBIDDEN
        )
        assert (
            bob.post(
                "/subjects/orders-value/versions",
                json=INT,
                headers={"authorization": basic(ANN, "x")},
            ).status_code
            == 401
        )
        token = {"authorization": f"Bearer {cluster.issuer.token(sub=ANN)}"}
        made = bob.post(
            "/subjects/orders-value/versions",
            json={"schema": '["int","null","bytes"]'},
            headers=token,
        )
        assert made.status_code == 200, made.text


def test_a_follower_names_a_client_that_has_a_certificate_alone(
    cluster: Secured, registry: RegistryProcess, follower: RegistryProcess
) -> None:
    """The leader believes it once its own certificate has CLUSTER_ACTION.

    It decides by the rights of the client.
    """
    cluster.allow("fred", "write fred", host="127.0.0.4")
    with cluster.client(follower, certificate="Fred", address="127.0.0.4") as fred:
        path = "/subjects/fred-value/versions"

        def register(text: str) -> httpx.Response:
            return fred.post(path, json={"schema": text})

        until(lambda: "may not forward" in register('"int"').text, "the refusal of the leader")
        cluster.allow("registry", "cluster_action *cluster")
        until(lambda: register('"int"').status_code == 200, "the right of the follower")
        assert refusal(fred.delete("/subjects/fred-value")) == FORBIDDEN
        assert refusal(fred.put("/config", json={"compatibility": "NONE"})) == FORBIDDEN
    stranger = {"x-forward": "true", "x-forward-principal": f"User:{OPERATOR}"}
    for headers in (stranger, {"x-forward-principal": f"User:{OPERATOR}"}):
        with cluster.client(registry, authorization=basic(ANN), **headers) as ann:
            refused = ann.delete("/subjects/salaries-value")
            assert refusal(refused) == FORBIDDEN
            assert refused.json()["message"].startswith(
                "User:ann may not forward requests of others"
            )


def test_no_secret_is_in_the_log(
    cluster: Secured, registry: RegistryProcess, follower: RegistryProcess
) -> None:
    """Refused logins are told with their user and address, and without what was shown."""
    told = registry.log.read_text() + follower.log.read_text()
    assert f"The login of {ANN} from 127.0.0.1 is refused" in told
    secrets = [password_of(user) for user in (ANN, BOB, "registry")]
    assert not [
        secret
        for secret in [*secrets, "guess 1", "eve-secret", cluster.issuer.token()[:40]]
        if secret in told
    ]
