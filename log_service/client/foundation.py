"""Names of ``common`` that programs with a client need, so that they import them from the client,
too.
"""

from log_service.common.errors import ConfigError, ErrorCode, KafkaError
from log_service.common.types import TopicPartition

__all__ = ["ConfigError", "ErrorCode", "KafkaError", "TopicPartition"]
