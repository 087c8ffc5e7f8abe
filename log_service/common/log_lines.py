"""Lines of a log, and of a terminal: one event is one line, whatever a client has put into it.

Texts in log lines come from clients, too: names of topics and groups, the name in a certificate,
the subject of a token. A line feed in one would begin a line that looks like the node's own, and
other control characters would change what a terminal shows. Decides only how such characters are
written, not when a line is written.
"""

import logging


class LineFormatter(logging.Formatter):
    """Formats events with the control characters of their text escaped.

    A traceback stands below its line, on lines of its own.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line of an event, without its traceback."""
        return escaped(super().formatMessage(record))


def escaped(text: str) -> str:
    """Return a text without characters that have no glyph: control characters and separators of
    lines.
    """
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else _escape(each) for each in text)
    )


def escaped_lines(text: str) -> str:
    """Return a text whose control characters are escaped, line breaks apart.

    Terminals would obey them.
    """
    return "\n".join(map(escaped, text.split("\n")))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
