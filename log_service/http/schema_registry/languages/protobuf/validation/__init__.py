"""Rules that protoc has for a file beyond its grammar.

- ``context``: the file that is checked, and how a broken rule is reported.
- ``ranges``: numbers and names that are taken: reserved, of extensions, or used twice.
- ``messages``: fields of messages, oneofs and maps.
- ``fields``: what holds for each field: its number, label, type, default and JSON name.
- ``field_options``: options and features that fit some types of fields only.
- ``enums``: values of enums.
- ``naming``: the names that edition 2024 wants.
- ``files``: the whole file, with all of its options.
"""
