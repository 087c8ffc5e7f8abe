"""``tidelog completion`` prints a script by which a shell completes the words of a command.

The words are commands, options, topics and groups. This module only prints the script and tells how
to install it. The scripts are click's. They run ``tidelog`` itself for the completions.
"""

import click
from click.shell_completion import get_completion_class

PROGRAM = "tidelog"
VARIABLE = "_TIDELOG_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, *, shell: str) -> None:
    """Print a script that lets SHELL complete commands, options, topics and groups.

    \b
    bash, in ~/.bashrc:  source <(tidelog completion bash)
    zsh, in ~/.zshrc:    source <(tidelog completion zsh)
    fish, once:          tidelog completion fish \\
                           > ~/.config/fish/completions/tidelog.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "the choice offers only shells that click knows"
    root = context.find_root().command
    click.echo(kind(root, {}, PROGRAM, VARIABLE).source())
