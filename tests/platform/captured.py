"""The tests capture the changes of a table.

Readers of committed records find the records that a source sent.
"""

import json
from collections import Counter

from orchestration.log_client.connection import connect
from orchestration.offsets.ranges import OffsetRange
from tests.platform.databases import Database
from tests.platform.installation import wait_until

MARKED_WITHIN_S = 90
"""The next run of a source ends what a killed one left open, and without one the cluster does after
a minute.
"""
Records = Counter[tuple[bytes | None, bytes | None]]


def found_records(bootstrap: str, topic: str) -> Records:
    """Return what readers of committed records find, once no transaction is open any more."""
    records: Records = Counter()
    with connect(bootstrap) as log:

        def is_settled() -> bool:
            return all(
                one.last_stable_offset == one.high_watermark for one in log.partition_offsets(topic)
            )

        wait_until(is_settled, MARKED_WITHIN_S, lambda: "a transaction is open for ever")
        read = log.range_reader()
        for one in log.partition_offsets(topic):
            for batch in read(
                topic, OffsetRange(partition=one.partition, start=0, end=one.high_watermark)
            ):
                records.update(
                    zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
                )
    return records


class CapturedTable:
    """A table that changes, and the record that each change is."""

    def __init__(self, place: Database) -> None:
        self.place = place
        self.rows: dict[int, tuple[str, int]] = {}
        self.clock = 0
        place.execute("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, changed BIGINT)")

    def put(self, identity: int, name: str) -> tuple[bytes, bytes]:
        self.clock += 1
        self.rows[identity] = (name, self.clock)
        self.place.execute(f"DELETE FROM people WHERE id = {identity}")
        self.place.execute(f"INSERT INTO people VALUES ({identity}, '{name}', {self.clock})")
        value = {"id": identity, "name": name, "changed": self.clock}
        return str(identity).encode(), json.dumps(value, separators=(",", ":")).encode()

    def remove(self, identity: int) -> tuple[bytes, None]:
        del self.rows[identity]
        self.place.execute(f"DELETE FROM people WHERE id = {identity}")
        return str(identity).encode(), None
