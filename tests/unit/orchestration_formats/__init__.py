"""Values in Avro and Protobuf: what their schemas and bytes mean."""
