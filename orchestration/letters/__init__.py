"""Dead letters: the records that a table rejected, and the way back.

- ``table``: the Delta table of dead letters. ``places``: where a letter came from, as people write it.
- ``fixes``: the values that rejected records should have had.
"""
