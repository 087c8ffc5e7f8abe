"""A node with quotas, and clients that ask for more."""

from collections.abc import Mapping

from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from log_service.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.unit.broker.context import Story, batch

STORY: Mapping[str, str | None] = {"client-id": "story"}


async def set_quotas(node: Story, entity: Mapping[str, str | None], **values: float | None) -> None:
    """Set quotas as another client, which none of them is for."""
    entry = RequestEntryData(
        entity=[
            RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )
    client = await node.connect()
    response = await client.ask(AlterClientQuotasRequest(entries=[entry]), 1)
    assert [each.error_code for each in response.entries] == [0], response
    client.close()


def large_batch(size_bytes: int) -> bytes:
    return batch(bytes(size_bytes))


def new_topic(name: str, partitions: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)],
        timeout_ms=10_000,
    )


def spend(node: Story, spent_ms: int) -> None:
    """Have each request take so long of the node's time from now on: handlers take none in a story."""
    quotas = node.broker.servers[0].handler.quotas  # type: ignore[attr-defined]  # a pipeline
    account_of = quotas.account_of
    quotas.account_of = lambda call, size_bytes, started_ns: account_of(
        call, size_bytes, started_ns - spent_ms * 1_000_000
    )
