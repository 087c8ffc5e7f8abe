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
`--override key=value` over them. Every key of Apache Kafka 4.3 is known. DescribeConfigs shows it with Kafka's type, default, source,
synonyms and update mode. IncrementalAlterConfigs changes it by Kafka's rules: a broker's own value goes before the default of all brokers,
and that before the file. At the start one warning names the keys that have no effect here and are not set to their defaults. Another
warning names unknown keys. A node does not start if a key asks for protection that is not supported (an authorizer in Java, a policy).

*live* keys can be changed while the node runs, and the change survives a restart: `tidelog configs set --cluster-default
log.retention.ms=3600000`, or `kafka-configs`. `listener.name.NAME.max.connections` and `listener.name.NAME.max.connection.creation.rate`
apply to one listener.

## What differs from Apache Kafka on purpose

* A connection above `max.connections` is closed at once. Apache Kafka lets it wait.
* `max.connections`, `max.connections.per.ip`, `num.io.threads`, the sizes of socket buffers, `listeners` and `log.dir` have other
  defaults. The tables below give the reasons.
* If the file does not set `offsets.topic.replication.factor`, a lone node creates `__consumer_offsets` with one replica, not three.
* `listeners` cannot change while the node runs.
* A listener's demands on its clients (`sasl.enabled.mechanisms`, `ssl.client.auth` and similar keys) are read from the file only. A request
  that sets them changes nothing, and the node logs a warning. In Apache Kafka a running listener does not change either. Key stores, trust
  stores and the users of PLAIN change at once.
* A dead node is noticed at once (`node.death.grace.ms`). Apache Kafka waits for the session of a broker, and for the fetch timeout of a
  voter. Only a refused connection counts, which a host sends when no process listens. An unreachable host, or a process that hangs, is
  found by the timeouts, as in Apache Kafka. A live node that is taken for dead costs an election and no record.
* `min.insync.replicas` of the file counts once, as in Apache Kafka. A new cluster keeps eligible leader replicas (KIP-966), and the file of
  the first active controller gives the default of all brokers. Later the value can be changed for all brokers or for a topic, and not for
  one broker.
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
        "\n## Accepted keys without effect\n",
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
    return f"{key.documentation} Reason for the default: {key.reason}.{idle}".replace("|", "\\|")


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
