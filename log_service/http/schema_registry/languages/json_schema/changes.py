"""The kinds of change between two JSON schemas: which of them are compatible, and their messages.

Kinds, decisions and sentences are those of Confluent's registry 8.3, because clients match them.
"""

from enum import Enum, StrEnum, auto


class Policy(StrEnum):
    """How strict a comparison is.

    LENIENT accepts more changes of properties than STRICT. It assumes that each document has only
    the properties that its schema declares.
    """

    STRICT = "STRICT"
    LENIENT = "LENIENT"


class Change(Enum):
    """One kind of change from a writer's schema to a reader's. Responses contain its name."""

    ID_CHANGED = auto()
    DESCRIPTION_CHANGED = auto()
    TITLE_CHANGED = auto()
    DEFAULT_CHANGED = auto()
    SCHEMA_ADDED = auto()
    SCHEMA_REMOVED = auto()
    TYPE_EXTENDED = auto()
    TYPE_NARROWED = auto()
    TYPE_CHANGED = auto()

    MAX_LENGTH_ADDED = auto()
    MAX_LENGTH_REMOVED = auto()
    MAX_LENGTH_INCREASED = auto()
    MAX_LENGTH_DECREASED = auto()
    MIN_LENGTH_ADDED = auto()
    MIN_LENGTH_REMOVED = auto()
    MIN_LENGTH_INCREASED = auto()
    MIN_LENGTH_DECREASED = auto()
    PATTERN_ADDED = auto()
    PATTERN_REMOVED = auto()
    PATTERN_CHANGED = auto()

    MAXIMUM_ADDED = auto()
    MAXIMUM_REMOVED = auto()
    MAXIMUM_INCREASED = auto()
    MAXIMUM_DECREASED = auto()
    MINIMUM_ADDED = auto()
    MINIMUM_REMOVED = auto()
    MINIMUM_INCREASED = auto()
    MINIMUM_DECREASED = auto()
    EXCLUSIVE_MAXIMUM_ADDED = auto()
    EXCLUSIVE_MAXIMUM_REMOVED = auto()
    EXCLUSIVE_MAXIMUM_INCREASED = auto()
    EXCLUSIVE_MAXIMUM_DECREASED = auto()
    EXCLUSIVE_MINIMUM_ADDED = auto()
    EXCLUSIVE_MINIMUM_REMOVED = auto()
    EXCLUSIVE_MINIMUM_INCREASED = auto()
    EXCLUSIVE_MINIMUM_DECREASED = auto()
    MULTIPLE_OF_ADDED = auto()
    MULTIPLE_OF_REMOVED = auto()
    MULTIPLE_OF_EXPANDED = auto()
    MULTIPLE_OF_REDUCED = auto()
    MULTIPLE_OF_CHANGED = auto()

    REQUIRED_ATTRIBUTE_ADDED = auto()
    REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED = auto()
    REQUIRED_ATTRIBUTE_REMOVED = auto()
    MAX_PROPERTIES_ADDED = auto()
    MAX_PROPERTIES_REMOVED = auto()
    MAX_PROPERTIES_INCREASED = auto()
    MAX_PROPERTIES_DECREASED = auto()
    MIN_PROPERTIES_ADDED = auto()
    MIN_PROPERTIES_REMOVED = auto()
    MIN_PROPERTIES_INCREASED = auto()
    MIN_PROPERTIES_DECREASED = auto()
    ADDITIONAL_PROPERTIES_ADDED = auto()
    ADDITIONAL_PROPERTIES_REMOVED = auto()
    ADDITIONAL_PROPERTIES_EXTENDED = auto()
    ADDITIONAL_PROPERTIES_NARROWED = auto()
    DEPENDENCY_ARRAY_ADDED = auto()
    DEPENDENCY_ARRAY_REMOVED = auto()
    DEPENDENCY_ARRAY_EXTENDED = auto()
    DEPENDENCY_ARRAY_NARROWED = auto()
    DEPENDENCY_ARRAY_CHANGED = auto()
    DEPENDENCY_SCHEMA_ADDED = auto()
    DEPENDENCY_SCHEMA_REMOVED = auto()
    REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = auto()
    REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL = auto()
    OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL = auto()
    PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    UNEVALUATED_PROPERTIES_ADDED = auto()
    UNEVALUATED_PROPERTIES_REMOVED = auto()
    UNEVALUATED_PROPERTIES_EXTENDED = auto()
    UNEVALUATED_PROPERTIES_NARROWED = auto()

    MAX_ITEMS_ADDED = auto()
    MAX_ITEMS_REMOVED = auto()
    MAX_ITEMS_INCREASED = auto()
    MAX_ITEMS_DECREASED = auto()
    MIN_ITEMS_ADDED = auto()
    MIN_ITEMS_REMOVED = auto()
    MIN_ITEMS_INCREASED = auto()
    MIN_ITEMS_DECREASED = auto()
    MAX_CONTAINS_ADDED = auto()
    MAX_CONTAINS_REMOVED = auto()
    MAX_CONTAINS_INCREASED = auto()
    MAX_CONTAINS_DECREASED = auto()
    MIN_CONTAINS_ADDED = auto()
    MIN_CONTAINS_REMOVED = auto()
    MIN_CONTAINS_INCREASED = auto()
    MIN_CONTAINS_DECREASED = auto()
    UNIQUE_ITEMS_ADDED = auto()
    UNIQUE_ITEMS_REMOVED = auto()
    ADDITIONAL_ITEMS_ADDED = auto()
    ADDITIONAL_ITEMS_REMOVED = auto()
    ADDITIONAL_ITEMS_EXTENDED = auto()
    ADDITIONAL_ITEMS_NARROWED = auto()
    UNEVALUATED_ITEMS_ADDED = auto()
    UNEVALUATED_ITEMS_REMOVED = auto()
    UNEVALUATED_ITEMS_EXTENDED = auto()
    UNEVALUATED_ITEMS_NARROWED = auto()
    ITEM_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL = auto()
    ITEM_ADDED_TO_CLOSED_CONTENT_MODEL = auto()
    ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL = auto()
    ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL = auto()
    ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()
    ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL = auto()

    ENUM_ARRAY_EXTENDED = auto()
    ENUM_ARRAY_NARROWED = auto()
    ENUM_ARRAY_CHANGED = auto()

    COMBINED_TYPE_EXTENDED = auto()
    COMBINED_TYPE_CHANGED = auto()
    PRODUCT_TYPE_EXTENDED = auto()
    PRODUCT_TYPE_NARROWED = auto()
    SUM_TYPE_EXTENDED = auto()
    SUM_TYPE_NARROWED = auto()
    COMBINED_TYPE_SUBSCHEMAS_CHANGED = auto()
    NOT_TYPE_EXTENDED = auto()
    NOT_TYPE_NARROWED = auto()


