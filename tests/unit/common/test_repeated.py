"""Values that stand more than once."""

from log_service.common.repeated import repeated


def test_nothing_is_repeated_where_each_value_stands_once() -> None:
    assert not repeated(["b", "a", "c"])


def test_repeated_values_come_once_each_in_the_order_of_their_first_place() -> None:
    assert list(repeated(["b", "a", "b", "c", "a", "b"])) == ["b", "a"]
