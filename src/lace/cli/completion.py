"""``lace completion``: what a shell needs to complete lace's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lace.cli.output import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the lines that let SHELL complete commands and options of lace.

    \b
    Example:
      eval "$(lace completion bash)"            # in ~/.bashrc
      eval "$(lace completion zsh)"             # in ~/.zshrc
      lace completion fish > ~/.config/fish/completions/lace.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    made = found(root, {}, "lace", "_LACE_COMPLETE")
    echo(made.source_template % made.source_vars())
