"""Serializers with a schema registry: Avro, JSON Schema and Protobuf in Confluent's wire format.

No other package of the client imports this one, so a program that does not serialize loads none of
it.

The modules, lowest first:

- ``errors``: errors, and the hint at packages to install. ``values``: schemas. ``settings``: the
  settings of a registry client. ``cache``: a bounded cache.
- ``exchange``: requests as values, retries, and the choice of an address. ``registry_core``: the
  calls of the API as generators. ``registry_client``: runs them for tasks and for threads.
- ``wire_format``: the bytes that name a schema. ``subject_names``: the subject of a schema.
- ``serializing``, ``deserializing``: base classes that turn a value into bytes and back.
- ``avro``, ``json_schema``, ``protobuf``: the schema languages, and the public classes of each.
- ``avro_bounds``: limits the memory and stack for reading an Avro payload. ``json_patterns``:
  matches the regular expressions of JSON schemas.
- ``avro_json``: Avro values as JSON. ``json_codecs``: JSON values as bytes of each schema language.
- ``avro_branches``: Avro values as Avro's own JSON, with the branches of unions.
- ``step_budget``: limits the steps of work on one value.
"""
