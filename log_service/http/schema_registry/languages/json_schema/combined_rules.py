"""Compares schemas that combine several schemas by ``allOf``, ``anyOf`` or ``oneOf``.

The inner schemas of the writer and of the reader are paired so that each pair is compatible. Each
inner schema of the side with fewer of them must have a partner. A reader may have more alternatives
(anyOf, oneOf), and fewer conditions (allOf).
"""

from collections.abc import Iterable, Iterator, Sequence

from log_service.http.schema_registry.languages.json_schema.changes import Change
from log_service.http.schema_registry.languages.json_schema.comparison import (
    Choice,
    Notebook,
    Outcome,
    Pair,
    Steps,
)
from log_service.http.schema_registry.languages.json_schema.json_text import value_key
from log_service.http.schema_registry.languages.json_schema.matching import (
    Candidates,
    maximum_matching,
)
from log_service.http.schema_registry.languages.json_schema.references import Place
from log_service.http.schema_registry.languages.json_schema.shapes import Combined, Criterion, Node


def compare_combined(notes: Notebook, writer: Combined, reader: Combined) -> Steps:
    """Add the differences of two combined schemas to ``notes``."""
    if writer.criterion is not reader.criterion:
        if not _is_extended(writer, reader):
            notes.note(Change.COMBINED_TYPE_CHANGED)
            return
        notes.note(Change.COMBINED_TYPE_EXTENDED)
    olds, news = writer.distinct, reader.distinct
    if len(olds) < len(news):
        is_product = reader.criterion is Criterion.ALL
        notes.note(Change.PRODUCT_TYPE_EXTENDED if is_product else Change.SUM_TYPE_EXTENDED)
    elif len(olds) > len(news):
        is_product = writer.criterion is Criterion.ALL
        notes.note(Change.PRODUCT_TYPE_NARROWED if is_product else Change.SUM_TYPE_NARROWED)
    yield from _compare_parts(notes, writer, reader)


def choose_part(notes: Notebook, writer: Node, reader: Combined) -> Choice:
    """Return whether one part of the reader's combined schema accepts all of the writer's values.

    If so, note the changes of that part. In an ``allOf`` of several parts, one part is not enough.
    """
    pairs = (Pair(writer=writer, reader=part) for part in reader.parts)
    if len(reader.parts) == 1:
        return (yield from _include_first(notes, pairs, None))
    if reader.criterion is Criterion.ALL:
        return False
    return (yield from _include_first(notes, pairs, Change.SUM_TYPE_EXTENDED))


def choose_part_of_writer(notes: Notebook, writer: Combined, reader: Node) -> Choice:
    """Return whether one part of the writer's combined schema permits no more than the reader.

    If so, note the changes of that part. Of several parts one is enough only in an ``allOf``.
    """
    pairs = (Pair(writer=part, reader=reader) for part in writer.parts)
    if len(writer.parts) == 1:
        return (yield from _include_first(notes, pairs, None))
    if writer.criterion is not Criterion.ALL:
        return False
    return (yield from _include_first(notes, pairs, Change.PRODUCT_TYPE_NARROWED))


def _include_first(notes: Notebook, pairs: Iterable[Pair], change: Change | None) -> Choice:
    """Note the changes of the first compatible pair, and also ``change``.

    Return whether there is a compatible pair.
    """
    for pair in pairs:
        outcome = yield pair
        if outcome.is_compatible:
            notes.include(outcome)
            if change is not None:
                notes.note(change)
            return True
    return False


def _compare_parts(notes: Notebook, writer: Combined, reader: Combined) -> Steps:
    olds, news = writer.distinct, reader.distinct
    matching = maximum_matching(len(olds), len(news), _likeliest_first(olds, news), notes.budget)
    outcomes: dict[tuple[int, int], Outcome] = {}
    old_of: dict[int, int] = {}
    try:
        asked = next(matching)
        while True:
            outcome = outcomes[asked] = yield Pair(writer=olds[asked[0]], reader=news[asked[1]])
            asked = matching.send(outcome.is_compatible)
    except StopIteration as end:
        old_of = end.value
    for old, new in sorted((old, new) for new, old in old_of.items()):
        notes.include(outcomes[old, new], f"{writer.criterion.value}/{old}")
    if len(old_of) < min(len(olds), len(news)):
        notes.note(Change.COMBINED_TYPE_SUBSCHEMAS_CHANGED)


def _likeliest_first(olds: Sequence[Node], news: Sequence[Node]) -> Candidates:
    """Return a function that orders the candidates for an old schema, the likeliest first.

    The likeliest is the new schema with the same text, or else the one at the same index.
    """
    place_of = {_label(node): index for index, node in enumerate(news)}

    def candidates(old: int) -> Iterator[int]:
        likely = place_of.get(_label(olds[old]), min(old, len(news) - 1))
        yield likely
        yield from (index for index in range(len(news)) if index != likely)

    return candidates


def _label(node: Node) -> object:
    return value_key(node.schema) if isinstance(node, Place) else node.kind


def _is_extended(writer: Combined, reader: Combined) -> bool:
    """Whether the reader's keyword, such as anyOf, permits at least as much as the writer's.

    With a single part, all keywords mean the same.
    """
    was_one, is_one = len(writer.parts) == 1, len(reader.parts) == 1
    return (
        reader.criterion is Criterion.ANY
        or (was_one and (is_one or reader.criterion is Criterion.ONE))
        or (is_one and writer.criterion is Criterion.ALL)
    )
