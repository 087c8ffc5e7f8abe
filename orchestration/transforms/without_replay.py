"""What cannot be replayed: transforms to topics, tables in databases, joins, aggregates, and what there is instead."""

from orchestration.transforms.declarations import declared_names, declared_table
from orchestration.transforms.joining import declarations as of_joins
from orchestration.transforms.replay_run import why_no_replay_of_groups
from orchestration.transforms.to_database import declarations as of_databases
from orchestration.transforms.to_topic import declarations as of_topics


def why_no_replay(name: str) -> str | None:
    """Return why nothing can be replayed into what ``name`` was declared as, None where it can, or is not declared."""
    told = of_topics.why_no_replay(name) or of_databases.why_no_replay(name) or of_joins.why_no_replay(name)
    if told is None and name in declared_names() and (table := declared_table(name)).aggregates:
        return why_no_replay_of_groups(name, table.topic.name)
    return told
