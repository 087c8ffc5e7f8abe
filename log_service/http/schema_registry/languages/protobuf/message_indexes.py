"""Finds messages by their indexes in a file, which Confluent's serializers write to a record.

The indexes are a path: the index of a message in the file, then of a message nested in it, and so
on. Entry messages of maps and messages of groups count, as they do in descriptors.
"""

from collections.abc import Sequence

from log_service.http.schema_registry.languages.protobuf.definitions import MessageDefinition
from log_service.http.schema_registry.languages.protobuf.schema import ProtobufSchema


def message_indexes(schema: ProtobufSchema, full_name: str) -> tuple[int, ...]:
    """Return the path of indexes that leads to a message.

    Raises:
        LookupError: the schema itself has no such message.
    """
    package = schema.file.node.package
    names = full_name.removeprefix(f"{package}." if package else "").split(".")
    indexes: list[int] = []
    messages: Sequence[MessageDefinition] = schema.file.messages
    for name in names:
        found = [index for index, each in enumerate(messages) if each.node.name == name]
        if not found:
            raise LookupError(f"the schema has no message {full_name}")
        indexes.append(found[0])
        messages = messages[found[0]].messages
    return tuple(indexes)


def message_name(schema: ProtobufSchema, indexes: Sequence[int]) -> str:
    """Return the full name of the message at a path of indexes.

    Raises:
        LookupError: there is no message at these indexes.
    """
    messages: Sequence[MessageDefinition] = schema.file.messages
    name = ""
    for index in indexes:
        if not 0 <= index < len(messages):
            raise LookupError(f"the schema has no message at {list(indexes)}")
        name = messages[index].full_name
        messages = messages[index].messages
    if not name:
        raise LookupError("the path of a message has one index at least")
    return name
