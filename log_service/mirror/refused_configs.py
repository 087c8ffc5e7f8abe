"""Topics of which the target refuses configs. They get the others, so that their records are
mirrored all the same.

A cluster refuses a topic whole for one config, and names one at most. So once it has refused several, it is asked for each alone. Decides
which errors may be about configs, and what a person is told. Knows no flow.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, ItemsFailed, NewTopic
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId

MAY_BE_ABOUT_CONFIGS = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION})

Configs = Mapping[str, str | None]
"""Values by key; None where the cluster's own default is wanted."""
Tell = Callable[[str, str], None]
"""Gets a topic and what is refused of it."""


async def create_topics(target: Admin, topics: Sequence[NewTopic], tell: Tell) -> dict[str, TopicId]:
    """Create topics with the configs that the target takes, and return their ids.

    Raises:
        ItemsFailed: some could not be created, whatever their configs are; its results are the ids of the others.
        KafkaError: the target cannot be asked.
    """
    try:
        return await target.create_topics(topics)
    except ItemsFailed as error:
        created, failed = dict(error.results), dict(error.errors)
    for topic in topics:
        if topic.name not in failed or failed[topic.name].code not in MAY_BE_ABOUT_CONFIGS or not topic.configs:
            continue

        async def ask(key: str, value: str | None, topic: NewTopic = topic) -> None:
            await target.create_topics([replace(topic, configs={key: value or ""})], is_validated_only=True)

        refused = await _refused(topic.configs, ask)
        try:
            created |= await target.create_topics([replace(topic, configs=_without(topic.configs, refused))])
        except ItemsFailed as error:
            failed |= error.errors
        else:
            del failed[topic.name]
            tell(topic.name, _told(topic.configs, refused))
    if failed:
        raise ItemsFailed(failed, created)
    return created


async def alter_configs(target: Admin, changes: Mapping[str, Configs], tell: Tell) -> None:
    """Change those configs of topics that the target lets be changed.

    Raises:
        ItemsFailed: some topics could not be configured at all.
        KafkaError: the target cannot be asked.
    """
    try:
        await target.alter_configs({ConfigResource.topic(topic): configs for topic, configs in changes.items()})
    except ItemsFailed as error:
        failed = {resource.name: each for resource, each in error.errors.items()}
    else:
        return
    for topic in [name for name, error in failed.items() if error.code in MAY_BE_ABOUT_CONFIGS]:

        async def ask(key: str, value: str | None, topic: str = topic) -> None:
            await target.alter_configs({ConfigResource.topic(topic): {key: value}})

        refused = await _refused(changes[topic], ask)
        del failed[topic]
        tell(topic, _told(changes[topic], refused))
    if failed:
        raise ItemsFailed(failed, {})


async def _refused(configs: Configs, ask: Callable[[str, str | None], Awaitable[None]]) -> dict[str, KafkaError]:
    """Ask for each config alone, and return what is refused of it."""
    refused = {}
    for key, value in configs.items():
        try:
            await ask(key, value)
        except ItemsFailed as error:
            if error.code in MAY_BE_ABOUT_CONFIGS:
                refused[key] = next(iter(error.errors.values()))
    return refused


def _without(configs: Mapping[str, str], refused: Mapping[str, KafkaError]) -> dict[str, str]:
    return {key: value for key, value in configs.items() if key not in refused}


def _told(configs: Configs, refused: Mapping[str, KafkaError]) -> str:
    """Return what is refused, in words that stay the same until something changes."""
    return "; ".join(f"{key}={'its default' if configs[key] is None else configs[key]} ({refused[key]})" for key in sorted(refused))
