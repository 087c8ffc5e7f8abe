"""Memories with bounds, and names in order."""

from hypothesis import given
from hypothesis import strategies as st

from log_service.http.schema_registry.parsing import MAX_PARSED_CHARACTERS, SchemaParser
from log_service.http.schema_registry.remembered import Remembered
from log_service.http.schema_registry.sorted_names import SortedNames
from log_service.http.schema_registry.state import RegistryState
from log_service.http.schema_registry.values import SchemaContent


def test_what_was_not_asked_for_longest_is_forgotten() -> None:
    """The number of results is bounded, and so is their weight."""
    by_count = Remembered[str, int](2)
    for name in ("a", "b"):
        by_count.put(name, 1)
    assert by_count.get("a") == 1
    by_count.put("c", 1)
    assert [by_count.get(name) for name in ("a", "b", "c")] == [1, None, 1]
    by_weight = Remembered[str, int](10, 100)
    for name, weight in (("a", 50), ("b", 50), ("a", 60)):
        by_weight.put(name, weight, weight)
    assert [by_weight.get(name) for name in ("a", "b")] == [60, None]
    by_weight.put("huge", 1, 101)
    assert (len(by_weight), by_weight.weight) == (0, 0)


def test_parsed_schemas_are_remembered_up_to_a_length_of_their_texts() -> None:
    """A parsed schema takes many times the memory of its text."""
    parser = SchemaParser(RegistryState)
    text = '{"type":"string","doc":"%s"}'
    count = 3 * MAX_PARSED_CHARACTERS // 500_000
    parsed = [
        parser.parse(SchemaContent(text=text % (f"{number}" * 500_000)[:500_000]), "a", is_new=True)
        for number in range(count)
    ]
    again = [
        parser.parse(SchemaContent(text=text % (f"{number}" * 500_000)[:500_000]), "a", is_new=True)
        for number in range(count)
    ]
    assert not any(one is other for one, other in zip(parsed, again, strict=True))
    last = SchemaContent(text=text % (f"{count - 1}" * 500_000)[:500_000])
    assert parser.parse(last, "a", is_new=True) is again[-1]


NAMES = st.text(st.sampled_from("ab:.\U0010ffff"), max_size=4)


@given(st.lists(st.tuples(st.booleans(), NAMES)), NAMES)
def test_names_are_in_order_and_found_by_their_beginning(
    changes: list[tuple[bool, str]], prefix: str
) -> None:
    """As a set and a sort would do."""
    names, expected = SortedNames(), set[str]()
    for is_added, name in changes:
        (names.add if is_added else names.discard)(name)
        (expected.add if is_added else expected.discard)(name)
    assert list(names) == sorted(expected)
    assert len(names) == len(expected)
    assert names.beginning_with(prefix) == sorted(
        name for name in expected if name.startswith(prefix)
    )
    assert (prefix in names) == (prefix in expected)
