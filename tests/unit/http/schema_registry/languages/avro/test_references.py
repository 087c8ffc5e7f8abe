"""Types of other texts: what a text may refer to, and what it leaves out."""

from typing import Any

import pytest

from log_service.http.schema_registry.languages.language import InvalidSchemaError
from tests.unit.http.schema_registry.languages.avro.schemas import enum, field, parsed, record, text

STATE = enum("a.State", "NEW", "PAID")
LINE = record(
    "a.Line", field("state", "State"), field("money", record("Money", field("amount", "long")))
)
ORDER = record(
    "a.Order", field("lines", {"type": "array", "items": "Line"}), field("state", "a.State")
)


def test_types_of_references_are_left_out() -> None:
    """Their texts are stored elsewhere."""
    order = parsed(ORDER, STATE, LINE)
    assert (
        order.canonical
        == order.normalized()
        == (
            '{"type":"record","name":"Order","namespace":"a","fields":[{"name":"lines","type":{"type":"array","items":"Line"}},'
            '{"name":"state","type":"State"}]}'
        )
    )


def test_resolved_writes_them_out() -> None:
    """A reader without the registry needs one text."""
    assert parsed(ORDER, STATE, LINE).formatted("RESOLVED") == (
        '{"type":"record","name":"Order","namespace":"a","fields":[{"name":"lines","type":{"type":"array","items":'
        '{"type":"record","name":"Line","fields":[{"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","PAID"]}},'
        '{"name":"money","type":{"type":"record","name":"Money","fields":[{"name":"amount","type":"long"}]}}]}}},'
        '{"name":"state","type":"State"}]}'
    )


def test_a_type_inside_a_reference_is_written_out() -> None:
    """Java's library leaves out only what a reference stands for, and reads the rest again."""
    canonical = parsed('"a.Money"', STATE, LINE).canonical
    assert (
        canonical
        == '{"type":"record","name":"Money","namespace":"a","fields":[{"name":"amount","type":"long"}]}'
    )
    assert parsed(canonical, STATE, LINE).canonical == canonical


def test_a_normal_form_leaves_out_what_it_cannot_define_again() -> None:
    """A definition with another default than that of the reference is refused by Java's library."""
    reference = record("a.Line", field("x", record("Money", field("amount", "double", default=1))))
    schema = parsed(record("R", field("m", "a.Money")), reference)
    assert '"default":1}' in schema.canonical
    assert (
        schema.normalized()
        == '{"type":"record","name":"R","fields":[{"name":"m","type":"a.Money"}]}'
    )
    assert parsed(schema.normalized(), reference).normalized() == schema.normalized()


def test_a_reference_may_be_the_schema() -> None:
    """The text is a name then."""
    schema = parsed('"a.State"', STATE)
    assert (schema.canonical, schema.formatted("resolved")) == (
        '"a.State"',
        '{"type":"enum","name":"State","namespace":"a","symbols":["NEW","PAID"]}',
    )


def test_the_definition_of_the_reference_counts() -> None:
    """A second definition that says the same is taken, and its documentation is not."""
    again = parsed(STATE | {"doc": "again"}, STATE)
    assert again.formatted("resolved") == parsed(STATE).canonical


def test_a_name_without_a_namespace_is_found_from_inside_one() -> None:
    """The name in the namespace comes first."""
    plain = enum("State", "X")
    assert parsed(ORDER, STATE, plain, LINE).differences(parsed(ORDER, STATE, LINE)) == []
    assert parsed(record("b.R", field("s", "State")), STATE, plain).canonical.endswith(
        '[{"name":"s","type":"State"}]}'
    )


REFUSED: dict[str, tuple[Any, list[Any], str]] = {
    "a reference in the wrong order": (
        ORDER,
        [LINE, STATE],
        "in the reference r0: /fields/0/type: no type has the name a.State",
    ),
    "a reference that is missing": (
        ORDER,
        [LINE | {"fields": []}],
        "/fields/1/type: no type has the name a.State",
    ),
    "a reference that is no schema": (
        '"int"',
        ["{"],
        "in the reference r0: the text is not JSON: line 1, column 2",
    ),
    "another definition": (
        record("R", field("s", enum("a.State", "NEW"))),
        [STATE],
        "/fields/0/type: a.State is defined twice",
    ),
    "two references of a name": (
        '"int"',
        [STATE, enum("a.State", "NEW")],
        "in the reference r1: /: a.State is defined twice",
    ),
}


@pytest.mark.parametrize(("schema", "dependencies", "message"), REFUSED.values(), ids=REFUSED)
def test_wrong_references_are_refused(schema: Any, dependencies: list[Any], message: str) -> None:
    """The message names the reference, and the place in it."""
    with pytest.raises(InvalidSchemaError) as refused:
        parsed(schema, *dependencies)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("kind", ["union", "array", "map"])
def test_a_reference_without_a_name_hides_no_type(kind: str) -> None:
    """A record may be called as a kind of types is."""
    reference = {
        "union": "[]",
        "array": '{"type":"array","items":"int"}',
        "map": '{"type":"map","values":"int"}',
    }[kind]
    assert parsed(record(kind), reference).canonical == text(record(kind))


def test_a_reference_may_be_any_type() -> None:
    """A union of events refers to each of them."""
    union = text(["a.Order", "a.Line"])
    assert parsed(union, STATE, LINE, ORDER).canonical == union
    assert parsed("[]", "[]", '{"type":"map","values":"int"}').canonical == "[]"
