"""Reads passwords from a terminal without echo, from a file, or from standard input.

No command takes a secret as an argument, because arguments are visible in the process list and in
the history of shells.
"""

import sys
from collections.abc import Callable
from typing import TextIO

import click

from log_service.common.secrets import SecretText

MAX_BYTES = 1 << 16

password_file_option: Callable[[click.decorators.FC], click.decorators.FC] = click.option(
    "--password-file",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help=(
        "Read the password from the first line of FILE, - is standard input; without it a person is"
        " asked."
    ),
)


def asked_password(file: TextIO | None, whose: str, *, is_new: bool = True) -> SecretText:
    """Return a password from a file, or one that a person types, twice if it is new.

    Raises:
        ClickException: the password is empty, or there is no terminal.
    """
    if file is not None:
        text = file.readline(MAX_BYTES).rstrip("\r\n")
    elif sys.stdin.isatty():
        text = click.prompt(
            f"password of {whose}", hide_input=True, confirmation_prompt=is_new, err=True
        )
    else:
        raise click.ClickException(
            "there is no terminal to ask for a password: give it with --password-file FILE, or"
            " --password-file -"
        )
    if not text:
        raise click.ClickException(f"the password of {whose} is empty")
    return SecretText(text)
