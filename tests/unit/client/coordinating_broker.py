"""A scripted broker that coordinates groups."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from log_service.protocol.api_versions import ApiKey, response_class
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from log_service.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from log_service.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.client.scripted_broker import HOST, PORT, ScriptedBroker


class Coordinating:
    """Responses for a group of one member."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.respond_again()

    def respond_again(self) -> None:
        for key in (
            ApiKey.FIND_COORDINATOR,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_COMMIT,
        ):
            self.broker.other[key] = getattr(self, f"_{key.name.lower()}")
        for key in (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP):
            self.broker.other[key] = self._default(key)
        for key in (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID):
            self.broker.other.pop(key, None)

    async def _find_coordinator(self, request: Any, version: int) -> FindCoordinatorResponse:
        await trio.lowlevel.checkpoint()
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key="g", node_id=1, host=HOST, port=PORT)]
        )

    async def _join_group(self, request: Any, version: int) -> JoinGroupResponse:
        await trio.lowlevel.checkpoint()
        member = JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)
        name = request.protocols[0].name
        return JoinGroupResponse(
            generation_id=1, protocol_name=name, leader="m", member_id="m", members=[member]
        )

    async def _sync_group(self, request: Any, version: int) -> SyncGroupResponse:
        await trio.lowlevel.checkpoint()
        return SyncGroupResponse(
            assignment=request.assignments[0].assignment if request.assignments else b""
        )

    async def _offset_fetch(self, request: Any, version: int) -> Any:
        await trio.lowlevel.checkpoint()
        return response_class(ApiKey.OFFSET_FETCH)()

    async def _offset_commit(self, request: Any, version: int) -> Any:
        await trio.lowlevel.checkpoint()
        return response_class(ApiKey.OFFSET_COMMIT)()

    @staticmethod
    def _default(key: ApiKey) -> Callable[[Any, int], Awaitable[Any]]:
        async def response(request: Any, version: int) -> Any:
            await trio.lowlevel.checkpoint()
            return response_class(key)()

        return response
