"""Consume a topic as a member of a group, and commit processed records.

Start it twice: the members share the partitions.

python examples/consume.py --bootstrap-servers 127.0.0.1:9092 --topic greetings --group readers
"""

import argparse
from collections.abc import Sequence

import trio

from log_service.client import Consumer, TopicPartition


def told(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"


async def consume(bootstrap_servers: str, topic: str, group_id: str, idle_ms: int) -> None:
    """Read until no record has come for ``idle_ms`` (0: for ever)."""
    async with Consumer(
        bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=("cooperative-sticky",),
    ) as consumer:
        await consumer.subscribe(
            [topic],
            on_assigned=lambda partitions: print(f"now also reading {told(partitions)}"),
            on_revoked=lambda partitions: print(f"gave up {told(partitions)}"),
        )
        while True:
            records = await consumer.poll(timeout_ms=idle_ms or 60_000)
            for record in records:
                print(
                    f"{record.topic}-{record.partition} {record.offset:>8} {record.key!r}"
                    f" {record.value!r}"
                )
            if records:
                await consumer.commit()  # after the work: a crash repeats records, and loses none
            elif idle_ms:
                return


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--group", default="readers")
    parser.add_argument(
        "--idle-ms",
        type=int,
        default=0,
        help="end when nothing has come for so long (default: never)",
    )
    arguments = parser.parse_args()
    trio.run(
        consume, arguments.bootstrap_servers, arguments.topic, arguments.group, arguments.idle_ms
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("stopped")
