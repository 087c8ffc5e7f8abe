"""Targets without a replay, and the alternatives.

They are transforms to topics, parts of joins and aggregates, and archives.
"""

from orchestration.archive.declaration import archive_table
from orchestration.topics import declared_topic, declared_topics
from orchestration.transforms.declarations import declared_names, declared_table
from orchestration.transforms.joining import declarations as of_joins
from orchestration.transforms.replay_plan import why_no_replay_of_groups
from orchestration.transforms.to_topic import declarations as of_topics


def why_no_replay(name: str, *, is_everything: bool = False, is_of_dead_letters: bool = False) -> str | None:
    """Return why nothing can be replayed into ``name``, None if it can or is not declared.

    ``is_everything`` says that all committed records are requested, which a join and a table of
    aggregates support. ``is_of_dead_letters`` says that only rejected records are requested, which
    a transform to a topic supports.
    """
    if is_of_dead_letters and name in of_topics.declared_transforms():
        return None
    told = of_topics.why_no_replay(name) or of_joins.why_no_replay(name, is_everything=is_everything)
    told = told or why_no_replay_of_archive(name)
    if told is None and not is_everything and name in declared_names() and declared_table(name).aggregates:
        return why_no_replay_of_groups(name)
    return told


def is_replayed_whole(name: str) -> bool:
    """Return whether ``name`` can only be replayed whole, as a join or a table of aggregates."""
    return name in of_joins.declared_joins() or (name in declared_names() and bool(declared_table(name).aggregates))


def why_no_replay_of_archive(name: str) -> str | None:
    """Return why nothing can be replayed into the archive ``name``.

    Return None if it is no archive of a declared topic.
    """
    for topic in declared_topics():
        if declared_topic(topic).archived is not None and archive_table(topic) == name:
            return (
                f"{name} is the archive of the topic {topic}: it holds each record as it was, so that there is no replay into it. To have "
                "it built anew of what the log still holds, move the table's folder in the lake away: the next run begins at the log start"
            )
    return None
