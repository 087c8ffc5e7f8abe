"""CreateAcls, DeleteAcls and DescribeAcls, with the codes of Apache Kafka 4.3."""

from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from log_service.broker.metrics.authorizer import authorizer_families
from log_service.common.errors import KafkaError
from log_service.controller.rules.acls import MAX_RECORDS, create_acls, delete_acls
from log_service.metadata.access import AclEntry
from log_service.metadata.image import EMPTY_IMAGE
from log_service.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from log_service.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from log_service.protocol.messages.describe_acls import DescribeAclsRequest
from log_service.raft.format import random_id
from log_service.security.acls.index import NO_INDEX
from tests.unit.broker.authorization.acl_story import (
    ALL_OPERATIONS,
    CLUSTER,
    CLUSTER_NAME,
    TOPIC,
    AclStory,
    acl,
    tell_with_acls,
)
from tests.unit.broker.authorization.matrix import DESCRIBE, READ, WRITE
from tests.unit.security.acls import Acl

VERSIONS = (1, 2, 3)
READS = acl((READ, TOPIC, "t"), principal="User:ann")
ADMIN = (ALL_OPERATIONS, CLUSTER, CLUSTER_NAME)


def described(told: Any) -> list[tuple[str, str, int]]:
    assert told.error_code == 0, told
    return [
        (resource.resource_name, each.principal, each.operation)
        for resource in told.resources
        for each in resource.acls
    ]


def asking(**wanted: Any) -> DescribeAclsRequest:
    fields: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    return DescribeAclsRequest(**(fields | wanted))


