"""``eunomia models``, ``platforms`` and ``policies``: what there is to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, say
from eunomia.cli.tables import print_table
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from eunomia.workload.model import DnnModel


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("models")(models)
    app.command("platforms")(platforms)
    app.command("policies")(policies)


def models(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A network of the zoo, or an ONNX file.")
    ] = None,
    dim: Annotated[
        list[str] | None,
        typer.Option(
            "--dim", metavar="NAME=SIZE", help="Size of a free dimension of an ONNX file. Repeatable."
        ),
    ] = None,
    branch: Annotated[
        list[str] | None,
        typer.Option(
            "--branch", metavar="NODE=then|else", help="Branch of an If of an ONNX file. Repeatable."
        ),
    ] = None,
    trip_count: Annotated[
        list[str] | None,
        typer.Option(
            "--trip-count", metavar="NODE=COUNT", help="Iterations of a Loop of an ONNX file. Repeatable."
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """List the networks, or the layers of one: name or ONNX file."""
    from eunomia.workload import zoo

    if name is None:
        rows = [model_facts(zoo.load(known)) for known in zoo.names()]
        if as_json:
            print_json(rows)
            return
        print_table(
            ["model", "layers", "GMACs", "M params", "chain", "source"],
            [[r["model"], str(r["layers"]), f"{r['macs'] / 1e9:.3f}", f"{r['params'] / 1e6:.2f}",
              "yes" if r["chain"] else "no", r["source"]] for r in rows],
        )  # fmt: skip
        return
    model = find_model(
        name, parse_dims(dim or []), parse_branches(branch or []), parse_trip_counts(trip_count or [])
    )
    layers = [_layer_facts(model, index) for index in range(len(model.layers))]
    if as_json:
        print_json({**model_facts(model), "layers": layers})
        return
    facts = model_facts(model)
    say(
        f"{model.name}: {facts['layers']} layers, {model.macs / 1e9:.3f} GMACs, {model.params / 1e6:.2f} M parameters"
    )
    say(f"source: {model.source}")
    print_table(
        ["#", "layer", "kind", "output", "MACs", "params", "after"],
        [[str(f["index"]), f["name"], f["kind"], f["output"], str(f["macs"]), str(f["params"]),
          ", ".join(map(str, f["after"]))] for f in layers],
    )  # fmt: skip


def parse_dims(texts: list[str]) -> dict[str, int]:
    """``seq=128`` texts as sizes by name. Raises ConfigError."""
    pairs = [text.rpartition("=") for text in texts]
    for text, (key, _, size) in zip(texts, pairs, strict=True):
        if not key or not size.isdecimal() or int(size) < 1:
            raise ConfigError(
                f"--dim {text}: write NAME=SIZE with a positive whole size, for example seq=128"
            )
    return {key: int(size) for key, _, size in pairs}


def parse_branches(texts: list[str]) -> dict[str, str]:
    """``node=then`` texts as branches by node. Raises ConfigError."""
    pairs = [text.rpartition("=") for text in texts]
    for text, (key, _, taken) in zip(texts, pairs, strict=True):
        if not key or taken not in ("then", "else"):
            raise ConfigError(f"--branch {text}: write NODE=then or NODE=else")
    return {key: taken for key, _, taken in pairs}


def parse_trip_counts(texts: list[str]) -> dict[str, int]:
    """``node=12`` texts as iterations by node. Raises ConfigError."""
    pairs = [text.rpartition("=") for text in texts]
    for text, (key, _, count) in zip(texts, pairs, strict=True):
        if not key or not count.isdecimal():
            raise ConfigError(f"--trip-count {text}: write NODE=COUNT, for example /decoder/Loop=12")
    return {key: int(count) for key, _, count in pairs}


def find_model(
    name: str, dims: dict[str, int], branches: dict[str, str], trip_counts: dict[str, int]
) -> DnnModel:
    """A network of the zoo, or of an ONNX file."""
    from eunomia.workload import zoo

    if name.endswith(".onnx") or Path(name).is_file():
        from eunomia.workload.onnx import read_onnx

        return read_onnx(name, dims=dims, branches=branches, trip_counts=trip_counts)
    for option, given in (("--dim", dims), ("--branch", branches), ("--trip-count", trip_counts)):
        if given:
            raise ConfigError(f"{option} is for ONNX files; the shapes of '{name}' are fixed")
    return zoo.load(name)


def model_facts(model: DnnModel) -> Data:
    """A network in one row."""
    return {
        "model": model.name,
        "layers": len(model.layers),
        "macs": model.macs,
        "params": model.params,
        "chain": model.is_chain,
        "source": model.source,
    }


def _layer_facts(model: DnnModel, index: int) -> Data:
    layer = model.layers[index]
    return {
        "index": index,
        "name": layer.name,
        "kind": layer.kind,
        "output": f"{layer.batch}x{layer.out_channels}x{layer.out_h}x{layer.out_w}",
        "macs": layer.macs,
        "params": layer.weight_elements,
        "after": list(model.predecessors[index]),
    }


def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A policy, to read what it does; or show.")
    ] = None,
    learned: Annotated[
        str | None,
        typer.Argument(metavar="[POLICY]", help="After show: a learned policy, or its checkpoint (.json)."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """List the policies by group, say what one does, or describe a checkpoint: eunomia policies show eunomia."""
    if name == "show" or learned is not None:
        from eunomia.cli.learn import show

        if name != "show" or learned is None:
            raise ConfigError(
                "write: eunomia policies, eunomia policies NAME, or eunomia policies show POLICY"
            )
        show(learned, as_json)
        return
    from eunomia.study.inference.policy import describe_policy, policy_words

    if name is not None:
        text = describe_policy(name)
        print_json({name: text}) if as_json else say(f"{name}\n\n{text}")
        return
    known = policy_words()
    if as_json:
        print_json(known)
        return
    from eunomia.study.inference.groups import grouped

    groups = grouped(known)
    width = max(len(key) for group in groups.values() for key in (*groups, *group))
    for title, group in groups.items():
        print_table([title.ljust(width), ""], [[key.ljust(width), text] for key, text in group.items()])
        say()
    say("order[+f][+placement][+gX]: any order with +f (hopeless requests last), a placement "
        "(eft, pref, eft_ca, first_idle) and a bandwidth gate, e.g. edf+f+eft or edf+eft+g0.9")  # fmt: skip
    say("what one does: eunomia policies NAME; your own: --policy FILE.py:FUNCTION, or an entry point of "
        "eunomia.policies")  # fmt: skip


def platforms(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A platform or an accelerator type.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """List the platforms and accelerator types, or the facts of one."""
    from eunomia.study.inference.machine import platform_facts, type_facts

    kinds, machines = type_facts(), platform_facts()
    if name is not None:
        known = {**machines, **kinds}
        if name not in known:
            raise UnknownNameError("platform or accelerator type", name, known)
        print_json(known[name]) if as_json else print_table(
            ["fact", "value"], [[key, str(value)] for key, value in known[name].items()]
        )
        return
    if as_json:
        print_json({"platforms": machines, "types": kinds})
        return
    print_table(
        ["platform", "accelerators", "DRAM GB/s", "contention", "what it is"],
        [[key, f["accelerators"], f"{f['dram_bandwidth_gb_s']:g}", f["contention"], f["description"]]
         for key, f in machines.items()],
    )  # fmt: skip
    say()
    print_table(["type", "what it is"], [[key, f["description"]] for key, f in kinds.items()])
