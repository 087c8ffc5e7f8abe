"""Numbers on the command line. They are click's ranges under names that a person understands: 'x' is not a valid 'integer range' there."""

import click


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"
