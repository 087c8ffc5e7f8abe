"""These steps of stories about ACLs set things up, read state and compare two responses."""

from dataclasses import replace
from typing import Any

import trio

from log_service.coordinator.group.classic.group import ClassicGroup
from log_service.protocol.messages.find_coordinator import FindCoordinatorRequest
from log_service.protocol.messages.init_producer_id import InitProducerIdRequest
from log_service.protocol.schema import has_version
from tests.unit.broker.authorization.acl_story import (
    BYSTANDER,
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    AclStory,
    Right,
    acl,
    codes,
    leaves,
)
from tests.unit.broker.authorization.matrix import READ, Row, Things
from tests.unit.broker.authorization.matrix_requests import commit_request
from tests.unit.broker.context import RawClient, batch

NAMED_BY = {TOPIC: "topic", CLUSTER: "topic", GROUP: "group", TRANSACTIONAL_ID: "transactional_id"}


async def prepare(node: AclStory) -> Things:
    """Make what requests are about: a topic with a record, a group with a position, a transactional
    id.
    """
    topic_id = await node.make_topic("t")
    await node.may_do_everything()
    for key_type, key in ((0, "g"), (1, "x")):
        await node.ask(FindCoordinatorRequest(key=key, key_type=key_type), 1)
    await trio.sleep(5)
    things = Things(topic_id=topic_id)
    assert (await node.produce("t", batch(b"one"))).error_code == 0
    assert codes(await node.ask(commit_request(things, 9), 9)) == {0}
    assert codes(
        await node.ask(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000), 4)
    ) == {0}
    await node.forget_acls()
    return things


def state(node: AclStory) -> Any:
    """Return all state that a request may change.

    This is the metadata with ACLs, users and tokens, the ends and beginnings of the logs, and
    the members of groups.

    A group's members that wait for a rebalance are in no log: they are looked for where the
    coordinator has them.
    """
    image = node.broker.image
    logs = {
        where: (log.log_start_offset, log.log_end_offset)
        for where, log in node.broker.foundation.logs.logs.items()
    }
    access = (
        image.access.acls,
        image.access.scram_credentials,
        image.access.delegation_tokens,
        image.access.client_quotas,
    )
    return (
        image.topics,
        image.configs,
        image.features,
        access,
        image.cluster.brokers.keys(),
        logs,
        members(node),
    )


def members(node: AclStory) -> dict[str, tuple[str, ...]]:
    """The ids of the members of each group, those that have only asked to join among them."""
    shards = node.broker.rooms.groups.shards.serving() or ()
    found: dict[str, tuple[str, ...]] = {}
    for shard in shards:
        for group in (*shard.groups.values(), *shard.share_groups.groups()):
            waiting = group.pending_join_members if isinstance(group, ClassicGroup) else ()
            found[group.group_id] = (*sorted(group.members), *sorted(waiting))
    return found


def shape(told: Any, things: Things) -> list[tuple[str, Any]]:
    """A response without the names that were asked about."""
    names = {things.topic, things.group, things.transactional_id}
    return [(name, "*" if value in names else value) for name, value in leaves(told)]


def shows(told: Any, text: str) -> bool:
    return any(value == text for _, value in leaves(told))


async def ask(client: RawClient, row: Row, version: int, things: Things) -> Any:
    with trio.fail_after(20):
        return await client.ask(fitted(row.build(things, version), version), version)


def fitted(message: Any, version: int) -> Any:
    """A request with what its version can carry: the others of its fields say nothing."""
    fresh = type(message)()
    for field in message.SCHEMA.fields:
        value = getattr(message, field.name)
        if not has_version(field.versions, version):
            value = getattr(fresh, field.name)
        elif field.struct is not None and value is not None:
            value = (
                [fitted(each, version) for each in value]
                if isinstance(value, list)
                else fitted(value, version)
            )
        setattr(message, field.name, value)
    return message


async def check_refusal(  # noqa: PLR0917 - one step of one case
    node: AclStory, client: RawClient, row: Row, version: int, things: Things, missing: Right
) -> None:
    await node.add(acl((READ, TOPIC, BYSTANDER), principal="User:somebody"))
    before = state(node)
    told = await ask(client, row, version, things)
    assert state(node) == before, "a refused request has done something"
    if row.hidden is not None:
        assert not shows(told, row.hidden)
        return
    assert row.code_of(missing) in codes(told), (missing, list(leaves(told)))
    if row.names:
        named: dict[str, Any] = {NAMED_BY[missing[1]]: "nothing"}
        elsewhere = replace(things, **named)
        assert shape(await ask(client, row, version, elsewhere), elsewhere) == shape(told, things)
