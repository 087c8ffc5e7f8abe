"""``tidelog transactions`` asks an admin of the test's own.

The tests look at tables, JSON, questions, and sentences about mistakes.
"""

import json
from typing import Any

import pytest

from log_service.cli import transactions as command
from log_service.client.admin.values import (
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from log_service.client.connections.cluster_view import Node
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicPartition
from tests.helpers.stand_ins import opening
from tests.integration.command_line import Finished, run

ORDERS = TopicPartition("orders", 0)
HANGING = HangingTransaction(
    topic_partition=ORDERS,
    producer_id=7,
    producer_epoch=2,
    coordinator_epoch=1,
    start_offset=42,
    last_timestamp_ms=1_000,
    transactional_id="copy-0",
)


class StandIn:
    """An admin of a cluster with two transactional ids, one open transaction, and one that hangs."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refusal: KafkaError | None = None
        self.hanging = [HANGING]

    async def list_transactions(self, **filters: Any) -> list[TransactionListing]:
        self.asked.append(filters)
        return [
            TransactionListing(transactional_id="copy-0", producer_id=7, state="Ongoing"),
            TransactionListing(transactional_id="load", producer_id=8, state="CompleteCommit"),
        ]

    async def describe_transactions(self, ids: list[str]) -> dict[str, TransactionDescription]:
        return {
            each: TransactionDescription(
                transactional_id=each,
                coordinator=Node(node_id=1, host="h", port=1),
                state="Ongoing",
                producer_id=7,
                producer_epoch=2,
                timeout_ms=60_000,
                start_time_ms=5 if each == "copy-0" else -1,
                partitions=(ORDERS,),
            )
            for each in ids
        }

    async def find_hanging_transactions(
        self, partitions: Any, *, open_longer_than_ms: int
    ) -> list[HangingTransaction]:
        self.asked.append((partitions, open_longer_than_ms))
        return self.hanging

    async def describe_producers(
        self, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[ProducerDescription, ...]]:
        offsets = {3: -1, 7: 42}
        found = [
            ProducerDescription(
                producer_id=number,
                producer_epoch=2,
                last_sequence=0,
                last_timestamp_ms=1_000,
                coordinator_epoch=1,
                transaction_start_offset=offset,
            )
            for number, offset in offsets.items()
        ]
        return {where: tuple(found) for where in partitions}

    async def abort_transaction(self, transaction: HangingTransaction) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(transaction)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(command, "open_admin", opening(stand_in))
    return stand_in


def told(*arguments: str, given: str = "") -> Finished:
    return run(["transactions", *arguments], given=given)


def test_ids_are_listed_with_their_states(admin: StandIn) -> None:
    assert told("list").lines == ["TRANSACTIONAL_ID  PRODUCER_ID  STATE", "copy-0                      7  Ongoing", "load                        8  CompleteCommit"]  # fmt: skip
    told(
        "list",
        "--state",
        "ongoing",
        "--producer-id",
        "7",
        "--longer-than",
        "5m",
        "--pattern",
        "copy.*",
    )
    assert admin.asked[-1] == {
        "states": ("Ongoing",),
        "producer_ids": (7,),
        "running_longer_than_ms": 300_000,
        "transactional_id_pattern": "copy.*",
    }


def test_ids_are_described_by_name_or_pattern(admin: StandIn) -> None:
    one = json.loads(told("describe", "copy-0", "--json").output)
    assert (one["state"], one["epoch"], one["start_time_ms"], one["partitions"]) == (
        "Ongoing",
        2,
        5,
        ["orders-0"],
    )
    assert [each["transactional_id"] for each in json.loads(told("describe", "--json").output)] == [
        "copy-0",
        "load",
    ]
    assert "load" in told("describe", "lo*").output
    missing = told("describe", "nothing-*")
    assert (missing.exit_code, missing.errors) == (
        1,
        "Error: no transaction matches 'nothing-*'; see: tidelog transactions list\n",
    )


def test_what_hangs_is_shown_with_the_command_that_ends_it(admin: StandIn) -> None:
    found = told("find-hanging")
    assert admin.asked[-1] == (None, 900_000)
    assert "orders          0            42" in found.output
    assert "tidelog transactions abort orders:0 --start-offset 42" in found.errors
    assert (
        json.loads(told("find-hanging", "--json", "--open-for", "1m").output)[0][
            "coordinator_epoch"
        ]
        == 1
    )
    assert admin.asked[-1] == (None, 60_000)
    admin.hanging = []
    assert told("find-hanging").output == "no transaction hangs\n"


def test_an_abort_asks_first_and_takes_what_the_leader_knows(admin: StandIn) -> None:
    refused = told("abort", "orders:0", "--start-offset", "42", given="n\n")
    assert (refused.exit_code, admin.asked) == (1, [])
    assert "Abort the transaction of producer 7 in orders-0 from offset 42?" in refused.errors
    assert (
        told("abort", "orders:0", "--start-offset", "42", "-y").output
        == "aborted the transaction of producer 7 in orders-0\n"
    )
    (aborted,) = admin.asked
    assert (aborted.producer_id, aborted.producer_epoch, aborted.coordinator_epoch) == (7, 2, 1)


def test_an_offset_at_which_none_begins_is_told_with_those_at_which_one_does(
    admin: StandIn,
) -> None:
    found = told("abort", "orders:0", "--start-offset", "41", "-y")
    assert found.exit_code == 1
    assert (
        found.errors
        == "Error: no transaction of orders-0 begins at offset 41: those that are open begin at 42\n"
    )
    assert admin.asked == []


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_a_transaction_that_went_on_meanwhile_is_left_alone(
    admin: StandIn, code: ErrorCode
) -> None:
    admin.refusal = KafkaError(code, code.name)
    found = told("abort", "orders:0", "--start-offset", "42", "-y")
    assert found.exit_code == 1
    assert (
        f"the transaction has gone on meanwhile ({code.name}): nothing was aborted" in found.errors
    )
