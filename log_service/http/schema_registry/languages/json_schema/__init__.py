"""JSON Schema of drafts 4 to 2020-12: validity, printing, and differences of two schemas.

Source: json-schema.org, and the verdicts of Confluent's registry.
"""
