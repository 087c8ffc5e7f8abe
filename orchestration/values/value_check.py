"""Checks many values: in bulk with Arrow if they certainly fit, and otherwise one by one.

Decides nothing of its own, because ``plain_json`` is certain only of values that ``strict_json``
accepts.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from orchestration.values.plain_json import plain_schema, read_plain
from orchestration.values.strict_json import StrictSchema


@dataclass(frozen=True, slots=True)
class ValueCheck:
    """Checks whether values fit ``fields``. It can be pickled for Spark's workers."""

    fields: types.StructType

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return the fault of each of ``values`` (binary), or null if the value fits."""
        plain = plain_schema(self.fields)
        is_plain = (
            np.zeros(len(values), np.bool_) if plain is None else read_plain(values, plain)[1]
        )
        doubtful = np.flatnonzero(~is_plain)
        faults = np.full(len(values), None, object)
        faults[doubtful] = StrictSchema(self.fields).faults_of(values.take(pa.array(doubtful)))
        return pa.array(faults, pa.string())
