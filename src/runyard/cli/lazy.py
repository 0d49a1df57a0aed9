"""A group of commands that are imported when they are called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

Sections = Mapping[str, Mapping[str, tuple[str, str]]]
"""By section and name: a command's module, and its line in the help."""


class LazyGroup(click.Group):
    """Commands by name, in sections; each is in a module of one package."""

    def __init__(self, *args: Any, sections: Sections, package: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sections = sections
        self._package = package
        self._modules = {
            name: module for group in sections.values() for name, (module, _) in group.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order of the help."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load a command."""
        if cmd_name not in self._modules:
            return None
        module = import_module(f"{self._package}.{self._modules[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names, or suggest one."""
        if args and args[0] not in self._modules and not args[0].startswith("-"):
            from runyard.spec.names import did_you_mean

            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], self._modules)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands in their sections."""
        for section, group in self.sections.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in group.items()], col_max=10)
