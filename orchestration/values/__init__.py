"""Reads JSON values into typed columns strictly, by a declared schema.

- ``ddl``: reads the schema that a topic declares.
- ``rule``: the table of the accepted JSON for each type.
- ``strict_json``: reads by this rule, one value at a time, and says why a value does not fit.
- ``scalars``: reads decimals, times and bytes.
- ``plain_json``: reads many values at a time in bulk, if they certainly follow the rule.
- ``value_check``: checks values with a VARIANT. Spark parses these afterwards
  (``orchestration.transforms.batch.parsing``).
- ``times``: converts times of records between numbers and ``datetime``.
- ``type_names``: names of types in messages.
- ``unwritten``: finds values that JSON cannot express.

``orchestration.formats.json_values`` uses ``plain_json`` and ``strict_json``.
"""
