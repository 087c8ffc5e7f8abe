"""Values of records as typed columns: one strict reading of JSON by a declared schema.

``ddl`` reads the schema that a topic declares. ``strict_json`` says which values fit, and why another does not. ``plain_json`` reads those
that leave no doubt into Arrow columns, many at a time; ``judge`` asks both. What fits and is not plain, Spark reads
(``orchestration.transforms.parsing``). ``times``: times of records as numbers and as moments.
"""