_C = Change

_UPPER, _LOWER = ("MAX", "EXCLUSIVE_MAX"), ("MIN", "EXCLUSIVE_MIN")
_REST = ("ADDITIONAL_", "UNEVALUATED_")


def _named(beginnings: tuple[str, ...], *ends: str) -> frozenset[Change]:
    """Return the changes whose names have one of ``beginnings`` and one of ``ends``."""
    begun = (change for change in Change if change.name.startswith(beginnings))
    return frozenset(change for change in begun if change.name.endswith(ends))


COMPATIBLE = frozenset(
    {
        *_named(_UPPER, "_INCREASED", "_REMOVED"),
        *_named(_LOWER, "_DECREASED", "_REMOVED"),
        *_named(_REST, "_ADDED", "_EXTENDED"),
        _C.ID_CHANGED,
        _C.DESCRIPTION_CHANGED,
        _C.TITLE_CHANGED,
        _C.DEFAULT_CHANGED,
        _C.SCHEMA_REMOVED,
        _C.TYPE_EXTENDED,
        _C.PATTERN_REMOVED,
        _C.MULTIPLE_OF_REDUCED,
        _C.MULTIPLE_OF_REMOVED,
        _C.REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED,
        _C.REQUIRED_ATTRIBUTE_REMOVED,
        _C.DEPENDENCY_ARRAY_NARROWED,
        _C.DEPENDENCY_ARRAY_REMOVED,
        _C.DEPENDENCY_SCHEMA_REMOVED,
        _C.PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL,
        _C.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL,
        _C.OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL,
        _C.PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        _C.PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL,
        _C.PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        _C.PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        _C.UNIQUE_ITEMS_REMOVED,
        _C.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL,
        _C.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL,
        _C.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        _C.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL,
        _C.ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        _C.ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
        _C.ENUM_ARRAY_EXTENDED,
        _C.COMBINED_TYPE_EXTENDED,
        _C.PRODUCT_TYPE_NARROWED,
        _C.SUM_TYPE_EXTENDED,
        _C.NOT_TYPE_NARROWED,
    }
)
"""Changes after which a reader still accepts old values."""

LENIENTLY_COMPATIBLE = COMPATIBLE | {
    _C.ADDITIONAL_PROPERTIES_NARROWED,
    _C.ADDITIONAL_PROPERTIES_REMOVED,
    _C.UNEVALUATED_PROPERTIES_NARROWED,
    _C.UNEVALUATED_PROPERTIES_REMOVED,
    _C.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL,
    _C.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL,
    _C.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL,
    _C.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
    _C.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL,
}
"""Changes that are compatible if each document has only the properties that its schema declares."""


def compatible_changes(policy: Policy) -> frozenset[Change]:
    """Return the changes that a policy accepts."""
    return LENIENTLY_COMPATIBLE if policy is Policy.LENIENT else COMPATIBLE


def message(change: Change, path: str, *, reader: str, writer: str) -> str:
    """Return the line of a verbose response that describes a change.

    ``reader`` and ``writer`` are "new" and "old", or the other way round.
    """
    sentence = _SENTENCES.get(change, "").format(p=path, r=reader, w=writer)
    return f'{{errorType:"{change.name}", description:"{sentence}"}}'


