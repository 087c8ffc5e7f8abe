"""Administers client quotas: lists, sets and removes them (KIP-546).

Each function sends the requests of one method of ``Admin``, and converts the responses to values.
"""

from collections.abc import Mapping

from log_service.client.admin.fan_out import Collected
from log_service.client.admin.values import QuotaEntity
from log_service.client.connections.cluster_metadata import ClusterMetadata
from log_service.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from log_service.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from log_service.rpc.connection import raise_for

BY_NAME, DEFAULT, ANY = range(3)


async def describe_client_quotas(
    cluster: ClusterMetadata, match: Mapping[str, str | None], timeout_ms: int, *, is_strict: bool
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas that are set; see ``Admin.describe_client_quotas``."""
    request = DescribeClientQuotasRequest(
        components=[_component(kind, name) for kind, name in match.items()], strict=is_strict
    )

    async def attempt() -> dict[QuotaEntity, dict[str, float]]:
        response = await (await cluster.any_node()).request(request, DescribeClientQuotasResponse)
        raise_for(response.error_code, response.error_message, "client quotas")
        return {
            QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
                each.key: each.value for each in entry.values
            }
            for entry in response.entries or ()
        }

    return await cluster.retry(attempt, timeout_ms)


def _component(kind: str, name: str | None) -> ComponentData:
    if name is None:
        return ComponentData(entity_type=kind, match_type=ANY, match=None)
    return ComponentData(
        entity_type=kind, match_type=BY_NAME if name else DEFAULT, match=name or None
    )


async def alter_client_quotas(
    cluster: ClusterMetadata,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    timeout_ms: int,
    *,
    is_validated_only: bool,
) -> None:
    """Set and remove quotas; see ``Admin.alter_client_quotas``."""
    request = AlterClientQuotasRequest(
        validate_only=is_validated_only,
        entries=[
            RequestEntryData(
                entity=[
                    RequestEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity.parts().items()
                ],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity, quotas in changes.items()
        ],
    )

    async def attempt() -> None:
        await cluster.refresh()
        response = await (await cluster.controller()).request(request, AlterClientQuotasResponse)
        collected = Collected()
        for result in response.entries:
            entity = QuotaEntity.of({part.entity_type: part.entity_name for part in result.entity})
            collected.note(entity, result.error_code, result.error_message)
        collected.finish({})

    await cluster.retry(attempt, timeout_ms, is_refreshing=False)
