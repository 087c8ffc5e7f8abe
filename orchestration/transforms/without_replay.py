"""What cannot be replayed: transforms to topics and tables in databases, and what there is instead."""

from orchestration.transforms.to_database import declarations as of_databases
from orchestration.transforms.to_topic import declarations as of_topics


def why_no_replay(name: str) -> str | None:
    """Return why nothing can be replayed into what ``name`` was declared as, None where it can, or is not declared."""
    return of_topics.why_no_replay(name) or of_databases.why_no_replay(name)
