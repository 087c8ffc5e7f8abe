"""Cuts large requests into smaller ones, and joins their responses.

Decides where a request may be cut: between the items of its lists, as the registry describes them.
Each piece is a request of the same API. Its fields other than the list are those of the whole
request. All functions are plain and may run in the pool.

Invariants: the items of all pieces, one after the other, are those of the request in their order. A
piece weighs at most the given maximum, or holds a single item that cannot be cut.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

from log_service.common.errors import ErrorCode, KafkaError, ProtocolError
from log_service.common.repeated import repeated
from log_service.protocol.schema import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list of the request, and the list of the response with one result for each of its items.

    ``named_by`` are the fields that name an item in both lists. A field that has another name in
    the response is given as a pair (field of the request, field of the response). The items of a
    request may be plain values. ``value`` is then the field of the response that holds such a
    value.
    """

    request_field: str
    response_field: str
    named_by: tuple[str | tuple[str, str], ...] = ()
    value: str | None = None

    def request_name(self, item: Any) -> Any:
        """Return the name of an item of the request, by which its result is found."""
        return (
            item
            if self.value is not None
            else tuple(getattr(item, _pair(each)[0]) for each in self.named_by)
        )

    def response_name(self, item: Any) -> Any:
        """Return the name of an item of the response, as ``request_name`` does for the request."""
        return (
            getattr(item, self.value)
            if self.value is not None
            else tuple(getattr(item, _pair(each)[1]) for each in self.named_by)
        )


Levels = Sequence[Items]
"""Lists within lists, the outermost first."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a request, which is itself a request of the same API.

    A cut may fall inside an item. Then the first item of this piece continues the last item of the
    previous one, at the outermost ``depth`` levels of lists. 0 means that no item was cut.
    """

    request: Any
    depth: int


def levels_of(request: Any, choices: Sequence[Levels]) -> Levels:
    """Return the lists at which a request can be cut, out of the ``choices`` for its API.

    The versions of an API differ in them. The result is empty if the request cannot be cut.
    """
    return next((levels for levels in choices if getattr(request, levels[0].request_field)), ())


def split(
    request: Any, levels: Levels, *, max_weight: int, item_weight: int = 0, max_item_weight: int
) -> list[Piece]:
    """Cut a request into pieces of at most ``max_weight`` list elements.

    Each outermost item counts ``item_weight`` beside its elements.

    Raises:
        ProtocolError: an item that cannot be cut has more than ``max_item_weight`` elements.
    """
    items, *inner = levels
    pieces: list[Piece] = []
    kept: list[Any] = []
    kept_weight = 0

    def close() -> None:
        nonlocal kept, kept_weight
        if kept:
            pieces.append(Piece(_with(request, items.request_field, kept), 0))
            kept, kept_weight = [], 0

    for item in getattr(request, items.request_field) or ():
        weight = item_weight + weight_of(item)
        if kept_weight + weight > max_weight:
            close()
        if weight > max_weight and inner:
            parts = split(item, inner, max_weight=max_weight, max_item_weight=max_item_weight)
            pieces += [
                Piece(
                    _with(request, items.request_field, [part.request]),
                    part.depth + 1 if place else 0,
                )
                for place, part in enumerate(parts)
            ]
            continue
        if weight > max_item_weight:
            raise ProtocolError(
                f"{items.request_field}: an item has {weight} elements,"
                f" where {max_item_weight} are allowed"
            )
        kept.append(item)
        kept_weight += weight
    close()
    return pieces


def require_names_once(request: Any, levels: Levels) -> None:
    """Check that a request repeats no name, because the handler of a piece could not detect that.

    Raises:
        KafkaError: INVALID_REQUEST, a name is repeated.
    """
    for name in repeated(
        [levels[0].request_name(item) for item in getattr(request, levels[0].request_field)]
    ):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is named twice in a request of many")


def join(answered: Sequence[tuple[Piece, Any]], levels: Levels) -> Message:
    """Join the responses to all pieces. An error of any piece is an error of the whole response."""
    whole: Message = answered[0][1]
    for piece, response in answered[1:]:
        _join(whole, response, levels, piece.depth)
    return whole


def _join(whole: Any, more: Any, levels: Levels, depth: int) -> None:
    if getattr(more, "error_code", 0) and not whole.error_code:
        whole.error_code = more.error_code
        if hasattr(more, "error_message"):
            whole.error_message = more.error_message
    if not levels:
        return
    items, *inner = levels
    known, new = getattr(whole, items.response_field), getattr(more, items.response_field)
    if depth and known and new and items.response_name(known[-1]) == items.response_name(new[0]):
        _join(known[-1], new[0], inner, depth - 1)
        new = new[1:]
    if isinstance(known, list):
        known += new
    else:
        setattr(whole, items.response_field, [*known, *new])
    if getattr(more, "node_endpoints", ()):
        # Other leaders' addresses (KIP-951): beside the items, each once.
        ids = {each.node_id for each in whole.node_endpoints}
        whole.node_endpoints = [
            *whole.node_endpoints,
            *(each for each in more.node_endpoints if each.node_id not in ids),
        ]


def weight_of(item: Any) -> int:
    """Return the number of list elements in an item, itself included."""
    return 1 + sum(_weights(item))


def _weights(item: Any) -> Iterator[int]:
    if not hasattr(item, "SCHEMA"):
        return
    for name, holds_structs in _lists(type(item)):  # type: ignore[arg-type]  # classes can be hashed
        found = getattr(item, name) or ()
        yield len(found)
        if holds_structs:
            for each in found:
                yield from _weights(each)


@cache
def _lists(cls: type[Message]) -> tuple[tuple[str, bool], ...]:
    """Return the list fields of a message class, each with whether it holds structs."""
    return tuple(
        (field.name, field.struct is not None) for field in cls.SCHEMA.fields if field.is_array
    )


def _with(message: Any, name: str, items: list[Any]) -> Any:
    changed = copy(message)
    setattr(changed, name, items)
    return changed


def _pair(names: str | tuple[str, str]) -> tuple[str, str]:
    return (names, names) if isinstance(names, str) else names
