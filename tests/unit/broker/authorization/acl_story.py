"""These helpers run a node with an authorizer for one client and change its ACLs.

The client has no name of its own, so it is User:ANONYMOUS.

    def test_something() -> None:
        async def story(node: AclStory) -> None:
            await node.allow((READ, TOPIC, "t"))
            response = await node.ask(fetch_request("t", 0), 12)

        tell_with_acls(story)
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from log_service.common.access import AclResource
from log_service.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from log_service.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from log_service.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tests.unit.broker.context import HOST, PORT, RawClient, Story, tell

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CONTROLLER_PORT = 9093
ANYONE = "User:ANONYMOUS"
CLUSTER_NAME = "kafka-cluster"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResource.TOPIC,
    AclResource.GROUP,
    AclResource.CLUSTER,
    AclResource.TRANSACTIONAL_ID,
)
ALL_OPERATIONS = 2
BYSTANDER = "bystander"
"""The topic of an ACL of somebody else, for requests that delete ACLs."""
DENIALS = {29, 30, 31, 53, 65}
"""The error codes of what is not allowed."""

Right = tuple[int, AclResource, str]
"""An operation, the type of its resource, and the resource's name; ``*`` is all."""


def acl(
    right: Right, *, permission: int = 3, principal: str = ANYONE, host: str = "*", pattern: int = 3
) -> AclCreation:
    operation, resource, name = right
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


class AclStory(Story):
    """This story asks its controller in the same process.

    No principal asks there, so ACLs do not hold for the test itself.
    """

    async def add(self, *creations: AclCreation) -> None:
        request = CreateAclsRequest(creations=list(creations))
        response = await self.broker.rooms.controller.request(request, CreateAclsResponse)
        assert [result.error_code for result in response.results] == [0] * len(creations), response

    async def allow(self, *rights: Right) -> None:
        await self.add(*map(acl, rights))

    async def deny(self, *rights: Right) -> None:
        await self.add(*(acl(right, permission=2) for right in rights))

    async def forget_acls(self) -> None:
        """Take all ACLs away."""
        everything = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        await self.broker.rooms.controller.request(
            DeleteAclsRequest(filters=[everything]), DeleteAclsResponse
        )

    async def have_only(self, *rights: Right) -> None:
        await self.forget_acls()
        await self.allow(*rights)

    async def may_do_everything(self) -> None:
        await self.have_only(
            *(
                (ALL_OPERATIONS, resource, CLUSTER_NAME if resource is CLUSTER else "*")
                for resource in (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID)
            )
        )

    async def make_topic(self, name: str, partitions: int = 1) -> Any:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = await self.broker.rooms.controller.request(
            CreateTopicsRequest(topics=[topic]), CreateTopicsResponse
        )
        assert response.topics[0].error_code == 0, response
        return response.topics[0].topic_id

    async def connect_to_controller(self) -> RawClient:
        return await self.connect(CONTROLLER_PORT)


def tell_with_acls(
    main: Callable[[AclStory], Awaitable[None]], *, super_users: str = "", **properties: str
) -> None:
    """Run one story against a fresh node with an authorizer and both kinds of listeners."""

    async def whole(story: Story) -> None:
        await main(AclStory(story.world, story.broker, story.client))

    wanted: dict[str, Any] = {
        "listeners": f"PLAINTEXT://{HOST}:{PORT},CONTROLLER://{HOST}:{CONTROLLER_PORT}",
        "controller_listener_names": "CONTROLLER",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "authorizer_class_name": STANDARD,
        "super_users": super_users,
        **properties,
    }
    tell(whole, **wanted)


def codes(told: Any) -> set[int]:
    """Every error code in a response, however deep, but what is told of a new topic's
    configuration.
    """
    return {
        value
        for name, value in leaves(told)
        if name.endswith("error_code") and name != "topic_config_error_code"
    }


def leaves(told: Any, name: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the name and the value of every field of a response that is no structure, in order."""
    if isinstance(told, list):
        for each in told:
            yield from leaves(each, name)
    elif hasattr(told, "SCHEMA"):
        for field in told.SCHEMA.fields:
            yield from leaves(getattr(told, field.name), field.name)
    else:
        yield name, told
