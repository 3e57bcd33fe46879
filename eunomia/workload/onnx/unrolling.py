"""Write branches and loops out: one list of plain nodes, as they run.

Of an ``If`` the branch that runs takes its place. The body of a ``Loop`` or ``Scan`` is repeated, each time
on the results before. So sizes may grow from one iteration to the next. Nodes get the path to them as their
name: ``loop/3/inner``. What a body stores is stored once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import onnx
from onnx import TensorProto, helper

from eunomia.core.errors import ModelError
from eunomia.workload.onnx.choices import Choices
from eunomia.workload.onnx.file import LIMIT_NODES
from eunomia.workload.onnx.node_errors import naming
from eunomia.workload.onnx.node_types import attributes_of, domain_of
from eunomia.workload.onnx.order import live, topological
from eunomia.workload.onnx.shapes import Shapes
from eunomia.workload.onnx.subgraphs import Spot, bodies, stored_tensors

LIMIT_TURNS = 10_000  # of a loop of which only the file says how often it runs

Names = Mapping[str, str]  # how the tensors that a graph can see are called in the list


@dataclass(frozen=True, slots=True)
class Site:
    """A node to be written out: as the file has it, its inputs and outputs as the list calls them."""

    node: onnx.NodeProto
    inputs: Sequence[str]
    outputs: Sequence[str]
    spot: Spot
    names: Names


class Unrolling:
    """Collects the nodes in the order in which they run, with the types of their results.

    ``stored`` (elements by name) grows by the constants that bodies store.
    """

    def __init__(self, shapes: Shapes, choices: Choices, stored: dict[str, int], opset: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._shapes = shapes
        self._choices = choices
        self._stored = stored
        self._opset = opset
        self._written: set[str] = set(stored)
        self._empty: set[str] = set()  # outputs of loops that run 0 times
        self._kept: dict[object, dict[str, str]] = {}  # constants of bodies met before

    def run(self, nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
        """All nodes that run, those of branches and loops in place of the nodes that hold them."""
        for node in nodes:
            self._place(Site(node, list(node.input), list(node.output), Spot.of(node), {}))
        return self.nodes

    def _place(self, site: Site) -> None:
        with naming(site.node, site.spot.path):
            control = {"If": self._branch, "Loop": self._loop, "Scan": self._scan}.get(site.node.op_type)
            if control is not None and domain_of(site.node.domain) == "":
                control(site)
                return
            plain = site.node
            if site.spot.path != site.spot.name:
                plain = onnx.NodeProto(
                    op_type=site.node.op_type, domain=site.node.domain, name=site.spot.path
                )
                plain.input.extend(site.inputs)
                plain.output.extend(site.outputs)
                plain.attribute.extend(site.node.attribute)
            self._append(plain)

    def _append(self, node: onnx.NodeProto) -> None:
        if len(self.nodes) >= LIMIT_NODES:
            raise ModelError(f"with its loops written out the network has more than {LIMIT_NODES} nodes")
        unknown = self._empty.intersection(node.input)
        if unknown:
            raise ModelError(
                f"'{min(unknown)}' comes from a loop that runs 0 times, so its shape is not known"
            )
        twice = self._written.intersection(filter(None, node.output))
        if twice:
            raise ModelError(
                f"'{min(twice)}' is written twice; give the nodes that hold graphs different names"
            )
        self._written.update(node.output)
        self._shapes.infer(node)
        self.nodes.append(node)

    def _emit(self, op: str, inputs: Sequence[str], output: str, **attributes: object) -> str:
        node = helper.make_node(op, list(inputs), [output], output)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self._append(node)
        return output

    def _constant(self, output: str, kind: int, shape: Sequence[int], values: Sequence[int]) -> str:
        return self._emit("Constant", [], output, value=helper.make_tensor(output, kind, shape, values))

    def _pass_on(self, values: Sequence[str], outputs: Sequence[str]) -> None:
        for value, output in zip(values, outputs, strict=False):
            if output:
                self._emit("Identity", [value], output)

    def _branch(self, site: Site) -> None:
        branch = self._choices.branch(site.spot, self._truth(site.inputs[0]))
        body = bodies(site.node)[f"{branch}_branch"]
        names = self._keep(body, site, branch)
        results = self._repeat(body, self._ordered(body, names), site.spot, names, branch=branch)
        self._pass_on(results, site.outputs)

    def _loop(self, site: Site) -> None:
        body, path = bodies(site.node)["body"], site.spot.path
        names = self._keep(body, site)
        ordered = self._ordered(body, names)
        counter, going, *carried = [entry.name for entry in body.input]
        limit, condition, *_ = [*site.inputs, "", ""]
        state = list(site.inputs[2:])
        if len(carried) != len(state):
            raise ModelError(f"its body carries {len(carried)} values on, but gets {len(state)}")
        count, chosen = self._limit(limit, site.spot), self._choices.trip_count(site.spot)
        if chosen is not None and chosen * len(ordered) > LIMIT_NODES:
            raise ModelError(
                f"{chosen} iterations of {len(ordered)} nodes are more than the {LIMIT_NODES} that can be written out"
            )
        condition = condition or self._constant(f"{path}/start", TensorProto.BOOL, [], [1])
        gathered: list[list[str]] = []
        while _goes_on(site.spot, len(gathered), count, chosen, self._truth(condition)):
            turn = len(gathered)
            number = self._constant(f"{path}/{turn}/{counter}", TensorProto.INT64, [], [turn])
            own = {**names, counter: number, going: condition, **dict(zip(carried, state, strict=True))}
            condition, *results = self._repeat(body, ordered, site.spot, own, iteration=turn)
            state = results[: len(carried)]
            gathered.append(results[len(carried) :])
        self._pass_on(state, site.outputs)
        for column, output in enumerate(site.outputs[len(state) :]):
            self._join([results[column] for results in gathered], output, 0)

    def _limit(self, name: str, spot: Spot) -> int | None:
        """The largest number of iterations, None where the loop has no such limit."""
        values = self._shapes.values(name) if name else None
        if values is not None:
            return max(0, int(values[0]))
        if name and self._choices.trip_count(spot) is None:
            raise Choices.missing_trip_count(spot, "its trip count depends on data")
        return None

    def _scan(self, site: Site) -> None:
        if self._opset < 9:
            raise ModelError(f"Scan of operator set {self._opset} is not supported; export with 9 or later")
        body, settings = bodies(site.node)["body"], attributes_of(site.node)
        names = self._keep(body, site)
        ordered = self._ordered(body, names)
        given = len(site.inputs) - int(settings["num_scan_inputs"])
        state, sources = list(site.inputs[:given]), site.inputs[given:]
        axes = settings.get("scan_input_axes") or [0] * len(sources)
        backwards = settings.get("scan_input_directions") or [0] * len(sources)
        count = self._length(sources, axes, site.spot)
        gathered: list[list[str]] = []
        for turn in range(count):
            parts = []
            for entry, source, axis, back in zip(body.input[given:], sources, axes, backwards, strict=True):
                at, index = f"{site.spot.path}/{turn}/{entry.name}", count - 1 - turn if back else turn
                number = self._constant(f"{at}/index", TensorProto.INT64, [], [index])
                parts.append(self._emit("Gather", [source, number], at, axis=axis))
            own = {**names, **dict(zip([e.name for e in body.input], [*state, *parts], strict=True))}
            results = self._repeat(body, ordered, site.spot, own, iteration=turn)
            state = results[:given]
            gathered.append(results[given:])
        self._pass_on(state, site.outputs)
        outputs = site.outputs[given:]
        out_axes = settings.get("scan_output_axes") or [0] * len(outputs)
        reverse = settings.get("scan_output_directions") or [0] * len(outputs)
        for column, (output, axis, back) in enumerate(zip(outputs, out_axes, reverse, strict=True)):
            self._join([results[column] for results in (gathered[::-1] if back else gathered)], output, axis)

    def _length(self, sources: Sequence[str], axes: Sequence[int], spot: Spot) -> int:
        """The size of the scanned axis, which all sources have in common."""
        found = set()
        for source, axis in zip(sources, axes, strict=True):
            shape = self._shapes.shape(source)
            if shape is None:
                raise ModelError(f"the shape of '{source}', over which it runs, depends on data")
            found.add(shape[axis])
        if len(found) != 1:
            raise ModelError(f"it runs over axes of different sizes: {sorted(found)}")
        count = found.pop()
        chosen = self._choices.trip_count(spot)
        if chosen not in (None, count):
            raise ModelError(f"trip_counts says {chosen}, but it runs over an axis of {count}")
        return count

    def _join(self, parts: Sequence[str], output: str, axis: int) -> None:
        """What the iterations have made, side by side along a new axis."""
        if not output:
            return
        if not parts:
            self._empty.add(output)
            return
        if self._opset >= 13:
            at = self._constant(f"{output}/axis", TensorProto.INT64, [1], [axis])
            rows = [self._emit("Unsqueeze", [name, at], f"{output}/{i}") for i, name in enumerate(parts)]
        else:
            rows = [self._emit("Unsqueeze", [n], f"{output}/{i}", axes=[axis]) for i, n in enumerate(parts)]
        self._emit("Concat", rows, output, axis=axis)

    def _repeat(
        self, body: onnx.GraphProto, ordered: Sequence[onnx.NodeProto], spot: Spot, names: Names,
        *, branch: str = "", iteration: int | None = None,
    ) -> list[str]:  # fmt: skip
        """Write a body out once; returns its outputs as the list calls them."""
        made = dict(names)
        for node in ordered:
            inside = spot.inside(node, branch, iteration)
            prefix = inside.path.removesuffix(inside.name)
            inputs = [made.get(name, name) for name in node.input]
            outputs = [name and prefix + name for name in node.output]
            made.update(zip(node.output, outputs, strict=True))
            self._place(Site(node, inputs, outputs, inside, made))
        return [made.get(entry.name, entry.name) for entry in body.output]

    def _keep(self, body: onnx.GraphProto, site: Site, branch: str = "") -> dict[str, str]:
        """The names that a body sees: those around it, and what it stores itself, taken over once."""
        key = (site.spot.place, branch, len(body.node), tuple(entry.name for entry in body.output))
        if key not in self._kept:
            prefix = "/".join(filter(None, (site.spot.place, branch, "")))
            own = self._kept[key] = {}
            for name, tensor in stored_tensors(body).items():
                own[name] = prefix + name
                self._shapes.store(own[name], tensor)
                self._stored[own[name]] = prod(tensor.dims)
                self._written.add(own[name])
            for node in body.node:
                if _is_constant(node):
                    own[node.output[0]] = self._emit(
                        "Constant", [], prefix + node.output[0], **attributes_of(node)
                    )
        return {**site.names, **self._kept[key]}

    def _ordered(self, body: onnx.GraphProto, names: Names) -> list[onnx.NodeProto]:
        """The nodes of a body that its outputs need, each after those it depends on."""
        known = {entry.name for entry in body.input}.union(names)
        nodes = [node for node in body.node if not _is_constant(node)]
        ordered = topological(
            nodes, lambda name: name in known or name in self._written or self._shapes.has(name)
        )
        return live(ordered, {entry.name for entry in body.output})

    def _truth(self, name: str) -> bool | None:
        """A condition, None where it depends on data."""
        values = self._shapes.values(name)
        return None if values is None or len(values) != 1 else bool(values[0])


def _goes_on(spot: Spot, turn: int, count: int | None, chosen: int | None, truth: bool | None) -> bool:
    """Whether another iteration follows after ``turn`` of them.

    ``count`` is the most that the file allows, ``chosen`` what the user says, ``truth`` the condition.
    """
    ends = truth is False or turn == count
    if chosen is None:
        if not ends and truth is None:
            raise Choices.missing_trip_count(spot, "its condition depends on data")
        if not ends and turn >= LIMIT_TURNS:
            raise Choices.missing_trip_count(spot, f"it has not ended after {turn} iterations")
        return not ends
    if ends and turn < chosen:
        raise ModelError(f"trip_counts says {chosen}, but it ends after {turn}")
    if turn == chosen and not ends and truth and count is not None:
        raise ModelError(f"trip_counts says {chosen}, but it always runs {count} times")
    return turn < chosen


def _is_constant(node: onnx.NodeProto) -> bool:
    return node.op_type == "Constant" and domain_of(node.domain) == ""
