"""Makes the error response of an API to a request that failed as a whole.

The error goes to the top of the response if the API has a field for it there. It also goes to every
item of the request that has a counterpart in the response. The functions here make an ``Echo`` for
the registry. APIs with other conventions have an echo of their own beside their handler.

Invariant: an echo sets no field that the request's version does not have, so that every version can
be encoded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from log_service.broker.requests.call import Refusable
from log_service.broker.requests.pieces import Items
from log_service.common.errors import KafkaError
from log_service.protocol.schema import Message, has_version


@dataclass(frozen=True, slots=True)
class ItemEcho:
    """The echo of an API that responds to the items of its requests one by one.

    ``levels`` are the nested lists of items, the outermost first. ``fields`` are further values of
    the innermost items, or of the response itself if there are no levels.
    """

    levels: tuple[Items, ...]
    fields: Mapping[str, int]

    def __call__(self, asked: Refusable, error: KafkaError) -> Message:
        """Return the response with the error at the top and in every item."""
        response: Message = asked.response_type()
        _mark(response, asked.version, error)
        _fill(response, asked.request, self.levels, self.fields, asked.version, error)
        return response


def echoing(*levels: Items, **fields: int) -> ItemEcho:
    """Return the function that makes error responses with these levels and fields."""
    return ItemEcho(levels, fields)


AT_TOP = echoing()
"""The echo of an API with one error field, at the top of its response."""


def _fill(  # noqa: PLR0917 - one recursion
    response: Any,
    request: Any,
    levels: Sequence[Items],
    fields: Mapping[str, int],
    version: int,
    error: KafkaError,
) -> None:
    if not levels:
        _mark(response, version, error)
        for name, value in fields.items():
            setattr(response, name, value)
        return
    items, *inner = levels
    item_type = _item_type(type(response), items.response_field)
    names = [(each, each) if isinstance(each, str) else each for each in items.named_by]
    echoed = []
    for item in getattr(request, items.request_field) or ():
        echoed_item = item_type()
        if items.value is not None:
            setattr(echoed_item, items.value, item)
        for source, target in names:
            setattr(echoed_item, target, getattr(item, source))
        _fill(echoed_item, item, inner, fields, version, error)
        echoed.append(echoed_item)
    setattr(response, items.response_field, echoed)


def _mark(response: Any, version: int, error: KafkaError) -> None:
    """Set the error, in the error fields of this version."""
    has_code, has_text = _places(type(response), version)  # type: ignore[arg-type]  # classes can be hashed
    if has_code:
        response.error_code = error.code
    if has_text:
        response.error_message = str(error)


@cache
def _places(cls: type[Message], version: int) -> tuple[bool, bool]:
    """Return whether a struct has an error code in this version, and an error message."""
    names = {field.name for field in cls.SCHEMA.fields if has_version(field.versions, version)}
    return "error_code" in names, "error_message" in names


def _item_type(response: type[Message], name: str) -> type[Any]:
    found: type[Any] | None = next(
        field.struct for field in response.SCHEMA.fields if field.name == name
    )
    assert found is not None, f"{response.__name__}.{name} is not a list of structs"
    return found
