"""Hypothesis strategies for records and batches."""

from hypothesis import strategies as st

from log_service.records.compression import Codec
from log_service.records.record import NewRecord

CODECS = st.sampled_from(list(Codec))
TIMESTAMPS = st.one_of(
    st.integers(0, 4_102_444_800_000), st.sampled_from([-1, 0, 1_700_000_000_000, (1 << 62)])
)
NULLABLE_BYTES = st.one_of(
    st.none(),
    st.binary(max_size=200),
    st.binary(min_size=1, max_size=110).map(lambda part: part * 80),
)
HEADERS = st.lists(
    st.tuples(st.text(max_size=20), st.one_of(st.none(), st.binary(max_size=30))), max_size=4
).map(tuple)
NEW_RECORDS = st.builds(
    NewRecord, TIMESTAMPS, NULLABLE_BYTES, NULLABLE_BYTES, st.one_of(st.just(()), HEADERS)
)
RECORDS = st.lists(NEW_RECORDS, min_size=1, max_size=30)
