"""Dead letters: the records that a table rejected, and their fixes.

- ``table``: the Delta table of dead letters. ``places``: the notation for the place of a letter.
- ``fixes``: the corrected values of rejected records.
"""
