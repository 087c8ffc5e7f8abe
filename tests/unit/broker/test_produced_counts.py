"""Records are counted by client and topic, in bounded memory."""

from log_service.broker.produced_counts import MAX_CLIENT_ID_CHARACTERS, MAX_PAIRS, ProducedCounts


def test_records_of_a_pair_add_up() -> None:
    counts = ProducedCounts()
    counts.add("shop", "orders", 2)
    counts.add("shop", "orders", 3)
    counts.add(None, "orders", 1)
    counts.add("", "orders", 1)
    assert list(counts) == [("shop", "orders", 5), ("", "orders", 2)]


def test_the_number_of_pairs_and_the_length_of_ids_are_bounded() -> None:
    counts, long_id = ProducedCounts(), "x" * 30_000
    for number in range(2 * MAX_PAIRS):
        counts.add(f"client {number}", "orders", 1)
    assert len(list(counts)) == MAX_PAIRS
    for _ in range(3):
        counts.add(long_id, "orders", 1)
    assert list(counts)[-1] == (long_id[:MAX_CLIENT_ID_CHARACTERS], "orders", 3)
    assert len(list(counts)) == MAX_PAIRS
