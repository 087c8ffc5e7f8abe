"""Escapes log lines and terminal lines, so that one event is one line, whatever clients send.

Texts in log lines come from clients, too: names of topics and groups, the name in a certificate,
the subject of a token. A line feed in such a text would begin a line that looks like the node's
own, and other control characters would change what a terminal shows. This module only decides how
such characters are written, not when a line is written.
"""

import logging


class LineFormatter(logging.Formatter):
    """Formats events with the control characters of their text escaped.

    A traceback is written after its line, on lines of its own.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line of an event, without its traceback."""
        return escaped(super().formatMessage(record))


def escaped(text: str) -> str:
    """Escape the characters of a text that cannot be printed.

    These are control characters and line separators.
    """
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else _escape(each) for each in text)
    )


def escaped_lines(text: str) -> str:
    """Escape the control characters of a text except its line breaks.

    Terminals would interpret them.
    """
    return "\n".join(map(escaped, text.split("\n")))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
