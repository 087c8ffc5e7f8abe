"""The Kafka wire protocol as plain functions over bytes. It has frames, a codec, messages, and the
table of APIs and versions.

No input or output happens here, and no peer's byte is trusted: counts are checked against the bytes that remain before anything is built.

    api_versions       THE table: keys, ranges, where each API's classes are
    frames             headers and sizes; where a request comes in and a response goes out
    codec              decode, encode, encode_chunks; finds the compiled function of (class, version)
    compile_decoder    schema -> Python source of a decoder; reader holds what it calls off the fast path
    compile_encoder    schema -> Python source of an encoder; writer holds what it calls off the fast path
    schema             what a field and a struct declare
    messages/          one generated module per API
    stored/            generated records of logs and files, and serde, their framing
"""
