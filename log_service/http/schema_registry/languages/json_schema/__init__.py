"""JSON Schema of drafts 4 to 2020-12: validity, printing, and differences of two schemas.

The modules, from the bottom up:

- ``json_text``: reads JSON within bounds, prints it as Jackson does. ``uris``: joins URIs.
- ``drafts``: the keywords that hold inner schemas, for each draft.
- ``regex_syntax``, ``validity``: check that a schema is valid in its draft.
- ``references``: finds the schema that a reference leads to. Nothing is ever fetched.
- ``shapes``, ``shape_reader``: translate a schema into shapes, which rules can compare.
- ``changes``: the kinds of change, and which of them are compatible.
- ``comparison``: compares pairs of shapes and keeps the outcomes, also for recursive schemas.
- ``matching``: pairs the members of two lists. ``patterns``: finds the names a pattern matches.
- ``value_rules``, ``object_rules``, ``array_rules``, ``combined_rules``, ``schema_rules``: find the
  changes between two shapes.
- ``inline_tags``: finds and changes tags of objects and properties in the text of a schema.
- ``bundle``: writes a schema and its dependencies as one schema.
- ``schema``: the language, as the registry calls it.

Sources: json-schema.org. Kinds of change, and which are compatible, are as in Confluent's registry
8.3.
"""

from log_service.http.schema_registry.languages.json_schema.schema import JSON_SCHEMA

__all__ = ["JSON_SCHEMA"]
