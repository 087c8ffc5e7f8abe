"""Rules that protoc has for a file beyond its grammar.

- ``context``: the file that is checked, and how a broken rule is reported.
- ``ranges``: numbers and names that are reserved or belong to extensions.
- ``messages``: fields of messages, oneofs and maps.
- ``fields``: each field: its number, label, type, default and JSON name.
- ``field_options``: options and features that fit some types of fields only.
- ``enums``: values of enums.
- ``naming``: the naming style that edition 2024 requires.
- ``files``: the whole file, with all of its options.
"""
