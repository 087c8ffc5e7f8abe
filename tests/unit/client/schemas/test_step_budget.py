"""A small value and a small schema may ask for very many steps. They have a bound."""

import json
from typing import Any

import pytest

from log_service.client.schemas import step_budget
from log_service.client.schemas.errors import SerializationError
from log_service.client.schemas.json_codecs import ENCODERS
from log_service.client.schemas.serializing import ResolvedSchema
from log_service.client.schemas.values import AVRO, JSON, Schema

LEVELS = 60


def references() -> dict[str, Any]:
    """Return a schema whose levels refer to the next one twice."""
    levels = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(LEVELS)}
    return {"$defs": {**levels, f"a{LEVELS}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


def defaults(level: int) -> dict[str, Any]:
    """Return a record whose two fields have the record below as their default."""
    if not level:
        fields: list[dict[str, Any]] = [{"name": "z", "type": "int", "default": 1}]
    else:
        fields = [
            {"name": "x", "type": defaults(level - 1), "default": {}},
            {"name": "y", "type": f"A{level - 1}", "default": {}},
        ]
    return {"type": "record", "name": f"A{level}", "fields": fields}


def unions() -> dict[str, Any]:
    """Return a record that stands in a union with another one which looks alike."""
    other = {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["int", "A", "B"]}]}
    return {"type": "record", "name": "A", "fields": [{"name": "n", "type": ["int", "A", other]}]}


def nested(value: Any, level: int) -> Any:
    return nested({"n": value}, level - 1) if level else value


@pytest.mark.parametrize(
    ("kind", "schema", "value", "why"),
    [
        (JSON, references(), 1, "more than"),
        (AVRO, defaults(LEVELS), {}, "more than"),
        (AVRO, unions(), nested("bad", LEVELS), "more than|is expected"),
    ],
    ids=["references", "defaults", "unions"],
)
def test_steps_for_a_value_are_bounded(
    monkeypatch: pytest.MonkeyPatch, kind: str, schema: Any, value: Any, why: str
) -> None:
    """One record of two bytes held the REST proxy for ever."""
    monkeypatch.setattr(step_budget, "MAX_STEPS", 2_000)
    found = ResolvedSchema(schema=Schema(text=json.dumps(schema), schema_type=kind), texts={})
    encode = ENCODERS[kind](found)
    for _ in range(2):
        with pytest.raises(SerializationError, match=why) as refused:
            encode(value)
        assert len(str(refused.value)) < 10_000


def test_a_few_defaults_are_filled_in() -> None:
    text = json.dumps(defaults(3))
    encode = ENCODERS[AVRO](ResolvedSchema(schema=Schema(text=text, schema_type=AVRO), texts={}))
    assert encode({}) == b"\x02" * 8


def test_a_large_value_may_take_as_many_steps_as_it_has_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step_budget, "MAX_STEPS", 10)
    schema = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}
    found = ResolvedSchema(schema=Schema(text=json.dumps(schema), schema_type=JSON), texts={})
    assert ENCODERS[JSON](found)([1] * 1_000) == b"[" + b"1," * 999 + b"1]"
