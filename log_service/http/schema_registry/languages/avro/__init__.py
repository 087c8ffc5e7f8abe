"""Avro schemas: parsing, canonical printing, and the rules by which a reader reads a writer.

The modules, from the bottom up:

- ``types``: a schema as values.
- ``json_text``: JSON as Java's library reads and prints it.
- ``definitions``: names, and the types that they refer to.
- ``defaults``: whether a default is a value of a type.
- ``attributes``: the attributes of types and fields, one by one.
- ``reading``: from a text to types.
- ``normal_form``: a form in which schemas that differ only in layout are equal.
- ``printing``: from types to a text.
- ``compatibility``: why a reader cannot read a writer.
- ``inline_tags``: tags of records and fields in a text.
- ``schema``: the language as the registry uses it (``languages.language``).

Source: the Avro specification 1.12, and the decisions of Java's ``SchemaCompatibility``.
"""

from log_service.http.schema_registry.languages.avro.schema import AVRO

__all__ = ["AVRO"]
