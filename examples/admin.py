"""Administer a cluster: create a topic if it does not exist, configure it, and print its state.

python examples/admin.py --bootstrap-servers 127.0.0.1:9092 --topic greetings
"""

import argparse

import trio

from log_service.client import Admin, ConfigResource, ErrorCode, KafkaError, NewTopic


async def administer(bootstrap_servers: str, topic: str) -> None:
    async with Admin(bootstrap_servers) as admin:
        cluster = await admin.describe_cluster()
        print(
            f"cluster {cluster.cluster_id}, {len(cluster.nodes)} brokers,"
            f" {'tidelog' if cluster.is_tidelog else 'another Kafka'}"
        )
        try:
            await admin.create_topics(
                [NewTopic(name=topic, partition_count=4, replication_factor=1)]
            )
            print(f"created {topic}")
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        resource = ConfigResource.topic(topic)
        await admin.alter_configs({resource: {"retention.ms": str(24 * 3_600_000)}})
        retention = (await admin.describe_configs([resource]))[resource]["retention.ms"]
        print(f"retention.ms is {retention.value} ({retention.source})")
        for partition, offsets in sorted((await admin.describe_offsets([topic])).items()):
            print(f"{partition}: offsets {offsets.log_start_offset} to {offsets.high_watermark}")
        for group in await admin.list_groups():
            committed = await admin.list_group_offsets(group.group_id)
            print(f"group {group.group_id} is {group.state}, {len(committed)} partitions committed")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="greetings")
    arguments = parser.parse_args()
    trio.run(administer, arguments.bootstrap_servers, arguments.topic)


if __name__ == "__main__":
    main()
