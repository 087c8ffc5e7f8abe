"""Each kind of change: where it is found, and whether a reader takes it.

A row has a writer's schema, a reader's schema, and all changes in between. Verdicts are those of
Confluent's registry 8.3.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from log_service.http.schema_registry.languages.json_schema.changes import (
    COMPATIBLE,
    LENIENTLY_COMPATIBLE,
    Change,
    Policy,
)
from tests.unit.http.schema_registry.languages.json_schema.builders import changes, is_compatible

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
NUMBER: dict[str, Any] = {"type": "number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    writer: Any
    reader: Any
    expected: tuple[str, ...]
    draft: int | None = None

    def __str__(self) -> str:
        return self.expected[-1].partition(" ")[0] if self.expected else "nothing"


def row(writer: Any, reader: Any, *expected: str, draft: int | None = None) -> Row:
    return Row(writer=writer, reader=reader, expected=expected, draft=draft)


def limits(keyword: str, name: str, beside: dict[str, Any], draft: int | None = None) -> list[Row]:
    """Rows of a limit that comes, goes, grows and shrinks."""
    without, low, high = beside, beside | {keyword: 2}, beside | {keyword: 3}
    return [
        row(without, low, f"{name}_ADDED #/{keyword}", draft=draft),
        row(low, without, f"{name}_REMOVED #/{keyword}", draft=draft),
        row(low, high, f"{name}_INCREASED #/{keyword}", draft=draft),
        row(high, low, f"{name}_DECREASED #/{keyword}", draft=draft),
        row(low, low, draft=draft),
    ]


def properties(found: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"type": "object", "properties": found, **others}


def items(found: list[Any], **others: Any) -> dict[str, Any]:
    return {"type": "array", "items": found, **others}


OPEN, CLOSED = properties({}), properties({}, additionalProperties=False)
PARTLY = properties({}, additionalProperties=TEXT)

ROWS = [
    # Words
    row({"$id": "a"}, {"$id": "b"}, "ID_CHANGED #/"),
    row({"id": "a"}, {"id": "b"}, "ID_CHANGED #/", draft=4),
    row(TEXT | {"title": "a"}, TEXT, "TITLE_CHANGED #/"),
    row(TEXT, TEXT | {"description": "a"}, "DESCRIPTION_CHANGED #/"),
    row(TEXT, TEXT | {"default": None}, "DEFAULT_CHANGED #/"),
    row(TEXT | {"default": 1}, TEXT | {"default": 1.0}),
    # Types
    row(TEXT, WHOLE, "TYPE_CHANGED #/"),
    row(WHOLE, NUMBER, "TYPE_EXTENDED #/"),
    row(NUMBER, WHOLE, "TYPE_NARROWED #/"),
    row(TEXT, {}),
    row(TEXT, True),
    row({}, True),
    row(False, TEXT),
    row({}, TEXT, "TYPE_CHANGED #/"),
    row(True, False, "TYPE_CHANGED #/"),
    row(TEXT | {"connect.type": "bytes"}, NUMBER | {"connect.type": "bytes"}),
    row(TEXT | {"connect.type": "bytes"}, NUMBER | {"connect.type": "int8"}, "TYPE_CHANGED #/"),
    # Strings and numbers
    *limits("maxLength", "MAX_LENGTH", TEXT),
    *limits("minLength", "MIN_LENGTH", TEXT),
    row(TEXT, TEXT | {"pattern": "a"}, "PATTERN_ADDED #/pattern"),
    row(TEXT | {"pattern": "a"}, TEXT, "PATTERN_REMOVED #/pattern"),
    row(TEXT | {"pattern": "a"}, TEXT | {"pattern": "b"}, "PATTERN_CHANGED #/pattern"),
    *limits("maximum", "MAXIMUM", NUMBER),
    *limits("minimum", "MINIMUM", NUMBER),
    *limits("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", NUMBER),
    *limits("exclusiveMinimum", "EXCLUSIVE_MINIMUM", NUMBER),
    row(
        NUMBER | {"maximum": 2**53}, NUMBER | {"maximum": 2**53 + 1}, "MAXIMUM_INCREASED #/maximum"
    ),
    row(NUMBER | {"maximum": 1}, NUMBER | {"maximum": 1.0}),
    row(NUMBER | {"maximum": 9}, NUMBER | {"maximum": 9, "exclusiveMaximum": True}, draft=4),
    row(NUMBER, NUMBER | {"multipleOf": 2}, "MULTIPLE_OF_ADDED #/multipleOf"),
    row(NUMBER | {"multipleOf": 2}, NUMBER, "MULTIPLE_OF_REMOVED #/multipleOf"),
    row(
        NUMBER | {"multipleOf": 2}, NUMBER | {"multipleOf": 4}, "MULTIPLE_OF_EXPANDED #/multipleOf"
    ),
    row(NUMBER | {"multipleOf": 4}, NUMBER | {"multipleOf": 2}, "MULTIPLE_OF_REDUCED #/multipleOf"),
    row(
        NUMBER | {"multipleOf": 0.5},
        NUMBER | {"multipleOf": 0.1},
        "MULTIPLE_OF_REDUCED #/multipleOf",
    ),
    row(
        NUMBER | {"multipleOf": 6.9},
        NUMBER | {"multipleOf": 3.1},
        "MULTIPLE_OF_CHANGED #/multipleOf",
    ),
    # Values
    row({"enum": [1, "a"]}, {"enum": ["a", 1, None]}, "ENUM_ARRAY_EXTENDED #/enum"),
    row({"enum": [1, "a"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED #/enum"),
    row({"enum": [1]}, {"enum": [True]}, "ENUM_ARRAY_CHANGED #/enum"),
    row({"enum": [1, {"a": [2]}]}, {"enum": [{"a": [2.0]}, 1.0]}),
    row({"const": 1}, {"const": 2}, "ENUM_ARRAY_CHANGED #/const"),
    row({"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}),
    row({"const": 1}, {"enum": [1, 2]}, "TYPE_CHANGED #/"),
    # Objects
    *limits("maxProperties", "MAX_PROPERTIES", {"type": "object"}),
    *limits("minProperties", "MIN_PROPERTIES", {"type": "object"}),
    row(
        properties({"a": TEXT}),
        properties({"a": TEXT}, required=["a"]),
        "REQUIRED_ATTRIBUTE_ADDED #/required/a",
    ),
    row(
        properties({"a": TEXT | {"default": ""}}),
        properties({"a": TEXT | {"default": ""}}, required=["a"]),
        "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/a",
    ),
    row(
        properties({"a": TEXT}, required=["a"]),
        properties({"a": TEXT}),
        "REQUIRED_ATTRIBUTE_REMOVED #/required/a",
    ),
    row(CLOSED, OPEN, "ADDITIONAL_PROPERTIES_ADDED #/additionalProperties"),
    row(OPEN, CLOSED, "ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"),
    row(PARTLY, OPEN, "ADDITIONAL_PROPERTIES_EXTENDED #/additionalProperties"),
    row(OPEN, PARTLY, "ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"),
    row(PARTLY, properties({}, additionalProperties=WHOLE), "TYPE_CHANGED #/additionalProperties"),
    row(
        {"dependencies": {}},
        {"dependencies": {"a": ["b"]}},
        "DEPENDENCY_ARRAY_ADDED #/dependencies/a",
    ),
    row(
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {}},
        "DEPENDENCY_ARRAY_REMOVED #/dependencies/a",
    ),
    row(
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["c", "b"]}},
        "DEPENDENCY_ARRAY_EXTENDED #/dependencies/a",
    ),
    row(
        {"dependencies": {"a": ["b", "c"]}},
        {"dependencies": {"a": ["c"]}},
        "DEPENDENCY_ARRAY_NARROWED #/dependencies/a",
    ),
    row(
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["c"]}},
        "DEPENDENCY_ARRAY_CHANGED #/dependencies/a",
    ),
    row(
        {"dependencies": {}},
        {"dependencies": {"a": TEXT}},
        "DEPENDENCY_SCHEMA_ADDED #/dependencies/a",
    ),
    row(
        {"dependencies": {"a": TEXT}},
        {"dependencies": {}},
        "DEPENDENCY_SCHEMA_REMOVED #/dependencies/a",
    ),
    row(
        {"dependencies": {"a": TEXT}},
        {"dependencies": {"a": WHOLE}},
        "TYPE_CHANGED #/dependencies/a",
    ),
    row(
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": TEXT}},
        {"dependentRequired": {"a": []}, "dependentSchemas": {"c": WHOLE}},
        "DEPENDENCY_ARRAY_NARROWED #/dependencies/a",
        "TYPE_CHANGED #/dependencies/c",
        draft=2020,
    ),
    # Properties that only one side names
    row(
        OPEN,
        properties({"a": TEXT}),
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        OPEN,
        properties({"a": TEXT}, required=["a"]),
        "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        OPEN,
        properties({"a": TEXT | {"default": ""}}, required=["a"]),
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        OPEN,
        properties({"a": {"title": "t"}}),
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        OPEN,
        properties({"a": True}),
        "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        CLOSED,
        properties({"a": TEXT}, additionalProperties=False),
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        CLOSED,
        properties({"a": TEXT}, additionalProperties=False, required=["a"]),
        "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        CLOSED,
        properties({"a": TEXT | {"default": ""}}, additionalProperties=False, required=["a"]),
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
    ),
    row(properties({"a": TEXT}), OPEN, "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"),
    row(
        properties({"a": TEXT}, additionalProperties=False),
        CLOSED,
        "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a",
    ),
    row(
        properties({"a": False}, additionalProperties=False),
        CLOSED,
        "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a",
    ),
    row(
        PARTLY,
        properties({"a": TEXT | {"title": "t"}}, additionalProperties=TEXT),
        "TITLE_CHANGED #/properties/a",
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        PARTLY,
        properties({"a": WHOLE}, additionalProperties=TEXT),
        "TYPE_CHANGED #/properties/a",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        properties({"a": TEXT}, additionalProperties=TEXT),
        PARTLY,
        "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        properties({"a": WHOLE}, additionalProperties=TEXT),
        PARTLY,
        "TYPE_CHANGED #/properties/a",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
    ),
    row(
        {"patternProperties": {"^b": WHOLE, "^a": TEXT}, "additionalProperties": False},
        {
            "properties": {"ab": TEXT},
            "patternProperties": {"^a": TEXT},
            "additionalProperties": False,
        },
        "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/ab",
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/ab",
    ),
    # Unevaluated properties and items
    row({}, {"unevaluatedProperties": False}, "TYPE_CHANGED #/", draft=2020),
    row(
        {"type": "object"},
        {"type": "object", "unevaluatedProperties": False},
        "UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties",
        draft=2020,
    ),
    row(
        {"type": "object", "unevaluatedProperties": False},
        {"type": "object", "unevaluatedProperties": TEXT},
        "UNEVALUATED_PROPERTIES_ADDED #/unevaluatedProperties",
        draft=2019,
    ),
    row(
        {"type": "object", "unevaluatedProperties": TEXT},
        {"type": "object", "unevaluatedProperties": True},
        "UNEVALUATED_PROPERTIES_EXTENDED #/unevaluatedProperties",
        draft=2020,
    ),
    row(
        {"type": "object"},
        {"type": "object", "unevaluatedProperties": TEXT},
        "UNEVALUATED_PROPERTIES_NARROWED #/unevaluatedProperties",
        draft=2020,
    ),
    row(
        {"type": "object", "unevaluatedProperties": TEXT},
        {"type": "object", "unevaluatedProperties": WHOLE},
        "TYPE_CHANGED #/unevaluatedProperties",
        draft=2020,
    ),
    row(
        {"type": "object", "unevaluatedProperties": False},
        {"type": "object", "properties": {"a": TEXT}, "unevaluatedProperties": False},
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
        draft=2020,
    ),
    row(
        {"type": "array"},
        {"type": "array", "unevaluatedItems": False},
        "UNEVALUATED_ITEMS_REMOVED #/unevaluatedItems",
        draft=2020,
    ),
    row(
        {"type": "array", "unevaluatedItems": False},
        {"type": "array"},
        "UNEVALUATED_ITEMS_ADDED #/unevaluatedItems",
        draft=2020,
    ),
    row(
        {"type": "array", "unevaluatedItems": TEXT},
        {"type": "array"},
        "UNEVALUATED_ITEMS_EXTENDED #/unevaluatedItems",
        draft=2020,
    ),
    row(
        {"type": "array", "unevaluatedItems": {}},
        {"type": "array", "unevaluatedItems": TEXT},
        "UNEVALUATED_ITEMS_NARROWED #/unevaluatedItems",
        draft=2020,
    ),
    # Arrays
    *limits("maxItems", "MAX_ITEMS", {"type": "array"}),
    *limits("minItems", "MIN_ITEMS", {"type": "array"}),
    *limits("maxContains", "MAX_CONTAINS", {"type": "array", "contains": TEXT}, draft=2020),
    row(
        {"type": "array"},
        {"type": "array", "contains": TEXT},
        "MIN_CONTAINS_ADDED #/minContains",
        draft=2020,
    ),
    row(
        {"type": "array", "contains": TEXT},
        {"type": "array"},
        "MIN_CONTAINS_REMOVED #/minContains",
        draft=2020,
    ),
    row(
        {"type": "array", "contains": TEXT},
        {"type": "array", "contains": TEXT, "minContains": 2},
        "MIN_CONTAINS_INCREASED #/minContains",
        draft=2019,
    ),
    row(
        {"type": "array", "contains": TEXT},
        {"type": "array", "contains": TEXT, "minContains": 0},
        "MIN_CONTAINS_DECREASED #/minContains",
        draft=2020,
    ),
    row({"type": "array", "contains": TEXT}, {"type": "array", "contains": WHOLE}),
    row(
        {"type": "array"},
        {"type": "array", "uniqueItems": True},
        "UNIQUE_ITEMS_ADDED #/uniqueItems",
    ),
    row(
        {"type": "array", "uniqueItems": True},
        {"type": "array"},
        "UNIQUE_ITEMS_REMOVED #/uniqueItems",
    ),
    row({"type": "array"}, {"type": "array", "items": TEXT}, "SCHEMA_ADDED #/items"),
    row({"type": "array", "items": TEXT}, {"type": "array"}, "SCHEMA_REMOVED #/items"),
    row(
        items([TEXT], additionalItems=False),
        items([TEXT]),
        "ADDITIONAL_ITEMS_ADDED #/additionalItems",
    ),
    row(
        items([TEXT]),
        items([TEXT], additionalItems=False),
        "ADDITIONAL_ITEMS_REMOVED #/additionalItems",
    ),
    row(
        items([TEXT], additionalItems=TEXT),
        items([TEXT]),
        "ADDITIONAL_ITEMS_EXTENDED #/additionalItems",
    ),
    row(
        items([TEXT]),
        items([TEXT], additionalItems=TEXT),
        "ADDITIONAL_ITEMS_NARROWED #/additionalItems",
    ),
    row(
        items([TEXT], additionalItems=TEXT),
        items([TEXT], additionalItems=WHOLE),
        "TYPE_CHANGED #/additionalItems",
    ),
    row(items([TEXT]), items([WHOLE]), "TYPE_CHANGED #/items/0"),
    row(items([TEXT]), items([TEXT, WHOLE]), "ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"),
    row(
        items([TEXT]),
        items([TEXT, {}]),
        "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/items/1",
    ),
    row(items([TEXT, WHOLE]), items([TEXT]), "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"),
    row(
        items([TEXT], additionalItems=False),
        items([TEXT, WHOLE], additionalItems=False),
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1",
    ),
    row(
        items([TEXT, WHOLE], additionalItems=False),
        items([TEXT], additionalItems=False),
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1",
    ),
    row(
        items([TEXT, False], additionalItems=False),
        items([TEXT], additionalItems=False),
        "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1",
    ),
    row(
        items([TEXT], additionalItems=TEXT),
        items([TEXT, TEXT], additionalItems=TEXT),
        "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
    ),
    row(
        items([TEXT], additionalItems=TEXT),
        items([TEXT, WHOLE], additionalItems=TEXT),
        "TYPE_CHANGED #/items/1",
        "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
    ),
    row(
        items([TEXT, TEXT], additionalItems=TEXT),
        items([TEXT], additionalItems=TEXT),
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
    ),
    row(
        items([TEXT, WHOLE], additionalItems=TEXT),
        items([TEXT], additionalItems=TEXT),
        "TYPE_CHANGED #/items/1",
        "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
    ),
    row(
        {"prefixItems": [TEXT, WHOLE], "items": False},
        {"prefixItems": [TEXT], "items": NUMBER},
        "TYPE_EXTENDED #/items/1",
        "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1",
        "ADDITIONAL_ITEMS_ADDED #/additionalItems",
        draft=2020,
    ),
    row(
        {"items": True}, {"items": False}, "ADDITIONAL_ITEMS_REMOVED #/additionalItems", draft=2020
    ),
    row({"items": TEXT}, {"items": TEXT, "additionalItems": False}),
    row({"items": TEXT, "additionalItems": False}, {"items": TEXT}, draft=2019),
    row({"items": TEXT}, {"items": WHOLE}, "TYPE_CHANGED #/items", draft=2020),
    row(items([TEXT]), items([WHOLE]), "TYPE_CHANGED #/items/0", draft=2019),
    # Combined schemas
    row({"allOf": [TEXT]}, {"anyOf": [TEXT]}, "COMBINED_TYPE_EXTENDED #/"),
    row({"oneOf": [TEXT, WHOLE]}, {"anyOf": [WHOLE, TEXT]}, "COMBINED_TYPE_EXTENDED #/"),
    row({"anyOf": [TEXT]}, {"allOf": [TEXT]}, "COMBINED_TYPE_EXTENDED #/"),
    row(
        {"allOf": [TEXT, {"maxLength": 3}]},
        {"oneOf": [TEXT]},
        "COMBINED_TYPE_EXTENDED #/",
        "PRODUCT_TYPE_NARROWED #/",
    ),
    row({"anyOf": [TEXT, WHOLE]}, {"oneOf": [TEXT, WHOLE]}, "COMBINED_TYPE_CHANGED #/"),
    row({"anyOf": [TEXT]}, {"allOf": [TEXT, WHOLE]}, "COMBINED_TYPE_CHANGED #/"),
    row({"allOf": [TEXT]}, {"allOf": [TEXT, {"enum": ["a"]}]}, "PRODUCT_TYPE_EXTENDED #/"),
    row({"allOf": [TEXT, {"enum": ["a"]}]}, {"allOf": [TEXT]}, "PRODUCT_TYPE_NARROWED #/"),
    row({"anyOf": [TEXT]}, {"anyOf": [WHOLE, TEXT]}, "SUM_TYPE_EXTENDED #/"),
    row({"oneOf": [WHOLE, TEXT]}, {"oneOf": [TEXT]}, "SUM_TYPE_NARROWED #/"),
    row(
        {"oneOf": [WHOLE, TEXT]},
        {"oneOf": [TEXT, {"type": "null"}]},
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/",
    ),
    row({"oneOf": [TEXT, TEXT]}, {"oneOf": [TEXT]}),
    row(
        {"oneOf": [WHOLE, TEXT]},
        {"oneOf": [TEXT | {"title": "t"}, NUMBER]},
        "TYPE_EXTENDED #/oneOf/0",
        "TITLE_CHANGED #/oneOf/1",
    ),
    row(
        TEXT | {"maxLength": 3},
        {"oneOf": [WHOLE, TEXT]},
        "MAX_LENGTH_REMOVED #/maxLength",
        "SUM_TYPE_EXTENDED #/",
    ),
    row(TEXT, {"allOf": [TEXT | {"title": "t"}]}, "TITLE_CHANGED #/"),
    row(TEXT, {"allOf": [TEXT, {"enum": ["a"]}]}, "TYPE_CHANGED #/"),
    row(TEXT, {"anyOf": [WHOLE, {"type": "null"}]}, "TYPE_CHANGED #/"),
    row({"anyOf": [TEXT]}, TEXT),
    row(
        {"allOf": [{"enum": ["a"]}, TEXT]},
        TEXT | {"title": "t"},
        "TITLE_CHANGED #/",
        "PRODUCT_TYPE_NARROWED #/",
    ),
    row({"anyOf": [TEXT, WHOLE]}, TEXT, "TYPE_CHANGED #/"),
    row(TEXT, {"type": ["null", "string"]}, "SUM_TYPE_EXTENDED #/"),
    row({"type": ["null", "string"]}, TEXT, "TYPE_CHANGED #/"),
    row(
        {"type": ["null", "string"], "maxLength": 2},
        {"type": ["string", "null"], "maxLength": 3},
        "MAX_LENGTH_INCREASED #/anyOf/1/maxLength",
    ),
    row(TEXT | {"enum": ["a"]}, TEXT, "PRODUCT_TYPE_NARROWED #/"),
    row(
        {"not": TEXT | {"maxLength": 5}},
        {"not": TEXT | {"maxLength": 4}},
        "NOT_TYPE_NARROWED #/not",
    ),
    row(
        {"not": TEXT | {"maxLength": 4}},
        {"not": TEXT | {"maxLength": 5}},
        "NOT_TYPE_EXTENDED #/not",
    ),
    # Keywords that are not compared
    row({"if": TEXT}, {"if": WHOLE, "then": False}),
    row({"propertyNames": {"maxLength": 3}}, {"propertyNames": {"maxLength": 2}}),
    row({"patternProperties": {"a": TEXT}}, {"patternProperties": {"a": WHOLE}}),
    row(TEXT | {"format": "date"}, TEXT | {"format": "time"}),
    row({"format": "date"}, {"format": "time"}, draft=2020),
    row({"properties": {}, "minProperties": 2}, {"properties": {}}, draft=2020),
]


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_a_change_is_found_at_its_path(case: Row) -> None:
    """All changes are listed in order, also those that do no harm."""
    assert changes(case.writer, case.reader, case.draft) == list(case.expected)


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_the_verdict_is_that_of_the_kinds(case: Row) -> None:
    """One incompatible kind is enough."""
    kinds = {Change[text.partition(" ")[0]] for text in case.expected}
    assert is_compatible(case.writer, case.reader, case.draft) == (kinds <= COMPATIBLE)
    assert is_compatible(case.writer, case.reader, case.draft, Policy.LENIENT) == (
        kinds <= LENIENTLY_COMPATIBLE
    )


def test_each_kind_has_a_row() -> None:
    """No kind is without a proof."""
    shown = {Change[text.partition(" ")[0]] for each in ROWS for text in each.expected}
    assert set(Change) - shown == set()


INCOMPATIBLE = """
SCHEMA_ADDED TYPE_NARROWED TYPE_CHANGED MAX_LENGTH_ADDED MAX_LENGTH_DECREASED MIN_LENGTH_ADDED MIN_LENGTH_INCREASED
PATTERN_ADDED PATTERN_CHANGED MAXIMUM_ADDED MAXIMUM_DECREASED MINIMUM_ADDED MINIMUM_INCREASED EXCLUSIVE_MAXIMUM_ADDED
EXCLUSIVE_MAXIMUM_DECREASED EXCLUSIVE_MINIMUM_ADDED EXCLUSIVE_MINIMUM_INCREASED MULTIPLE_OF_ADDED MULTIPLE_OF_EXPANDED
MULTIPLE_OF_CHANGED REQUIRED_ATTRIBUTE_ADDED MAX_PROPERTIES_ADDED MAX_PROPERTIES_DECREASED MIN_PROPERTIES_ADDED
MIN_PROPERTIES_INCREASED ADDITIONAL_PROPERTIES_REMOVED ADDITIONAL_PROPERTIES_NARROWED DEPENDENCY_ARRAY_ADDED
DEPENDENCY_ARRAY_EXTENDED DEPENDENCY_ARRAY_CHANGED DEPENDENCY_SCHEMA_ADDED REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL
REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL
REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL
PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
UNEVALUATED_PROPERTIES_REMOVED UNEVALUATED_PROPERTIES_NARROWED MAX_ITEMS_ADDED MAX_ITEMS_DECREASED MIN_ITEMS_ADDED
MIN_ITEMS_INCREASED MAX_CONTAINS_ADDED MAX_CONTAINS_DECREASED MIN_CONTAINS_ADDED MIN_CONTAINS_INCREASED UNIQUE_ITEMS_ADDED
ADDITIONAL_ITEMS_REMOVED ADDITIONAL_ITEMS_NARROWED UNEVALUATED_ITEMS_REMOVED UNEVALUATED_ITEMS_NARROWED
ITEM_ADDED_TO_OPEN_CONTENT_MODEL ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL
ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL ENUM_ARRAY_NARROWED ENUM_ARRAY_CHANGED COMBINED_TYPE_CHANGED
PRODUCT_TYPE_EXTENDED SUM_TYPE_NARROWED COMBINED_TYPE_SUBSCHEMAS_CHANGED NOT_TYPE_EXTENDED
"""


def test_the_incompatible_kinds_are_known() -> None:
    """The verdicts are listed here in full, because rules of names decide most of them."""
    assert {change.name for change in set(Change) - COMPATIBLE} == set(INCOMPATIBLE.split())


@pytest.mark.parametrize(
    ("writer", "reader", "is_taken"),
    [
        (OPEN, properties({"a": TEXT}), True),
        (OPEN, properties({"a": TEXT | {"default": ""}}, required=["a"]), True),
        (OPEN, properties({"a": TEXT}, required=["a"]), False),
        (properties({"a": TEXT}, additionalProperties=False), CLOSED, True),
        (OPEN, CLOSED, True),
        (PARTLY, properties({"a": WHOLE}, additionalProperties=TEXT), False),
        (properties({"a": TEXT}), properties({"a": WHOLE}), False),
        ({"allOf": [OPEN, TEXT]}, {"allOf": [properties({"a": TEXT}), TEXT]}, True),
    ],
)
def test_a_lenient_policy_reads_documents_as_their_schemas_declare_them(
    writer: Any, reader: Any, is_taken: bool
) -> None:
    """It holds inside of combined schemas, too. A property that changes its type stays a
    difference.
    """
    assert is_compatible(writer, reader, policy=Policy.LENIENT) == is_taken
