"""Serializers with a schema registry: Avro, JSON Schema and Protobuf in Confluent's wire format.

No other room of the client needs this one. A program that serializes nothing imports none of it.

The rooms, from the bottom up:

- ``errors``: errors, and the hint at missing packages. ``values``: schemas. ``settings``: the
  settings of a registry client. ``cache``: a bounded cache.
- ``exchange``: requests as values, retries, and the choice of an address. ``registry_core``: the
  calls of the API as generators. ``registry_client``: carries them out for tasks and for threads.
- ``wire_format``: the bytes that name a schema. ``subject_names``: the subject of a schema.
- ``serializing``, ``deserializing``: the way of a value to bytes and back, for every language.
- ``avro``, ``json_schema``, ``protobuf``: the languages, and the public classes of each.
- ``avro_bounds``: bounds of reading Avro. ``json_patterns``: expressions of JSON schemas.
- ``avro_json``: Avro values as JSON. ``json_codecs``: values of JSON as bytes of every language.
- ``avro_branches``: Avro values as Avro's own JSON, with the branches of unions.
- ``step_budget``: bounds of the steps that a schema asks for, for one value.
"""
