"""A transaction coordinator and a group coordinator keep Kafka's rules over the scripted broker.

A test puts its own responses before them.  ``script`` holds, per API, the codes (or words of
``ScriptedBroker``) that the next requests are responded to with. It answers by the version of each
request, as brokers do: EndTxn 5 raises the epoch, lower ones keep it.
"""

from collections import defaultdict, deque
from typing import Any

import trio

from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from log_service.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from log_service.protocol.messages.end_txn import EndTxnResponse
from log_service.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from log_service.protocol.messages.init_producer_id import InitProducerIdResponse
from log_service.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from log_service.records.batch import BatchHeader
from tests.unit.client.scripted_broker import HOST, PORT, ScriptedBroker

PRODUCER_ID = 900


class ScriptedCoordinator:
    """One transactional id. ``ended`` holds True for each commit and False for each abort."""

    def __init__(self, broker: ScriptedBroker, *, is_version_2: bool) -> None:
        self.broker = broker
        self.epoch = -1
        self.last_ended_epoch = -1
        self.last_raised_epoch = -1
        self.state = "Empty"
        self.ended: list[bool] = []
        self.added: list[tuple[str, int]] = []
        self.offsets: dict[tuple[str, int], int] = {}
        self.versions: list[tuple[ApiKey, int]] = []
        self.script: dict[ApiKey, deque[ErrorCode | str]] = defaultdict(deque)
        self.find_count = 0
        self.is_leaving_out = False  # responses name no partition
        self.is_version_2 = is_version_2
        self.markers: list[list[tuple[int, bool]]] = [[] for _ in range(broker.partition_count)]
        broker.admit = self._admit
        broker.levels["transaction.version"] = 2 if is_version_2 else 1
        handlers = {
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKey.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKey.END_TXN: self._end,
        }
        for key, handler in handlers.items():
            broker.other[key] = self._scripted(key, handler)

    def asked(self, *keys: ApiKey) -> list[ApiKey]:
        """The requests of these APIs, or of all transactions, in order."""
        wanted = keys or (ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT,
                          ApiKey.PRODUCE, ApiKey.END_TXN)  # fmt: skip
        return [key for key, _ in self.broker.requests if key in wanted]

    def committed(self, partition: int = 0) -> list[bytes]:
        """Return the values that a reader of committed records sees.

        They stand before each marker that commits, since the marker before.
        """
        found, start = [], 0
        for end, is_commit in self.markers[partition]:
            found += self.broker.logs[partition].values[start:end] if is_commit else []
            start = end
        return found

    def _admit(self, header: BatchHeader) -> ErrorCode:
        """Verify a batch as leaders do: its epoch, and its transaction, which one of version 2
        opens.
        """
        if header.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if self.is_version_2:
            self.state = "Ongoing"
        return ErrorCode.NONE if self.state == "Ongoing" else ErrorCode.INVALID_TXN_STATE

    def _scripted(self, key: ApiKey, handler: Any) -> Any:
        async def respond(request: Any, version: int) -> Any:
            await trio.lowlevel.checkpoint()
            self.versions.append((key, version))
            action = self.script[key].popleft() if self.script[key] else ErrorCode.NONE
            if action == ScriptedBroker.DROP:
                return ConnectionResetError("scripted")
            if action == ScriptedBroker.APPEND_AND_DROP:
                handler(request, version, ErrorCode.NONE)
                return ConnectionResetError("scripted")
            if action == ScriptedBroker.IGNORE:
                await trio.sleep_forever()
            return handler(request, version, action)

        return respond

    def _find(self, request: Any, version: int, code: ErrorCode) -> FindCoordinatorResponse:
        self.find_count += 1
        found = [
            Coordinator(key=key, node_id=1, host=HOST, port=PORT, error_code=code)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    def _init(self, request: Any, version: int, code: ErrorCode) -> InitProducerIdResponse:
        if code:
            return InitProducerIdResponse(error_code=code)
        if request.producer_id >= 0 and request.producer_epoch == self.last_raised_epoch:
            # The response was lost (KIP-360).
            return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
        if request.producer_id >= 0 and request.producer_epoch != self.epoch:
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        self.last_raised_epoch = request.producer_epoch
        self.epoch += 1
        self.state = "Empty"
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _add_partitions(
        self, request: Any, version: int, code: ErrorCode
    ) -> AddPartitionsToTxnResponse:
        if not code:
            self.state = "Ongoing"
            self.added += [
                (topic.name, each)
                for topic in request.v3_and_below_topics
                for each in topic.partitions
            ]
        results = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=each, partition_error_code=code
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[] if self.is_leaving_out else results
        )

    def _add_offsets(self, request: Any, version: int, code: ErrorCode) -> AddOffsetsToTxnResponse:
        if not code:
            self.state = "Ongoing"
        return AddOffsetsToTxnResponse(error_code=code)

    def _commit_offsets(
        self, request: Any, version: int, code: ErrorCode
    ) -> TxnOffsetCommitResponse:
        if not code:
            self.offsets |= {
                (topic.name, each.partition_index): each.committed_offset
                for topic in request.topics
                for each in topic.partitions
            }
        if self.is_leaving_out:
            return TxnOffsetCommitResponse()
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(
                            partition_index=each.partition_index, error_code=code
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _end(self, request: Any, version: int, code: ErrorCode) -> EndTxnResponse:
        if code:
            return EndTxnResponse(error_code=code)
        if version < 5:
            is_repeated = self.state == ("CompleteCommit" if request.committed else "CompleteAbort")
            if self.state != "Ongoing":
                return EndTxnResponse(
                    error_code=ErrorCode.NONE if is_repeated else ErrorCode.INVALID_TXN_STATE
                )
        elif (
            request.producer_epoch == self.last_ended_epoch and self.ended[-1] == request.committed
        ):
            # The response was lost.
            return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
        self.ended.append(request.committed)
        for markers, log in zip(self.markers, self.broker.logs, strict=True):
            markers.append((len(log.values), request.committed))
        self.state = "CompleteCommit" if request.committed else "CompleteAbort"
        if version < 5:
            return EndTxnResponse()
        self.last_ended_epoch = self.epoch
        self.epoch += 1
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
