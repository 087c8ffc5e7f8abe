"""Schema languages. Each parses text, prints it in canonical form, and compares two schemas.

- ``language``: the protocol that each language implements, and its values.
- ``limits``: bounds on the size, nesting and work of a schema, so that hostile text stays cheap.
- ``tags``: finds and changes the tags of records and fields in a text.
- ``avro``, ``json_schema``, ``protobuf``: the languages. They do not import each other.
- ``known``: finds the language of a schema's type.

All of it is plain functions over values. Nothing here reads a file, a clock or a network.
"""
