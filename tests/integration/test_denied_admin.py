"""An admin without the right to administer gets a clear refusal.

It names each thing once, and the operation that is missing.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from log_service.client import AclBinding, AclFilter, BlockingAdmin, KafkaError, ScramUser
from tests.helpers.broker_process import BrokerProcess

BINDING = AclBinding(resource_type="topic", name="orders", principal="User:shop", operation="read")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A node in the clear, whose clients are nobody and may do nothing."""
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:operator",
    }
    with BrokerProcess(tmp_path_factory.mktemp("node"), properties=properties) as running:
        yield running


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (
            lambda admin: admin.set_scram_users(
                [ScramUser(name="ann", mechanism="SCRAM-SHA-256", password="p")]
            ),
            "user ann",
        ),
        (lambda admin: admin.create_acls([BINDING]), str(BINDING)),
        (
            lambda admin: admin.delete_acls([AclFilter(principal="User:shop")]),
            "ACLs with principal User:shop",
        ),
        (lambda admin: admin.delete_acls([AclFilter()]), "all ACLs"),
    ],
)
def test_what_was_refused_is_named_once(broker: BrokerProcess, ask: Any, told: str) -> None:
    with BlockingAdmin(broker.bootstrap) as admin, pytest.raises(KafkaError) as caught:
        ask(admin)
    assert str(caught.value) == f"{told}: ALTER on the cluster is not allowed"
