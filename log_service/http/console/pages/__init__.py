"""The pages of the console, a folder for each area.

- ``areas``: the list of all. ``cluster``, ``flow``, ``topics``, ``records``, ``groups``,
  ``schemas``, ``transactions``, ``security``: one area each.
"""
