"""Protobuf schemas (proto2, proto3, editions): parsing, printing, and differences of two schemas.

A schema comes as text, or as base64 of a ``FileDescriptorProto``. Both are one schema.
Source: the Protobuf language specification, and the printing of Wire's schema library.
"""
