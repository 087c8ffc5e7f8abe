"""``tidelog completion`` prints a script by which a shell completes the words of a command.

These are commands, options, topics and groups. Decides only how the script is printed and what to
do with it. The scripts are click's, and ask ``tidelog`` itself for the completions.
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
