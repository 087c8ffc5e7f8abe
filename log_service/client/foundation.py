"""Exports the errors and types of ``log_service.common`` that programs use with any client.

So a program can import all its names from the client.
"""

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import TopicPartition

__all__ = ["ConfigError", "ErrorCode", "KafkaError", "TopicPartition"]
