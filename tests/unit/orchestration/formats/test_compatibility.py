"""The verdict on the newest version of a subject."""

import json
from typing import Any

import pytest
from pyspark.sql import types

from log_service.client.schemas.values import AVRO, JSON
from orchestration.formats.compatibility import decide_compatibility
from orchestration.formats.registry import SubjectVersion
from orchestration.formats.resolving import DeclaredColumns
from orchestration.values.ddl import parse_ddl


def avro(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


def of(properties: Any, *required: str) -> str:
    return json.dumps({"type": "object", "properties": properties, "required": required})


def version(number: int, content: str, language: str = AVRO) -> SubjectVersion:
    return SubjectVersion(
        subject="orders-value", version=number, id=number * 10, language=language, content=content
    )


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}
INTEGER, TEXT = {"type": "integer"}, {"type": "string"}


def judged(declared: SubjectVersion, newest: SubjectVersion) -> Any:
    return decide_compatibility(DeclaredColumns(version=declared), newest)


def test_a_version_that_is_declared_needs_nothing() -> None:
    verdict = judged(version(1, avro(ID)), version(1, avro(ID)))
    assert verdict.is_compatible
    assert verdict.text == "version 1 of orders-value (schema id 10) is the newest, and is declared"


def test_a_new_field_is_named() -> None:
    """The table gets it when the project is loaded anew."""
    verdict = judged(version(1, avro(ID)), version(2, avro(ID, NOTE)))
    assert verdict.is_compatible
    assert verdict.new_fields == ("note",)
    assert verdict.text == (
        "version 2 of orders-value (schema id 20) can be read as version 1 of orders-value"
        " (schema id 10), which lacks the field note"
    )


@pytest.mark.parametrize(
    ("newest", "language", "fault"),
    [
        (
            avro({"name": "id", "type": "string"}),
            AVRO,
            "field id is string, and not long as declared",
        ),
        (avro(NOTE), AVRO, "it has no field id, and the declared field has no default"),
        (of({"id": INTEGER}), JSON, "it is JSON, and not AVRO"),
        ("{", AVRO, "it is not JSON: "),
    ],
)
def test_a_version_that_cannot_be_read_is_told_with_both_versions(
    newest: str, language: str, fault: str
) -> None:
    verdict = judged(version(1, avro(ID)), version(2, newest, language))
    assert not verdict.is_compatible
    assert verdict.text.startswith(
        "version 2 of orders-value (schema id 20) cannot be read as version 1 of orders-value"
        f" (schema id 10): {fault}"
    )


@pytest.mark.parametrize(
    ("newest", "fault"),
    [
        (of({"id": INTEGER, "at": TEXT, "new": TEXT}, "id"), ""),
        (of({"id": INTEGER}, "id"), ""),
        (of({"id": INTEGER}), "property id may be missing or null, and is NOT NULL as declared"),
        (of({"at": TEXT}), "it has no property id, which is NOT NULL as declared"),
        (of({"id": TEXT}, "id"), "property id is string, and not bigint as declared"),
        (
            of({"id": INTEGER, "place": {"type": "object", "properties": {"lat": TEXT}}}, "id"),
            "property place.lat is string, and not double as declared",
        ),
        (
            of({"id": INTEGER, "tags": {"type": "array", "items": INTEGER}}, "id"),
            "property tags[] is bigint, and not string as declared",
        ),
    ],
)
def test_json_is_judged_by_the_types_of_its_properties(newest: str, fault: str) -> None:
    """As columns that a project declares in DDL."""
    ddl = "id BIGINT NOT NULL, at TIMESTAMP, place STRUCT<lat: DOUBLE>, tags ARRAY<STRING>"
    declared = version(0, parse_ddl(ddl).json(), JSON)
    assert isinstance(parse_ddl(ddl), types.StructType)
    verdict = judged(declared, version(2, newest, JSON))
    assert verdict.fault == fault
    assert "the declared columns of orders-value" in verdict.text
