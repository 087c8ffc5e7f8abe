"""Compares arrays: the schema of every item, the listed items, and the items after them.

The rules for a listed item are those for a property: they depend on whether the array is open,
closed or partly open after the listed items. The paths of changes name ``items`` and
``additionalItems`` in each draft, even if a schema has ``prefixItems`` and ``items`` instead.
"""

from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.comparison import Notebook, Pair, Steps
from log_service.http.schema_registry.languages.json_schema.object_rules import compare_unevaluated
from log_service.http.schema_registry.languages.json_schema.references import Place
from log_service.http.schema_registry.languages.json_schema.shapes import Arrays, Kind
from log_service.http.schema_registry.languages.json_schema.value_rules import (
    MAX_CONTAINS,
    MAX_ITEMS,
    MIN_CONTAINS,
    MIN_ITEMS,
    compare_limit,
)


def compare_arrays(notes: Notebook, writer: Arrays, reader: Arrays) -> Steps:
    """Add the differences of two array schemas to ``notes``."""
    yield from _compare_every_item(notes, writer.every_item, reader.every_item)
    yield from _compare_listed(notes, writer, reader)
    yield from _compare_additional(notes, writer, reader)
    yield from compare_unevaluated(notes, writer.unevaluated, reader.unevaluated, "Items")
    compare_limit(notes, MAX_ITEMS, writer.max_items, reader.max_items)
    compare_limit(notes, MIN_ITEMS, writer.min_items, reader.min_items)
    if writer.has_unique_items != reader.has_unique_items:
        notes.note(
            Change.UNIQUE_ITEMS_REMOVED if writer.has_unique_items else Change.UNIQUE_ITEMS_ADDED,
            "uniqueItems",
        )
    compare_limit(notes, MAX_CONTAINS, writer.max_contains, reader.max_contains)
    compare_limit(notes, MIN_CONTAINS, writer.min_contains, reader.min_contains)


def _compare_every_item(notes: Notebook, writer: Place | None, reader: Place | None) -> Steps:
    if writer is not None and reader is not None:
        notes.include((yield Pair(writer=writer, reader=reader)), "items")
    elif reader is not None:
        notes.note(Change.SCHEMA_ADDED, "items")
    elif writer is not None:
        notes.note(Change.SCHEMA_REMOVED, "items")


def _compare_listed(notes: Notebook, writer: Arrays, reader: Arrays) -> Steps:
    for index, (old, new) in enumerate(zip(writer.items, reader.items, strict=False)):
        notes.include((yield Pair(writer=old, reader=new)), f"items/{index}")
    common = min(len(writer.items), len(reader.items))
    for index, item in enumerate(writer.items[common:], common):
        yield from _compare_dropped(notes, item, reader, f"items/{index}")
    for index, item in enumerate(reader.items[common:], common):
        yield from _compare_added(notes, writer, item, f"items/{index}")


def _compare_dropped(notes: Notebook, dropped: Place, reader: Arrays, path: str) -> Steps:
    """Note the change of an item that only the writer lists."""
    if reader.is_open:
        notes.note(Change.ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL, path)
    elif (rest := reader.rest) is not None:
        outcome = yield Pair(writer=dropped, reader=rest)
        notes.include(outcome, path)
        if outcome.is_compatible:
            notes.note(Change.ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
        else:
            notes.note(Change.ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
    elif notes.shapes.written(dropped).kind is Kind.FALSE:
        notes.note(Change.ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)
    else:
        notes.note(Change.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL, path)


def _compare_added(notes: Notebook, writer: Arrays, added: Place, path: str) -> Steps:
    """Note the change of an item that only the reader lists."""
    if writer.is_open and notes.shapes.is_anything(added):
        notes.note(Change.ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL, path)
    elif writer.is_open:
        notes.note(Change.ITEM_ADDED_TO_OPEN_CONTENT_MODEL, path)
    elif (rest := writer.rest) is not None:
        outcome = yield Pair(writer=rest, reader=added)
        notes.include(outcome, path)
        if outcome.is_compatible:
            notes.note(Change.ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
        else:
            notes.note(Change.ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL, path)
    else:
        notes.note(Change.ITEM_ADDED_TO_CLOSED_CONTENT_MODEL, path)


def _compare_additional(notes: Notebook, writer: Arrays, reader: Arrays) -> Steps:
    path = "additionalItems"
    if writer.permits_additional != reader.permits_additional:
        is_added = reader.permits_additional
        change = Change.ADDITIONAL_ITEMS_ADDED if is_added else Change.ADDITIONAL_ITEMS_REMOVED
        notes.note(change, path)
    elif writer.additional is None and reader.additional is not None:
        notes.note(Change.ADDITIONAL_ITEMS_NARROWED, path)
    elif reader.additional is None and writer.additional is not None:
        notes.note(Change.ADDITIONAL_ITEMS_EXTENDED, path)
    elif writer.additional is not None and reader.additional is not None:
        notes.include((yield Pair(writer=writer.additional, reader=reader.additional)), path)
