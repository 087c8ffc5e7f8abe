"""Exports names of ``common`` that programs with a client need.

So they can import all that they need from the client.
"""

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import TopicPartition

__all__ = ["ConfigError", "ErrorCode", "KafkaError", "TopicPartition"]
