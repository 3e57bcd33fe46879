"""The verbs in the order of ``eunomia --help``: grouped by what a newcomer came for."""

from __future__ import annotations

from collections.abc import Sequence

from typer.core import TyperGroup
from typer.models import CommandInfo, TyperInfo

DOORS: dict[str, tuple[str, ...]] = {
    "Start here": ("demo", "doctor", "new"),
    "Compare policies: researcher": ("run", "compare", "sweep", "study", "explain", "report"),
    "Train policies and rules: researcher": ("train", "evaluate", "export", "distill", "rules", "evolve"),
    "Choose hardware: architect, capacity planner": ("plan",),
    "Serve networks: platform engineer": ("serve", "load", "twin", "promote", "deploy"),
    "Share one device: platform engineer": ("shares", "sharing", "profile"),
    "Training jobs: cluster operator, capacity planner": ("cluster",),
    "What there is, and files": ("models", "platforms", "policies", "scenario", "trace", "costs"),
}
DOOR_OF = {verb: door for door, verbs in DOORS.items() for verb in verbs}
ORDER = list(DOOR_OF)


class Doors(TyperGroup):
    """Lists the verbs by door; each panel of the help is one."""

    def list_commands(self, ctx: object) -> list[str]:
        """All verbs, in the order of the table."""
        return sorted(self.commands, key=ORDER.index)


def assign(infos: Sequence[CommandInfo | TyperInfo]) -> None:
    """Give each registered verb the panel of its door."""
    for info in infos:
        info.rich_help_panel = DOOR_OF[str(info.name)]
