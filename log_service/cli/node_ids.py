"""Reads node ids on the command line: one, several, or a list with commas.

A text that is not a node id is refused with a sentence.
"""

import click

MAX_NODE_ID = 2**31 - 1
MAX_DIGITS = 10


class NodeIdParameter(click.ParamType[int]):
    """The id of a broker or controller."""

    name = "id"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the id of the typed text."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        if not is_node_id(text):
            self.fail(
                f"{text!r} is not a node id, which is a whole number from 0 to {MAX_NODE_ID}, such"
                " as 1",
                param,
                ctx,
            )
        return int(text)


NODE_ID = NodeIdParameter()


def is_node_id(text: str) -> bool:
    """Return whether a text is a node id of Kafka: 32 bits, not negative."""
    return (
        len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal() and int(text) <= MAX_NODE_ID
    )


def node_ids_of(text: str, option: str) -> list[int]:
    """Return the node ids of a list with commas.

    Raises:
        BadParameter: an item is not a node id.
    """
    parts = [part.strip() for part in text.split(",")]
    wrong = [part for part in parts if not is_node_id(part)]
    if wrong:
        raise click.BadParameter(
            f"{text!r} is not a list of node ids like 1,2,3: {wrong[0]!r} is none",
            param_hint=option,
        )
    return [int(part) for part in parts]
