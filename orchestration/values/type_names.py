"""Names the types of columns in messages, as a schema declares them.

The types of Spark and of Arrow have the same names.
"""

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.pandas.types import from_arrow_type


def type_name(kind: types.DataType) -> str:
    """Return a type's name as a schema declares it, such as ``STRUCT<city: STRING>``."""
    match kind:
        case types.StructType():
            return f"STRUCT<{', '.join(f'{one.name}: {type_name(one.dataType)}' for one in kind)}>"
        case types.ArrayType():
            return f"ARRAY<{type_name(kind.elementType)}>"
        case types.MapType():
            return f"MAP<{type_name(kind.keyType)},{type_name(kind.valueType)}>"
    return kind.simpleString().upper()


def spark_type(kind: pa.DataType) -> types.DataType:
    """Return the Spark type of an Arrow type.

    :raises TypeError: Spark has no such type.
    """
    try:
        found: types.DataType = from_arrow_type(kind, prefer_timestamp_ntz=True)
    except Exception as error:  # an error of Spark's own, of one kind for all types
        raise TypeError(f"Spark has no type for {kind}") from error
    return found


def arrow_type_name(kind: pa.DataType) -> str:
    """Return an Arrow type's name as a schema declares it, or else Arrow's own name."""
    try:
        return type_name(spark_type(kind))
    except TypeError:
        return str(kind)
