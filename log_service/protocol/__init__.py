"""The Kafka wire protocol as plain functions over bytes.

No function here does input or output. No byte of a peer is trusted: a count is checked against the
remaining bytes before anything is built.

- ``api_versions``: THE table of APIs: keys, version ranges, and the module of each API's classes.
- ``frames``: headers and sizes of requests and responses.
- ``codec``: ``decode``, ``encode``, ``encode_chunks``. Finds the compiled function of a class and
  version.
- ``compile_decoder``: turns a schema into Python source of a decoder. ``reader``: the functions
  that decoders call in rare cases.
- ``compile_encoder``: turns a schema into Python source of an encoder. ``writer``: the functions
  that encoders call in rare cases.
- ``source``: lines of generated source, and the names that they use.
- ``schema``: declares the fields of messages and structs.
- ``messages``: the generated classes of requests and responses.
- ``stored``: the generated classes of records in logs and files, and their framing.
"""
