"""One line in the log for each change that a person asks for, with its result."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from log_service.client.schemas.errors import SchemaRegistryError
from log_service.common.errors import KafkaError
from log_service.common.log_lines import escaped
from log_service.http.server.values import ANONYMOUS, HttpError

logger = logging.getLogger(__name__)

MAX_TARGET_CHARACTERS = 500


@contextmanager
def audited(user: str, address: str, action: str, target: str) -> Iterator[None]:
    """Log a change with its result when the context ends.

    ``user`` is empty without a login. ``address`` is that of the browser. The result of a change
    that was cancelled is ``unknown``, because it may have happened.
    """
    result = "unknown"
    try:
        yield
        result = "done"
    except KafkaError as error:
        result = f"refused {error.code.name}"
        raise
    except (HttpError, SchemaRegistryError) as error:
        result = f"refused {error.status}"
        raise
    finally:
        principal = f"User:{user}" if user else ANONYMOUS
        shown = escaped(target)[:MAX_TARGET_CHARACTERS]
        text = "audit: principal=%s address=%s action=%s target=%s result=%s"
        logger.info(text, escaped(principal), address, action, shown, result)
