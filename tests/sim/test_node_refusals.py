"""The table of refusals bites.

A disk at fault excuses its own code, and every part of a response is looked at.
"""

from itertools import count

import pytest

from log_service.common.errors import ErrorCode
from log_service.protocol.api_versions import ApiKey
from log_service.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from log_service.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.sim.node_history import DiskFault, Entry, History, Refused
from tests.sim.node_refusals import check_refusals, refusals


def refused(api_key: ApiKey, code: ErrorCode) -> Refused:
    return Refused(api_key=api_key, code=code, text="text")


def broken(*entries: Entry) -> list[str]:
    times = count()
    history = History(lambda: float(next(times)))
    for entry in entries:
        history.add(entry)
    return [violation.text for violation in check_refusals(history)]


def test_what_may_happen_to_any_client_passes() -> None:
    assert not broken(
        refused(ApiKey.PRODUCE, ErrorCode.REQUEST_TIMED_OUT),
        refused(ApiKey.HEARTBEAT, ErrorCode.REBALANCE_IN_PROGRESS),
    )


@pytest.mark.parametrize(
    ("api_key", "code"),
    [
        (ApiKey.PRODUCE, ErrorCode.RECORD_LIST_TOO_LARGE),
        (ApiKey.PRODUCE, ErrorCode.CORRUPT_MESSAGE),
        (ApiKey.FETCH, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ApiKey.HEARTBEAT, ErrorCode.MEMBER_ID_REQUIRED),
        (ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_code_that_an_api_has_no_reason_for_is_named(api_key: ApiKey, code: ErrorCode) -> None:
    assert broken(refused(api_key, code)) == [f"{api_key.name} got {code.name}: text"]


def test_a_storage_error_needs_a_disk_that_was_at_fault_before() -> None:
    storage = refused(ApiKey.FETCH, ErrorCode.KAFKA_STORAGE_ERROR)
    assert not broken(DiskFault(), storage)
    assert len(broken(refused(ApiKey.FETCH, ErrorCode.KAFKA_STORAGE_ERROR), DiskFault())) == 1


def test_every_part_of_a_response_is_looked_at() -> None:
    good, bad = (
        PartitionProduceResponse(index=0),
        PartitionProduceResponse(index=1, error_code=ErrorCode.INVALID_RECORD),
    )
    assert list(
        refusals(ProduceResponse(responses=[TopicProduceResponse(partition_responses=[good, bad])]))
    ) == [bad]
    topics = [
        FetchableTopicResponse(partitions=[PartitionData(error_code=ErrorCode.UNKNOWN_TOPIC_ID)])
    ]
    found = [
        part.error_code
        for part in refusals(
            FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=topics)
        )
    ]
    assert found == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_ID]
