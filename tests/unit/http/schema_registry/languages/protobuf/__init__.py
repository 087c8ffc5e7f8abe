"""Protobuf schemas, with protoc as the judge of what is valid and what it means."""