_KEYWORD_ADDED = "The keyword at path '{p}' in the {r} schema is not present in the {w} schema"
_MORE = "The value at path '{p}' in the {r} schema is more than its value in the {w} schema"
_LESS = "The value at path '{p}' in the {r} schema is less than its value in the {w} schema"
_OTHER_VALUE = "The value at path '{p}' is different between the {r} and {w} schema"
_OTHER_TYPE = "A type at path '{p}' is different between the {r} schema and the {w} schema"
_ARRAY = "An array or combined type at path '{p}' has"
_FEWER_ELEMENTS = _ARRAY + " fewer elements in the {r} schema than the {w} schema"
_MORE_ELEMENTS = _ARRAY + " more elements in the {r} schema than the {w} schema"
_MISSING = "at path '{p}' which is missing in the {w} schema"
_PARTLY_COVERED = "is not covered by its partially open content model"
_OPEN = "The {r} schema has an open content model and has a property or item"
_UNOPEN = "The {r} schema has an unopen content model and has a required property"
_CLOSED = "The {r} schema has a closed content model and is missing a property or item present"
_ADDED_TO_OPEN = f"{_OPEN} {_MISSING}"
_REQUIRED_ADDED = f"{_UNOPEN} {_MISSING}"
_REMOVED_FROM_CLOSED = _CLOSED + " at path '{p}' in the {w} schema"
_HAS = "The {r} schema has a property or item"
_ADDED_UNCOVERED = f"{_HAS} {_MISSING} and {_PARTLY_COVERED}"
_LACKS = "A property or item is missing in the {r} schema but present"
_REMOVED_UNCOVERED = _LACKS + " at path '{p}' in the {w} schema and " + _PARTLY_COVERED

_SENTENCES = {
    **dict.fromkeys(_named((*_UPPER, *_LOWER), "_ADDED"), _KEYWORD_ADDED),
    **dict.fromkeys(_named(_LOWER, "_INCREASED"), _MORE),
    **dict.fromkeys(_named(_UPPER, "_DECREASED"), _LESS),
    **dict.fromkeys(_named(_REST, "_REMOVED"), _KEYWORD_ADDED),
    **dict.fromkeys(_named(_REST, "_NARROWED"), _FEWER_ELEMENTS),
    _C.PATTERN_ADDED: _KEYWORD_ADDED,
    _C.PATTERN_CHANGED: _OTHER_VALUE,
    _C.MULTIPLE_OF_ADDED: _KEYWORD_ADDED,
    _C.MULTIPLE_OF_EXPANDED: _MORE,
    _C.MULTIPLE_OF_CHANGED: _OTHER_VALUE,
    _C.REQUIRED_ATTRIBUTE_ADDED: _KEYWORD_ADDED,
    _C.UNIQUE_ITEMS_ADDED: _KEYWORD_ADDED,
    _C.DEPENDENCY_ARRAY_ADDED: _KEYWORD_ADDED,
    _C.DEPENDENCY_ARRAY_EXTENDED: _MORE_ELEMENTS,
    _C.DEPENDENCY_ARRAY_CHANGED: _OTHER_VALUE,
    _C.DEPENDENCY_SCHEMA_ADDED: _KEYWORD_ADDED,
    _C.TYPE_CHANGED: _OTHER_TYPE,
    _C.TYPE_NARROWED: _OTHER_TYPE,
    _C.ENUM_ARRAY_NARROWED: _FEWER_ELEMENTS,
    _C.ENUM_ARRAY_CHANGED: _OTHER_TYPE,
    _C.COMBINED_TYPE_CHANGED: _OTHER_TYPE,
    _C.COMBINED_TYPE_SUBSCHEMAS_CHANGED: _OTHER_TYPE,
    _C.PRODUCT_TYPE_EXTENDED: _MORE_ELEMENTS,
    _C.SUM_TYPE_EXTENDED: _MORE_ELEMENTS,
    _C.SUM_TYPE_NARROWED: _FEWER_ELEMENTS,
    _C.NOT_TYPE_EXTENDED: _MORE_ELEMENTS,
    _C.REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL: _ADDED_TO_OPEN,
    _C.REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL: _ADDED_TO_OPEN,
    _C.OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL: _ADDED_TO_OPEN,
    _C.REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL: _REQUIRED_ADDED,
    _C.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL: _REMOVED_FROM_CLOSED,
    _C.PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _REMOVED_UNCOVERED,
    _C.PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _ADDED_UNCOVERED,
    _C.ITEM_ADDED_TO_OPEN_CONTENT_MODEL: _ADDED_TO_OPEN,
    _C.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL: _REMOVED_FROM_CLOSED,
    _C.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _REMOVED_UNCOVERED,
    _C.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL: _ADDED_UNCOVERED,
}
"""The sentences about kinds of change. Confluent's registry has none about the other kinds."""
