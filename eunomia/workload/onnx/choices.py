"""What an ONNX file leaves open about its branches and loops, and who says it."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from eunomia.core.errors import ConfigError, ModelError, UnknownNameError
from eunomia.workload.onnx.subgraphs import Spot, control_nodes

BRANCHES = ("then", "else")


class Choices:
    """Branches and trip counts by node.

    A node is named as in the file; where that name is not unique by its place, ``outer/then/inner``, or
    in one iteration alone by its path, ``loop/3/inner``. The most precise name wins. What the file
    itself fixes needs no choice, and a choice that contradicts the file is refused.
    """

    def __init__(self, branches: Mapping[str, str], trip_counts: Mapping[str, int]) -> None:
        for setting, given in (("branches", branches), ("trip_counts", trip_counts)):
            if not isinstance(given, Mapping):
                raise ConfigError(f"{setting} = {given!r}; give a mapping from nodes to what they do")
        for node, branch in branches.items():
            if branch not in BRANCHES:
                raise ConfigError(f"branches: node '{node}' = {branch!r}; choose one of: then, else")
        for node, count in trip_counts.items():
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise ConfigError(f"trip_counts: node '{node}' = {count!r}; write a whole number, 0 or more")
        self._branches, self._trip_counts = dict(branches), dict(trip_counts)
        self._met: set[str] = set()  # names by which callers chose nodes

    def check_names(self, graph: onnx.GraphProto) -> None:
        """Raise UnknownNameError for a name that no branch, or no loop, of the file has."""
        nodes = list(control_nodes(graph))
        self._known = {name for _, spot in nodes for name in (spot.name, spot.place)}
        turning = tuple(f"{spot.place}/" for op, spot in nodes if op != "If")
        self._check(self._branches, "branch", [spot for op, spot in nodes if op == "If"], turning)
        self._check(
            self._trip_counts, "loop", [spot for op, spot in nodes if op in ("Loop", "Scan")], turning
        )

    def check_met(self) -> None:
        """Raise UnknownNameError for a path into a loop to which no iteration came. Called once all is written out."""
        for kind, given in (("branch", self._branches), ("loop", self._trip_counts)):
            for name in given:
                if name not in self._met and name not in self._known:
                    raise UnknownNameError(kind, name, self._met)

    def branch(self, spot: Spot, known: bool | None) -> str:
        """The branch that the If at ``spot`` takes; ``known`` is its condition where the file fixes it."""
        self._met.update(_names(spot))
        chosen = next((self._branches[n] for n in _names(spot) if n in self._branches), None)
        if known is None:
            if chosen is None:
                raise _unsaid("its condition depends on data; say which branch runs", spot, "branch", "then")
            return chosen
        fixed = BRANCHES[0 if known else 1]
        if chosen not in (None, fixed):
            raise ModelError(f"branches says '{chosen}', but its condition is always {str(known).lower()}")
        return fixed

    def trip_count(self, spot: Spot) -> int | None:
        """How often the loop at ``spot`` runs, None where nothing is said."""
        self._met.update(_names(spot))
        return next((self._trip_counts[n] for n in _names(spot) if n in self._trip_counts), None)

    @staticmethod
    def missing_trip_count(spot: Spot, why: str) -> ModelError:
        """The error for a loop of which nobody says how often it runs."""
        return _unsaid(f"{why}; say how often it runs", spot, "trip-count", "12")

    @staticmethod
    def _check(given: Mapping[str, object], kind: str, spots: list[Spot], turning: tuple[str, ...]) -> None:
        known = {name for spot in spots for name in (spot.name, spot.place)}
        for name in given:
            if name not in known and not name.startswith(turning):
                raise UnknownNameError(kind, name, known or {"(the file has none)"})


def _names(spot: Spot) -> tuple[str, str, str]:
    return spot.path, spot.place, spot.name


def _unsaid(problem: str, spot: Spot, option: str, value: str) -> ModelError:
    key = spot.place
    setting = "branches" if option == "branch" else "trip_counts"
    quoted = f"'{value}'" if option == "branch" else value
    return ModelError(
        f"{problem}: {setting}={{'{key}': {quoted}}} (in a scenario: {setting} = {{ \"{key}\" = "
        f"{quoted.replace(chr(39), chr(34))} }}; on the command line: --{option} {key}={value})"
    )