def deleting(**wanted: Any) -> DeleteAclsFilter:
    fields = asking(**wanted)
    names = {each.name for each in DescribeAclsRequest.SCHEMA.fields}
    return DeleteAclsFilter(
        **{
            each.name: getattr(fields, each.name)
            for each in DeleteAclsFilter.SCHEMA.fields
            if each.name in names
        }
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_acls_are_made_told_and_taken_away(version: int) -> None:
    async def story(node: AclStory) -> None:
        await node.allow(ADMIN)
        told = await node.ask(
            CreateAclsRequest(creations=[READS, READS, replace(READS, operation=WRITE)]), version
        )
        assert [result.error_code for result in told.results] == [0, 0, 0]
        again = await node.ask(CreateAclsRequest(creations=[READS]), version)
        assert [result.error_code for result in again.results] == [0]
        assert len(node.broker.image.access.acls) == 3
        assert described(await node.ask(asking(principal_filter="User:ann"), version)) == [
            ("t", "User:ann", 3),
            ("t", "User:ann", 4),
        ]
        filters = [
            deleting(operation=3, principal_filter="User:ann"),
            deleting(principal_filter="User:ann"),
        ]
        told = await node.ask(DeleteAclsRequest(filters=filters), version)
        assert [
            [match.operation for match in result.matching_acls] for result in told.filter_results
        ] == [[3], [3, 4]]
        assert described(await node.ask(asking(principal_filter="User:ann"), version)) == []

    tell_with_acls(story)


WRONG: list[tuple[dict[str, Any], int]] = [
    ({"resource_type": 99}, 42),
    ({"resource_pattern_type": 99}, 42),
    ({"operation": 99}, 42),
    ({"permission_type": 99}, 42),
    ({"resource_name": ""}, 42),
    ({"resource_type": 4, "resource_name": "my-cluster"}, 42),
    ({"principal": "ann"}, 42),
    ({"principal": "User:"}, 0),
    ({"principal": "Group:x"}, 0),
    ({"host": ""}, 0),
    ({"host": "no host"}, 0),
    ({"resource_name": "no/topic"}, 0),
    ({"operation": 12}, 0),
    ({"resource_type": 4, "resource_name": CLUSTER_NAME, "resource_pattern_type": 4}, 0),
]


@pytest.mark.parametrize(("wrong", "code"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_each_acl_is_decided_on_by_itself(wrong: dict[str, Any], code: int) -> None:
    records, told = create_acls(
        EMPTY_IMAGE, CreateAclsRequest(creations=[replace(READS, **wrong), READS]), _new_ids()
    )
    assert [result.error_code for result in told.results] == [code, 0]
    assert len(records) == (1 if code else 2)
    assert bool(told.results[0].error_message) is bool(code)


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
)
def test_what_only_a_filter_can_say_refuses_the_whole_request(wrong: dict[str, Any]) -> None:
    async def story(node: AclStory) -> None:
        await node.allow(ADMIN)
        told = await node.ask(CreateAclsRequest(creations=[READS, replace(READS, **wrong)]), 3)
        assert [result.error_code for result in told.results] == [-1, -1]
        assert len(node.broker.image.access.acls) == 1

    tell_with_acls(story)


def test_a_number_that_stands_for_nothing_closes_the_connection() -> None:
    async def story(node: AclStory) -> None:
        await node.allow(ADMIN)
        for request in (
            CreateAclsRequest(creations=[replace(READS, operation=0)]),
            DeleteAclsRequest(filters=[deleting(permission_type=0)]),
            asking(resource_type_filter=0),
        ):
            client = await node.connect()
            await client.send(request, 3)
            assert await client.is_closed()

    tell_with_acls(story)


def test_a_filter_with_a_strange_number_is_refused_and_the_others_run() -> None:
    async def story(node: AclStory) -> None:
        await node.allow(ADMIN, (DESCRIBE, TOPIC, "t"))
        told = await node.ask(
            DeleteAclsRequest(filters=[deleting(operation=99), deleting(resource_type_filter=2)]), 3
        )
        assert [
            (result.error_code, len(result.matching_acls)) for result in told.filter_results
        ] == [(42, 0), (0, 1)]
        assert described(await node.ask(asking(operation=99), 3)) == []

    tell_with_acls(story)


def test_too_many_acls_are_refused_whole() -> None:
    many = [replace(READS, resource_name=str(number)) for number in range(MAX_RECORDS + 1)]
    with pytest.raises(KafkaError, match="of at most 10000"):
        create_acls(EMPTY_IMAGE, CreateAclsRequest(creations=many), _new_ids())
    assert (
        len(create_acls(EMPTY_IMAGE, CreateAclsRequest(creations=many[1:]), _new_ids())[0])
        == MAX_RECORDS
    )


def test_whether_acls_are_there_looks_at_few_of_those_with_their_name() -> None:
    """The controller does not compare a new ACL with all others of its name.

    Ten thousand more ACLs held the controller up for many seconds.
    """
    looked_at: list[str] = []

    class Watched(Acl):
        def __getattribute__(self, name: str) -> Any:
            if name == "principal":
                looked_at.append(name)
            return super().__getattribute__(name)

    index = NO_INDEX.changed([Watched(principal=f"User:{number}") for number in range(1_000)], ())
    image = replace(EMPTY_IMAGE, access=replace(EMPTY_IMAGE.access, acl_index=index))
    creations = [
        replace(READS, resource_name="orders", principal=f"User:{number}")
        for number in range(500, 1_500)
    ]
    looked_at.clear()
    records, _ = create_acls(image, CreateAclsRequest(creations=creations), _new_ids())
    assert [record.principal for record in records] == [  # type: ignore[union-attr]  # as below
        f"User:{number}" for number in range(1_000, 1_500)
    ]
    assert len(looked_at) < 20 * len(creations)


def test_deleting_by_exact_filters_looks_at_few_of_the_acls_with_their_name() -> None:
    """The controller does not compare a filter with all ACLs of its name.

    Five thousand filters on a name with as many ACLs held the controller up for seconds.
    """
    looked_at: list[str] = []

    class Watched(AclEntry):
        def __getattribute__(self, name: str) -> Any:
            if name == "principal":
                looked_at.append(name)
            return super().__getattribute__(name)

    orders: dict[str, Any] = {"resource_type": 2, "resource_name": "orders", "pattern_type": 3}
    may_read: dict[str, Any] = {"host": "*", "operation": READ, "permission_type": 3}
    entries = [
        Watched(acl_id=UUID(int=number), principal=f"User:{number}", **orders, **may_read)
        for number in range(1_000)
    ]
    image = replace(
        EMPTY_IMAGE, access=replace(EMPTY_IMAGE.access, acl_index=NO_INDEX.changed(entries, ()))
    )
    on_orders = {f"{name}_filter": value for name, value in orders.items()}
    filters = [
        deleting(**on_orders, principal_filter=f"User:{number}") for number in range(500, 1_500)
    ]
    looked_at.clear()
    records, told = delete_acls(image, DeleteAclsRequest(filters=filters))
    assert [record.id.int for record in records] == list(range(500, 1_000))  # type: ignore[union-attr]  # as below
    assert [len(result.matching_acls) for result in told.filter_results] == [1] * 500 + [0] * 500
    assert len(looked_at) < 50 * len(filters)


def test_nothing_is_deleted_of_an_empty_cluster() -> None:
    records, told = delete_acls(EMPTY_IMAGE, DeleteAclsRequest(filters=[deleting()]))
    assert (list(records), told.filter_results[0].matching_acls) == ([], [])


def test_without_an_authorizer_there_are_no_rules() -> None:
    async def story(node: AclStory) -> None:
        assert (await node.ask(asking(), 3)).error_code == 54
        assert [
            result.error_code
            for result in (await node.ask(CreateAclsRequest(creations=[READS]), 3)).results
        ] == [54]
        assert [
            result.error_code
            for result in (
                await node.ask(DeleteAclsRequest(filters=[deleting()]), 3)
            ).filter_results
        ] == [54]

    tell_with_acls(story, authorizer_class_name="")


def test_a_created_acl_holds_from_its_response_on() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        await node.allow(ADMIN)
        assert (await node.produce("t", b"")).error_code == 29
        right = acl((WRITE, TOPIC, "t"))
        assert (await node.ask(CreateAclsRequest(creations=[right]), 3)).results[0].error_code == 0
        assert (await node.produce("t", b"")).error_code != 29
        await node.ask(DeleteAclsRequest(filters=[deleting(resource_type_filter=2)]), 3)
        assert (await node.produce("t", b"")).error_code == 29

    tell_with_acls(story)


def test_the_metrics_page_counts_decisions_and_acls() -> None:
    async def story(node: AclStory) -> None:
        await node.make_topic("t")
        assert (await node.produce("t", b"")).error_code == 29
        await node.allow((WRITE, TOPIC, "t"))
        await node.produce("t", b"")
        families = authorizer_families(node.broker.authorizer, lambda _, value: value / 60)
        samples = {family.name: [value for _, _, value in family.samples] for family in families}
        assert samples == {
            "kafka_server_authorizer_authorization_request_total": [2],
            "kafka_server_authorizer_authorization_request_rate_per_minute": [2],
            "kafka_server_authorizer_authorization_allowed_total": [1],
            "kafka_server_authorizer_authorization_allowed_rate_per_minute": [1],
            "kafka_server_authorizer_authorization_denied_total": [1],
            "kafka_server_authorizer_authorization_denied_rate_per_minute": [1],
            "kafka_server_authorizer_acls_total_count": [1],
        }

    tell_with_acls(story)
    assert list(authorizer_families(None, lambda _, value: value)) == []


def _new_ids() -> Any:
    numbers = iter(range(1, 10**9))
    return lambda: random_id(lambda bits: next(numbers))


def test_creations_have_ids_of_their_own() -> None:
    creations: list[AclCreation] = [READS, replace(READS, operation=WRITE)]
    records, _ = create_acls(EMPTY_IMAGE, CreateAclsRequest(creations=creations), _new_ids())
    assert len({record.id for record in records}) == 2  # type: ignore[union-attr]  # they are records of ACLs


def test_the_ids_of_one_request_lie_beside_each_other() -> None:
    """Ids of one request lie in few chunks of the metadata's map.

    Random ids fall into all chunks, and each chunk is copied. That was most of the cost of many
    ACLs.
    """
    bits = Random(1).getrandbits
    creations = [replace(READS, resource_name=str(number)) for number in range(100)]
    records, _ = create_acls(
        EMPTY_IMAGE,
        CreateAclsRequest(creations=[*creations, READS, READS]),
        lambda: random_id(bits),
    )
    numbers = [record.id.int for record in records]  # type: ignore[union-attr]  # as above
    assert numbers == list(range(numbers[0], numbers[0] + 101))
