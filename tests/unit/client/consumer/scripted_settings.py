"""The settings of consumers that talk to a scripted cluster."""

SERVERS = "broker:9092"
PROPERTIES = {
    "node.id": "1",
    "listeners": f"PLAINTEXT://{SERVERS}",
    "log.dirs": "/data/kafka",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
}
