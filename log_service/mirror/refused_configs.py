"""Creates and alters topics without the configs that the target refuses.

A cluster refuses a topic as a whole because of one config, and its error names at most one config.
So after a refusal each config of the topic is tried alone. The topic then gets the accepted
configs, and its records are mirrored. This module decides which errors may be about configs, and
makes the text that reports the refused configs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from log_service.client.admin.admin import Admin
from log_service.client.admin.values import ConfigResource, ItemsFailed, NewTopic
from log_service.common.errors import ErrorCode, KafkaError
from log_service.common.types import TopicId

MAY_BE_ABOUT_CONFIGS = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION})

Configs = Mapping[str, str | None]
"""Values by key. None resets a key to the cluster's default."""
OnRefusal = Callable[[str, str], None]
"""Receives a topic, and a text about its refused configs."""


async def create_topics(
    target: Admin, topics: Sequence[NewTopic], on_refusal: OnRefusal
) -> dict[str, TopicId]:
    """Create topics with the configs that the target accepts, and return their ids.

    For each topic that needed a second attempt, ``on_refusal`` is called with its name and a text
    about the refused configs, which is empty if there are none.

    Raises:
        ItemsFailed: some topics could not be created, even without refused configs. Its results
            are the ids of the others.
        KafkaError: the request itself failed.
    """
    try:
        return await target.create_topics(topics)
    except ItemsFailed as error:
        created, failed = dict(error.results), dict(error.errors)
    for topic in topics:
        if (
            topic.name not in failed
            or failed[topic.name].code not in MAY_BE_ABOUT_CONFIGS
            or not topic.configs
        ):
            continue

        async def ask(key: str, value: str | None, topic: NewTopic = topic) -> None:
            await target.create_topics(
                [replace(topic, configs={key: value or ""})], is_validated_only=True
            )

        refused = await _refused(topic.configs, ask)
        try:
            created |= await target.create_topics(
                [replace(topic, configs=_without(topic.configs, refused))]
            )
        except ItemsFailed as error:
            failed |= error.errors
        else:
            del failed[topic.name]
            on_refusal(topic.name, _refusal_text(topic.configs, refused))
    if failed:
        raise ItemsFailed(failed, created)
    return created


async def alter_configs(
    target: Admin, changes: Mapping[str, Configs], on_refusal: OnRefusal
) -> None:
    """Change the configs of topics, without the changes that the target refuses.

    ``on_refusal`` is called as by ``create_topics``.

    Raises:
        ItemsFailed: the changes of some topics failed for another reason than their configs.
        KafkaError: the request itself failed.
    """
    try:
        await target.alter_configs(
            {ConfigResource.topic(topic): configs for topic, configs in changes.items()}
        )
    except ItemsFailed as error:
        failed = {resource.name: each for resource, each in error.errors.items()}
    else:
        return
    for topic in [name for name, error in failed.items() if error.code in MAY_BE_ABOUT_CONFIGS]:

        async def ask(key: str, value: str | None, topic: str = topic) -> None:
            await target.alter_configs({ConfigResource.topic(topic): {key: value}})

        refused = await _refused(changes[topic], ask)
        del failed[topic]
        on_refusal(topic, _refusal_text(changes[topic], refused))
    if failed:
        raise ItemsFailed(failed, {})


async def _refused(
    configs: Configs, ask: Callable[[str, str | None], Awaitable[None]]
) -> dict[str, KafkaError]:
    """Try each config alone with ``ask``, and return the errors of the refused ones by key."""
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


def _refusal_text(configs: Configs, refused: Mapping[str, KafkaError]) -> str:
    """Return a text about refused configs, in a fixed order.

    Equal refusals give equal texts, so that a complaint about them is logged once.
    """
    return "; ".join(
        f"{key}={'its default' if configs[key] is None else configs[key]} ({refused[key]})"
        for key in sorted(refused)
    )
