"""Topics that the projects of an installation declare, for auto-creation with declared parameters.

A producer may start before its project, or continue while the topic is deleted. The topic would
then have a broker's defaults forever, because partitions cannot be removed. The file is read
whenever a client makes this broker create a topic. This is rare, and a declaration counts as soon
as it is written. Decides the meaning of the file. Knows no project.

Invariant: a missing or invalid file does not prevent the creation of a topic.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from log_service.common.env import Files
from log_service.common.errors import TidelogError
from log_service.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig

Declared = Callable[[], Awaitable[Mapping[str, CreatableTopic]]]
"""Returns the declared topics by name."""

logger = logging.getLogger(__name__)


def declared_topics(files: Files, path: Path | None) -> Declared:
    """Return a function that reads the declared topics from ``path``.

    If the path is None, no topics are declared.
    """

    async def read() -> Mapping[str, CreatableTopic]:
        if path is None:
            return {}
        try:
            return parse_declared(await files.run_in_pool(lambda: files.read_bytes(path)))
        except FileNotFoundError:
            return {}
        except (OSError, TidelogError, ValueError) as error:
            logger.warning(
                "The declared topics in %s cannot be read, and topics get the defaults: %s",
                path,
                error,
            )
            return {}

    return read


def parse_declared(content: bytes) -> dict[str, CreatableTopic]:
    """Return the declared topics of a file.

    Its format is ``{"topics": {NAME: {"partitions": 4, "replication_factor": 1, "configs": {KEY:
    TEXT}}}}``.

    :raises ValueError: the file has another format.
    """
    try:
        return {
            str(name): CreatableTopic(
                name=str(name),
                num_partitions=int(one["partitions"]),
                replication_factor=int(one["replication_factor"]),
                configs=[
                    CreatableTopicConfig(name=str(key), value=str(value))
                    for key, value in one["configs"].items()
                ],
            )
            for name, one in json.loads(content)["topics"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"it is not a file of declared topics ({type(error).__name__}: {error})"
        ) from error
