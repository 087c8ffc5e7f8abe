"""JSON Schema of drafts 4 to 2020-12: validity, printing, and differences of two schemas.

The modules, from the bottom up:

- ``json_text``: reads JSON within bounds, prints it as Jackson does. ``uris``: joins URIs.
- ``drafts``: what each draft calls a schema within a schema.
- ``regex_syntax``, ``validity``: whether a text is a schema of its draft.
- ``references``: the schema that a reference leads to. Nothing is ever fetched.
- ``shapes``, ``shape_reader``: a schema in parts that can be compared.
- ``changes``: the kinds of change, and which of them are compatible.
- ``comparison``: compares pairs of shapes, each once, also recursive ones.
- ``matching``, ``patterns``: which members of two sides fit, and which names a pattern fits.
- ``value_rules``, ``object_rules``, ``array_rules``, ``combined_rules``, ``schema_rules``: rules.
- ``inline_tags``: tags of objects and properties in a text.
- ``bundle``: a schema with its dependencies in it.
- ``schema``: the language, for the registry.

Sources: json-schema.org. Kinds of change, and which are compatible, are as in Confluent's registry
8.3.
"""

from log_service.http.schema_registry.languages.json_schema.schema import JSON_SCHEMA

__all__ = ["JSON_SCHEMA"]
