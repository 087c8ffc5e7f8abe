"""Writes ``docs/configuration.md`` from the declared keys: ``python -m tools.configuration_page``.

Decides the page's shape. The text about a key is the key's own documentation. A test checks that
the page is up to date.
"""

from collections.abc import Iterable
from pathlib import Path

from log_service.config.accepted_keys import FAMILIES
from log_service.config.definition import ConfigKey, Trait, UpdateMode
from log_service.config.server_keys import SERVER_KEYS
from log_service.config.topic_keys import TOPIC_KEYS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
WHEN = {
    UpdateMode.READ_ONLY: "file",
    UpdateMode.PER_BROKER: "live, per broker",
    UpdateMode.CLUSTER_WIDE: "live",
}
FOREVER = {str(2**63 - 1): "no limit", str(2**31 - 1): "no limit", None: "-", "": "empty"}

HEAD = """# Configuration

Written by `python -m tools.configuration_page`. `tidelog serve FILE` takes Apache Kafka's own server properties, in Java's syntax, and
`--override key=value` over them. Every key of Apache Kafka 4.3 is known: shown by DescribeConfigs with Kafka's type, default, source,
synonyms and update mode, and changed by IncrementalAlterConfigs with Kafka's rules (a broker's own value over the default of all brokers,
over the file). A key that acts has a test that sees what it does; a key without effect here is named in one warning when it is set to
something else than its default; an unknown name is named in another. What asks for protection that is not there (an authorizer in
Java, a policy) ends the start with a sentence.

*live* keys change while the node runs, without a restart, and survive one: `tidelog configs set --cluster-default
log.retention.ms=3600000`, or `kafka-configs`. `listener.name.NAME.max.connections` and `listener.name.NAME.max.connection.creation.rate`
hold for one listener.

## What differs from Apache Kafka on purpose

* A connection above `max.connections` is closed at once; Kafka lets it wait.
* `max.connections`, `max.connections.per.ip`, `num.io.threads`, the sizes of socket buffers, `listeners` and `log.dir` have other defaults;
  each says why below.
* Where its file names no `offsets.topic.replication.factor`, a node alone makes one replica of the topic of groups, not three.
* `listeners` cannot change while the node runs.
* What a listener asks of its clients (`sasl.enabled.mechanisms`, `ssl.client.auth` and their like) counts from the file alone. A request
  that sets it changes nothing, and the node warns of it; in Apache Kafka, too, a listener that runs stays as it is. Key stores, trust
  stores and the users of PLAIN change at once.
* A death is seen at once (`node.death.grace.ms`); Kafka waits for the session of a broker, and for the fetch timer of a voter. Only a
  refused connection counts, which a host sends when no process listens. A host out of reach proves nothing, and a process that hangs still
  has its connections accepted: those are found as in Kafka. A live node that is taken for dead costs an election and no record.
* `min.insync.replicas` of the file counts once, as in Kafka: a new cluster keeps eligible leader replicas (KIP-966), and the file of the
  controller that leads first gives the default of all brokers. Later it is changed there, or for a topic, and not for one broker.
"""


def page() -> str:
    """Return the page's text."""
    acting = [
        key
        for name, key in sorted(SERVER_KEYS.items())
        if key.is_acting and Trait.INTERNAL not in key.traits
    ]
    parts = [
        HEAD,
        "## Keys of a broker\n",
        *_table(acting),
        "\n## Keys of a topic\n",
        "Each has a default in the broker's file.\n",
        *_topic_table(),
        "\n## Known, and without effect\n",
        *_idle(),
    ]
    return "\n".join(parts) + "\n"


def _table(keys: Iterable[ConfigKey]) -> Iterable[str]:
    yield "| key | default | set | what it does |\n|---|---|---|---|"
    for key in keys:
        when = "file" if key.traits & (Trait.RESTART | Trait.FILE_ALONE) else WHEN[key.update_mode]
        if key.is_about_access and when != "file":
            when += ", needs `alter`"
        yield f"| `{key.name}` | {_default(key)} | {when} | {_said(key)} |"


def _topic_table() -> Iterable[str]:
    yield "| key | the broker's | default | what it does |\n|---|---|---|---|"
    for name, key in sorted(TOPIC_KEYS.items()):
        synonyms = ", ".join(f"`{synonym}`" for synonym in key.synonyms) or "-"
        yield f"| `{name}` | {synonyms} | {_default(key)} | {_said(key)} |"


def _idle() -> Iterable[str]:
    grouped = set()
    for documentation, rows in FAMILIES:
        names = [row.name for row in rows if Trait.INTERNAL not in row.traits]
        grouped |= {row.name for row in rows}
        yield f"* {documentation} " + ", ".join(f"`{name}`" for name in names)
    for name, key in sorted(SERVER_KEYS.items()):
        if not key.is_acting and name not in grouped:
            yield f"* `{name}`: {key.documentation}"


def _default(key: ConfigKey) -> str:
    return FOREVER.get(key.default, f"`{key.default}`")


def _said(key: ConfigKey) -> str:
    idle = "" if key.is_acting else " Without effect here."
    return f"{key.documentation} Default: {key.reason}.{idle}".replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
