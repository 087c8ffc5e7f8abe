"""Topics as assets.

- ``spec``: the declaration of a topic, and the run that creates it. ``inputs``: the inputs of
  tables and marts.
"""
