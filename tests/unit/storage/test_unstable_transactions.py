"""Readers of committed records stop at open transactions (KIP-98).

They stop at those whose marker is not safe yet.
"""

from log_service.storage.unstable_transactions import UnstableTransactions


def test_the_first_open_transaction_holds_readers_back_and_its_marker_until_it_is_safe() -> None:
    transactions = UnstableTransactions()
    assert transactions.last_stable_offset(30) == 30
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    assert (transactions.last_stable_offset(30), transactions.last_stable_offset(5)) == (10, 5)
    ended = transactions.end(1, 25)
    assert ended is not None
    assert ended.last_stable_offset == 20
    assert transactions.last_stable_offset(25) == 10, "the marker may still be lost"
    assert transactions.last_stable_offset(26) == 20
    transactions.end(2, 28)
    assert [
        transactions.last_stable_offset(high_watermark) for high_watermark in (25, 26, 28, 29)
    ] == [10, 20, 20, 29]


def test_what_has_ended_is_forgotten_once_its_marker_is_safe() -> None:
    transactions = UnstableTransactions()
    transactions.begin(1, 10)
    transactions.end(1, 25)
    assert transactions.settle(25) == 10
    assert transactions.settle(26) == 26
    assert transactions.last_stable_offset(25) == 25, (
        "it is forgotten: the high watermark does not go back"
    )


def test_readers_are_held_back_at_the_start_of_the_log_at_most_and_below_the_high_watermark() -> (
    None
):
    transactions = UnstableTransactions()
    transactions.begin(1, 10)
    transactions.start_at(15)
    assert (transactions.last_stable_offset(30), transactions.last_stable_offset(12)) == (15, 12)


def test_a_log_that_is_read_again_begins_without_transactions() -> None:
    transactions = UnstableTransactions()
    transactions.begin(1, 10)
    transactions.end(1, 25)
    transactions.begin(2, 20)
    transactions.clear()
    assert (transactions.last_stable_offset(25), transactions.first_open_offset) == (25, None)
