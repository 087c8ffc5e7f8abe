"""The verdict on many values at once: in bulk where Arrow has no doubt, one by one where it has.

Decides nothing of its own: ``plain_json`` is certain only of values that ``strict_json`` accepts.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import types

from orchestration.values.plain_json import plain_schema, read_plain
from orchestration.values.strict_json import StrictSchema


@dataclass(frozen=True, slots=True)
class ValueJudge:
    """Why values do not fit ``fields``; plain values only, so that Spark's workers can take it with them."""

    fields: types.StructType

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return for each of ``values`` (binary) why it does not fit, null where it fits."""
        plain = plain_schema(self.fields)
        is_plain = np.zeros(len(values), np.bool_) if plain is None else read_plain(values, plain)[1]
        doubtful = np.flatnonzero(~is_plain)
        faults = np.full(len(values), None, object)
        faults[doubtful] = StrictSchema(self.fields).faults_of(values.take(pa.array(doubtful)))
        return pa.array(faults, pa.string())
