"""Writes records to topics that come and go. Nothing is promised of these records, no client reads
them, and they may do no harm.

They are there for what is left of them on the disk, in checkpoints above all, when another topic of
the same name begins.
"""

from typing import Any

from log_service.client import Producer
from log_service.common.env import Env
from log_service.common.errors import KafkaError

DELIVERY_TIMEOUT_MS = 6_000


async def write_some(env: Env, bootstrap: str, topic: str, **timeouts: Any) -> None:
    """Write a few records; a topic that is gone takes none, and is not made by that."""
    settings = {**timeouts, "delivery_timeout_ms": DELIVERY_TIMEOUT_MS, "max_block_ms": 1_000}
    async with Producer(bootstrap, env=env, **settings) as producer:
        for _ in range(env.rng.randint(1, 20)):
            try:
                await producer.send(topic, value=b"passing")
            except KafkaError:
                return
