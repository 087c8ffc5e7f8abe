"""The witness of transactions passes one that ends in order.

It names each forbidden event.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from log_service.common.types import TRANSACTION_STATE_TOPIC, TopicPartition
from log_service.coordinator.transaction.transaction import Transaction, TransactionState
from tests.sim.transaction_witness import Marker, Moves, Rows, TransactionWitness

STATE, FIRST, SECOND = (
    TopicPartition(TRANSACTION_STATE_TOPIC, 0),
    TopicPartition("rows", 0),
    TopicPartition("rows", 1),
)
ID, PRODUCER = "copier-0", 7
ONGOING = Transaction(
    transactional_id=ID,
    producer_id=PRODUCER,
    producer_epoch=0,
    timeout_ms=1,
    last_update_ms=0,
    state=TransactionState.ONGOING,
    partitions=frozenset({FIRST, SECOND}),
)
PREPARED = replace(ONGOING, state=TransactionState.PREPARE_COMMIT, producer_epoch=1)
COMPLETE = replace(PREPARED, state=TransactionState.COMPLETE_COMMIT, partitions=frozenset())
COMMIT = Marker(PRODUCER, 1, is_commit=True, coordinator_epoch=3)

Step = tuple[TopicPartition, Rows | Marker | Moves]
Steps = list[Step]


def moved(transaction: Transaction) -> Step:
    return STATE, Moves(((ID, transaction),))


IN_ORDER: Steps = [
    moved(ONGOING),
    (FIRST, Rows(PRODUCER, 0)),
    (SECOND, Rows(PRODUCER, 0)),
    moved(PREPARED),
    (FIRST, COMMIT),
    (SECOND, COMMIT),
    moved(COMPLETE),
    (FIRST, Rows(PRODUCER, 1)),
]


def found_in(steps: Iterable[Step], *, is_settled_each: bool = True) -> list[str]:
    texts: list[str] = []
    witness = TransactionWitness(lambda _rule, text: texts.append(text))
    for offset, (name, told) in enumerate(steps):
        witness.take(name, offset, told)
        if is_settled_each:
            witness.settle()
    witness.settle()
    return texts


@pytest.mark.parametrize("is_settled_each", [True, False])
def test_a_transaction_that_ends_in_order_is_not_named(is_settled_each: bool) -> None:
    assert not found_in(IN_ORDER, is_settled_each=is_settled_each)


def test_the_last_stable_offset_is_where_the_first_open_transaction_begins() -> None:
    witness = TransactionWitness(lambda _rule, text: pytest.fail(text))
    assert witness.last_stable_offset(FIRST, 4) == 4
    witness.take(FIRST, 4, Rows(PRODUCER, 0))
    witness.take(FIRST, 5, Rows(8, 0))
    witness.take(FIRST, 6, Rows(PRODUCER, 0))
    assert witness.last_stable_offset(FIRST, 7) == 4
    witness.take(STATE, 0, Moves(((ID, PREPARED),)))
    witness.take(FIRST, 7, COMMIT)
    assert witness.last_stable_offset(FIRST, 8) == 5
    witness.settle()


def without(step: int) -> Callable[[Steps], Steps]:
    return lambda steps: [*steps[:step], *steps[step + 1 :]]


def with_other(step: int, told: Step) -> Callable[[Steps], Steps]:
    return lambda steps: [*steps[:step], told, *steps[step + 1 :]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            with_other(5, (SECOND, COMMIT._replace(is_commit=False))),
            "no coordinator has stored that",
        ),
        (with_other(3, (FIRST, Rows(PRODUCER, 0))), "no coordinator has stored that"),
        (without(5), "is complete, and rows-1"),
        (with_other(7, (FIRST, Rows(PRODUCER, 0))), "behind epoch 1"),
        (with_other(7, (FIRST, COMMIT._replace(coordinator_epoch=2))), "behind Marker"),
        (with_other(3, moved(replace(PREPARED, partitions=frozenset({FIRST})))), "lost partitions"),
        (
            with_other(7, moved(replace(COMPLETE, state=TransactionState.COMPLETE_ABORT))),
            "went from",
        ),
        (
            with_other(7, moved(replace(COMPLETE, state=TransactionState.EMPTY, producer_epoch=0))),
            "fell from epoch 1",
        ),
    ],
    ids=[
        "other outcome",
        "outcome not stored",
        "marker missing",
        "zombie's rows",
        "zombie's marker",
        "lost partition",
        "other end",
        "epoch",
    ],
)
def test_what_may_not_be_is_named(change: Callable[[Steps], Steps], told: str) -> None:
    assert any(told in text for text in found_in(change(IN_ORDER)))
