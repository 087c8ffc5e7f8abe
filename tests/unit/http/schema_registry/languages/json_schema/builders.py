"""Builds JSON schemas from Python values."""

import json
from typing import Any

from log_service.http.schema_registry.languages.json_schema import JSON_SCHEMA
from log_service.http.schema_registry.languages.json_schema.changes import Policy
from log_service.http.schema_registry.languages.json_schema.schema import JsonSchema
from log_service.http.schema_registry.languages.language import NamedSchema

MODERN = "https://json-schema.org/draft/2020-12/schema"
DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: MODERN,
}


def parsed(value: Any, draft: int | None = None, **dependencies: Any) -> JsonSchema:
    """Return the schema of a value, in a draft. Dependencies are values, too."""
    whole = (
        {"$schema": DRAFTS[draft], **value}
        if draft is not None and isinstance(value, dict)
        else value
    )
    named = [NamedSchema(name=name, text=json.dumps(each)) for name, each in dependencies.items()]
    return JSON_SCHEMA.parse(json.dumps(whole), named)


def changes(
    writer: Any, reader: Any, draft: int | None = None, policy: Policy = Policy.STRICT
) -> list[str]:
    """Return each change from a writer's schema to a reader's, as kind and path."""
    found = parsed(reader, draft).changes(parsed(writer, draft), policy=policy)
    return [f"{each.change.name} {each.path}" for each in found]


def is_compatible(
    writer: Any, reader: Any, draft: int | None = None, policy: Policy = Policy.STRICT
) -> bool:
    """Return whether a reader's schema reads what was written by a writer's."""
    return not parsed(reader, draft).differences(
        parsed(writer, draft), is_lenient=policy is Policy.LENIENT
    )
