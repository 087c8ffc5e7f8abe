"""Records as people and programs see them: keys and values as JSON, and filters over them.

Nothing here knows a page or a path, so the console and the REST proxy read records alike. The
rooms, from the bottom up:

- ``json_text``: the text of values, within bounds. ``decoding``: keys and values as JSON.
- ``filters``: which records are wanted. ``records``: a record with its decoded parts.
- ``consuming``: consumers without a group that act as the user behind a request.
"""
