"""Finds the full names of the records in a schema, as subject name strategies use them.

An Avro schema has the name of its record, enum or fixed. A JSON Schema has its title. A Protobuf
schema has the name of each message of the file, because the bytes after the schema id in a record
tell the message. Text that cannot be read has no names.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

PROTOBUF_PIECES: Final = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w.]+|[{};]|[^\s\w]""",
    re.DOTALL,
)
MAX_DEPTH: Final = 100


def record_names(schema: str, schema_type: str) -> frozenset[str]:
    """Return the names of the records in a schema of a type ("AVRO", "JSON", "PROTOBUF")."""
    if schema_type == "PROTOBUF":
        return frozenset(_messages(schema))
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        return frozenset()
    if not isinstance(parsed, dict):
        return frozenset()
    name = parsed.get("title") if schema_type == "JSON" else _avro_name(parsed)
    return frozenset({name} if isinstance(name, str) and name else ())


def _avro_name(parsed: dict[str, Any]) -> str | None:
    name, namespace = parsed.get("name"), parsed.get("namespace")
    if not isinstance(name, str) or "." in name or not isinstance(namespace, str) or not namespace:
        return name if isinstance(name, str) else None
    return f"{namespace}.{name}"


def _messages(text: str) -> Iterator[str]:
    """Yield the full names of the messages of a .proto file."""
    package, path, before = "", [""], ("", "")
    for match in PROTOBUF_PIECES.finditer(text):
        piece = match.group()
        if piece.startswith(("//", "/*")):
            continue
        if piece == "{":
            is_message = before[0] == "message"
            name = before[1] if is_message else ""
            inside = [each for each in path if each]
            if is_message and (len(path) == 1 or inside):
                yield ".".join(filter(None, (package, *inside, name)))
            path.append(name)
            if len(path) > MAX_DEPTH:
                return
        elif piece == "}":
            if len(path) > 1:
                path.pop()
        elif piece == ";" and before[0] == "package":
            package = before[1]
        before = (before[1], piece)
