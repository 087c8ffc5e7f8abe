"""``tidelog serve`` runs one broker in the foreground, from a file of Kafka's server properties."""

import gc
from pathlib import Path

import click


@click.command()
@click.argument(
    "properties", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property that wins over the file; may be repeated.",
)
def serve(*, properties: Path, overrides: tuple[str, ...]) -> None:
    """Run one node in the foreground from FILE, a file of Kafka's server properties.

    Known keys are honoured (listeners, advertised.listeners, log.dirs, node.id, num.partitions,
    auto.create.topics.enable, ...), unknown ones are named in one warning. A fresh log directory is
    formatted by itself. SIGTERM and Ctrl-C stop the node in order.

    \b
    A file that is enough:
      node.id=1
      listeners=PLAINTEXT://127.0.0.1:9092
      log.dirs=/var/lib/tidelog
    """
    # nearly all that an import makes stays, and looking through it again and again costs a tenth of
    # the start
    gc.disable()
    from log_service.broker.main import (  # noqa: PLC0415 - the other commands need no broker
        serve as serve_node,
    )

    # no collection goes through the modules ever after, the one that ends the start included; half
    # a megabyte stays with them
    gc.freeze()
    raise click.exceptions.Exit(serve_node(properties, list(overrides)))
