"""Reads the inputs of tables, marts and copies, each given as an asset or by its name.

Decides whether an asset is of the right kind. Knows no run.
"""

import dagster as dg

from orchestration.lake.tables import LAKE_PREFIX
from orchestration.topics.spec import TOPIC_PREFIX

MART_PREFIX = "marts"
KINDS = {LAKE_PREFIX: "a table of the lake", MART_PREFIX: "a mart"}
ADVICE = {
    LAKE_PREFIX: ": name it among the tables",
    MART_PREFIX: ": only a mart reads marts, which it names among its marts",
    TOPIC_PREFIX: ": a table of its records is @spark_table(topic=...), name that",
}


def input_name(reader: str, given: str | dg.AssetsDefinition, kind: str = LAKE_PREFIX) -> str:
    """Return the name of an input of ``reader``, whose asset key has to begin with ``kind``.

    :raises ValueError: the asset is of another kind, or ``given`` is not an asset.
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, dg.AssetsDefinition):
        raise ValueError(  # noqa: TRY004 - as what else is wrong in a declaration
            f"{reader} reads what is of the type {type(given).__name__}: name {KINDS[kind]} by its"
            " asset or by its name"
        )
    found = given.key.path[0]
    if found != kind:
        advice = ADVICE.get(found, "")
        raise ValueError(
            f"{reader} reads {given.key.to_user_string()} as {KINDS[kind]}, and that is"
            f" none{advice}"
        )
    return given.key.path[-1]
