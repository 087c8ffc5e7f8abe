"""Avro schemas: parsing, canonical printing, and the rules by which a reader reads a writer.

Source: the Avro specification 1.12, and the verdicts of Java's ``SchemaCompatibility``.
"""
