"""Quotes names and texts in a statement of SQL, as the standard demands.

DuckDB and the predicates of Delta tables accept this quoting.
"""


def quoted_name(name: str) -> str:
    """Return the name of a column, table or view as an identifier."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def quoted_text(text: str) -> str:
    """Return a text as a literal."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
