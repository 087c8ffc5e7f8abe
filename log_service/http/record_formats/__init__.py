"""Converts records for people and programs: decodes keys and values to JSON, and filters records.

This package does not know pages or paths, so the console and the REST proxy share it. The modules,
from the bottom up:

- ``json_text``: prints values as JSON within bounds. ``decoding``: decodes keys and values to JSON.
- ``filters``: parses and evaluates filters. ``records``: a record with its decoded parts.
- ``consuming``: consumers without a group that act as the user behind a request.
"""
