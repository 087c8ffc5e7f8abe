"""Values of records as typed columns: one strict reading of JSON by a declared schema.

``ddl`` reads the schema that a topic declares. ``rule`` is the table of what JSON means, by type. ``strict_json`` reads by it, one value
at a time, and says why another does not fit; ``scalars`` reads decimals, times and bytes. ``plain_json`` reads values that leave no doubt,
many at a time. ``orchestration.formats.json_values`` asks both. Values with a VARIANT are judged (``judge``) and then parsed by Spark
(``orchestration.transforms.parsing``). ``times``: times of records as numbers and as moments.
"""
