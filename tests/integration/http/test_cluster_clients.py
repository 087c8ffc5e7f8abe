"""Clients that act as the user behind a request, at a secured node with ACLs."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio

from log_service.client import BlockingAdmin, ErrorCode, KafkaError, NewTopic, real_env
from log_service.common.secrets import SecretText
from log_service.http.cluster_clients.credentials import Credentials
from log_service.http.cluster_clients.pool import ClusterClients
from tests.integration.http.secured import ANN, BOB, Secured, secured
from tests.integration.secure_nodes import SCRAM, password_of

pytestmark = pytest.mark.timeout(120)

Story = Callable[[ClusterClients], Awaitable[None]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A secured node. Ann has the topic of orders, Bob that of salaries."""
    with secured(tmp_path_factory.mktemp("secured")) as running:
        with BlockingAdmin(running.plain) as admin:
            topics = [NewTopic(name=name, partition_count=1) for name in ("orders", "salaries")]
            admin.create_topics(topics)
        running.allow(ANN, "write orders", "describe orders")
        running.allow(BOB, "write salaries", "describe salaries")
        yield running


def tell(cluster: Secured, story: Story) -> None:
    """Run a story with clients that connect without a login of their own."""

    async def main() -> None:
        login: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": SCRAM,
            "ssl_ca": str(cluster.authority.truststore),
        }
        clients = ClusterClients(
            cluster.plain, {}, real_env(), login_servers=cluster.login, login_settings=login
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(clients.run)
            await story(clients)
            nursery.cancel_scope.cancel()

    trio.run(main)


def login(user: str, password: str | None = None) -> Credentials:
    """Return a login."""
    return Credentials(user=user, password=SecretText(password or password_of(user)))


def test_a_user_sees_and_writes_what_its_acls_allow(cluster: Secured) -> None:
    """One may not see the other's topic, and the service itself sees both."""

    async def story(clients: ClusterClients) -> None:
        async with (
            clients.lease(login(ANN)) as ann,
            clients.lease(login(BOB)) as bob,
            clients.lease(None) as own,
        ):
            assert [each.name for each in await (await ann.admin()).list_topics()] == ["orders"]
            assert [each.name for each in await (await bob.admin()).list_topics()] == ["salaries"]
            names = [each.name for each in await (await own.admin()).list_topics()]
            assert {"orders", "salaries"} <= set(names)
            producer = await ann.producer()
            written = await (await producer.send("orders", b"1")).wait()
            assert written.offset == 0
            with pytest.raises(KafkaError) as refused:
                await (await producer.send("salaries", b"1")).wait()
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    tell(cluster, story)


def test_a_wrong_password_gets_nowhere(cluster: Secured) -> None:
    """An open client of the right password is no help."""

    async def story(clients: ClusterClients) -> None:
        async with clients.lease(login(ANN)) as ann:
            await (await ann.admin()).describe_cluster()
        async with clients.lease(login(ANN, "wrong")) as stranger:
            with pytest.raises(KafkaError) as refused:
                await (await stranger.admin()).describe_cluster()
            assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED

    tell(cluster, story)
