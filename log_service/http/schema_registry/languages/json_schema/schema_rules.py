"""Compares two shapes: first their kinds, and then by the rules of the kind.

If only one side combines schemas, one compatible part of it may settle the comparison. Conditions
(``if``, ``then``, ``else``), formats, ``contains`` and ``propertyNames`` are not compared, as in
Confluent's registry.
"""

from log_service.http.schema_registry.languages.json_schema.array_rules import compare_arrays
from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.combined_rules import (
    choose_part,
    choose_part_of_writer,
    compare_combined,
)
from log_service.http.schema_registry.languages.json_schema.comparison import (
    Choice,
    Notebook,
    Pair,
    Steps,
)
from log_service.http.schema_registry.languages.json_schema.object_rules import compare_objects
from log_service.http.schema_registry.languages.json_schema.shapes import (
    Arrays,
    Combined,
    Kind,
    Negation,
    Notes,
    Numbers,
    Objects,
    Reference,
    Shape,
    Strings,
    Values,
)
from log_service.http.schema_registry.languages.json_schema.value_rules import (
    compare_numbers,
    compare_strings,
    compare_values,
)

_BYTES = "bytes"
"""The ``connect.type`` of decimals.

Versions of Kafka Connect write decimals as different kinds of schema, so a change of kind is not
noted for them.
"""


def compare_shapes(notes: Notebook, writer: Shape, reader: Shape) -> Steps:
    """Add the differences of two shapes to ``notes``."""
    if (yield from _is_settled_by_part(notes, writer, reader)):
        return
    if writer.kind is not reader.kind:
        takes_all = writer.kind is Kind.FALSE or reader.kind in {Kind.ANYTHING, Kind.TRUE}
        if not takes_all and not writer.notes.connect_type == reader.notes.connect_type == _BYTES:
            notes.note(Change.TYPE_CHANGED)
        return
    _compare_notes(notes, writer.notes, reader.notes)
    if writer.kind is Kind.CONST:
        if writer.body != reader.body:
            notes.note(Change.ENUM_ARRAY_CHANGED, "const")
        return
    yield from _compare_bodies(notes, writer, reader)


def _compare_bodies(notes: Notebook, writer: Shape, reader: Shape) -> Steps:
    match writer.body, reader.body:
        case Strings() as old, Strings() as new:
            compare_strings(notes, old, new)
        case Numbers() as old, Numbers() as new:
            compare_numbers(notes, old, new)
        case Values() as old, Values() as new:
            compare_values(notes, old, new)
        case Combined() as old, Combined() as new:
            yield from compare_combined(notes, old, new)
        case Negation() as old, Negation() as new:
            outcome = yield Pair(writer=new.schema, reader=old.schema)
            notes.note(
                Change.NOT_TYPE_NARROWED if outcome.is_compatible else Change.NOT_TYPE_EXTENDED,
                "not",
            )
        case Objects() as old, Objects() as new:
            yield from compare_objects(notes, old, new)
        case Arrays() as old, Arrays() as new:
            yield from compare_arrays(notes, old, new)
        case Reference() as old, Reference() as new if old.text != new.text:
            notes.note(Change.TYPE_CHANGED)


def _is_settled_by_part(notes: Notebook, writer: Shape, reader: Shape) -> Choice:
    match writer.body, reader.body:
        case Combined(), Combined():
            return False
        case _, Combined() as parts:
            return (yield from choose_part(notes, writer, parts))
        case Combined() as parts, _:
            return (yield from choose_part_of_writer(notes, parts, reader))
        case _:
            return False


def _compare_notes(notes: Notebook, writer: Notes, reader: Notes) -> None:
    if writer.own_id != reader.own_id:
        notes.note(Change.ID_CHANGED)
    if writer.title != reader.title:
        notes.note(Change.TITLE_CHANGED)
    if writer.description != reader.description:
        notes.note(Change.DESCRIPTION_CHANGED)
    if writer.default != reader.default:
        notes.note(Change.DEFAULT_CHANGED)
