"""Counts have nouns and verbs that go with them."""

from log_service.common.counts import agreed, counted


def test_one_thing_is_told_in_the_singular() -> None:
    """Sentences had "1 records" and "1 rows"."""
    assert [counted(count, "row") for count in (0, 1, 2, 2_000)] == [
        "0 rows",
        "1 row",
        "2 rows",
        "2,000 rows",
    ]
    assert [agreed(count, "is", "are") for count in (0, 1, 2)] == ["are", "is", "are"]
