"""Topics as assets.

- ``spec``: the declaration of a topic, and the run that creates it. ``registry_check``: the check
  of its schemas in a registry. ``inputs``: the names of the inputs of tables and marts.
"""
