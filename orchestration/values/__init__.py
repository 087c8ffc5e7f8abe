"""Values of records as typed columns: one strict reading of JSON by a declared schema.

- ``ddl``: reads the schema that a topic declares.
- ``rule``: the table of the meaning of JSON, by type.
- ``strict_json``: reads by it, one value at a time, and says why another does not fit.
- ``scalars``: reads decimals, times and bytes.
- ``plain_json``: reads values that leave no doubt, many at a time.
- ``value_check``: checks values with a VARIANT. Spark parses these afterwards
  (``orchestration.transforms.batch.parsing``).
- ``times``: times of records as numbers and as moments.
- ``type_names``: names of types in messages.
- ``unwritten``: values without a form in JSON.

``orchestration.formats.json_values`` uses ``plain_json`` and ``strict_json``.
"""
