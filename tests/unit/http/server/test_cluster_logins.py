"""Passwords of the cluster's users, checked at a broker in virtual time."""

from collections.abc import Callable

import pytest

from log_service.client import ConfigError
from log_service.common.secrets import SecretText
from log_service.http.server.cluster_logins import ClusterLogins
from log_service.http.server.values import HttpError
from log_service.security.sasl.credentials import ScramMechanism
from tests.unit.broker.context import HOST, PORT, Story
from tests.unit.broker.logins.login_story import CLEAR_PORT, guest, scram_user, tell_of_logins

SETTINGS = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"}
WRONG_LOGINS = [
    ("ann", "wrong"),
    ("bob", "secret"),
    ("ann,n=bob", "secret"),
    ("a=b", "s"),
    ("\u0627a", "s"),
    ("ﬁ", "s"),
]


async def at_once(work: Callable[[], object]) -> object:
    """Work without a thread, because virtual time does not wait for one."""
    return work()


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys in the test's own thread."""
    monkeypatch.setattr("trio.to_thread.run_sync", at_once)


def test_a_login_at_the_cluster_decides() -> None:
    """The right password names its user. A wrong one, or another user, is refused."""

    async def story(node: Story) -> None:
        clear = await guest(node, CLEAR_PORT)
        await clear.ask(scram_user("ann", "secret", ScramMechanism.SHA_512), 0)
        logins = ClusterLogins(f"{HOST}:{PORT}", SETTINGS, node.world.client_env())
        assert await logins.check("ann", SecretText("secret")) == "User:ann"
        for user, password in WRONG_LOGINS:
            assert await logins.check(user, SecretText(password)) is None, user
        assert await logins.check("ann", SecretText("secret")) == "User:ann"

    tell_of_logins(story)


def test_another_server_is_asked_where_one_is_gone() -> None:
    """The one that responded is asked first from then on."""

    async def story(node: Story) -> None:
        servers = f"{HOST}:1, {HOST}:{PORT}"
        settings = SETTINGS | {"sasl_mechanism": "PLAIN"}
        logins = ClusterLogins(servers, settings, node.world.client_env())
        assert await logins.check("alice", SecretText("alice-secret")) == "User:alice"
        assert repr(logins) == f"<ClusterLogins at {HOST}:{PORT},{HOST}:1>"

    tell_of_logins(story)


def test_a_cluster_that_is_gone_says_nothing_of_passwords() -> None:
    """The client may come again."""

    async def story(node: Story) -> None:
        logins = ClusterLogins(f"{HOST}:1,{HOST}:2", SETTINGS, node.world.client_env())
        with pytest.raises(HttpError) as refused:
            await logins.check("ann", SecretText("secret"))
        assert refused.value.status == 503

    tell_of_logins(story)


def test_settings_have_a_mechanism_with_passwords() -> None:
    """The text says which key to set."""
    with pytest.raises(ConfigError, match="SCRAM-SHA-512"):
        ClusterLogins("a:1", {"security_protocol": "SSL"})
