"""The Kafka wire protocol as plain functions over bytes: frames, codec, messages, and the table of APIs and versions.

No input or output happens here, and no peer's byte is trusted: every count is checked against the bytes that remain
before anything is built.
"""
