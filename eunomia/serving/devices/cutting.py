"""A network in the cache: optimised, and cut into blocks by times and sizes that were found once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.errors import ModelError
from eunomia.serving.blocks import BlockPlan, Optimised, optimise, plan_blocks, uncut
from eunomia.serving.blocks.external import outside_file
from eunomia.serving.blocks.optimise import content_key
from eunomia.serving.blocks.plan import of_sizes
from eunomia.serving.devices.axes import Shapes, names_of
from eunomia.serving.devices.fitting import first_guess, fitting
from eunomia.serving.devices.messages import Ports
from eunomia.serving.devices.ports import ports_of, ranked
from eunomia.serving.devices.trial import Unfit, on_either, trial_feed

LONGEST = 800  # letters of a reason


@dataclass(frozen=True)
class CutNetwork:
    """A network in the cache, cut: inputs, outputs and estimated time of each block, whose file has its number.

    ``tried``: sizes that were found for inputs to which nobody gave any, where it fails on one element.
    ``untried``: why it ran on none, and is not cut.
    """

    key: str
    folder: Path
    whole: Path
    ports: Ports
    blocks: list[tuple[list[str], list[str], float]]
    tried: Shapes
    untried: str = ""


def prepare(path: str, cache: str, shapes: Shapes, target_s: float, key: str = "") -> CutNetwork:
    """Optimise and cut a network, or find it in the cache; raises ModelError.

    ``key``: of the content that it must have.
    """
    if (found := kept(path, cache, shapes, target_s, key)) is not None:
        return found
    optimised = optimise(Path(path), cache)
    if key and optimised.key != key:
        raise ModelError(f"{Path(path).name} has been replaced since it was loaded; load it again")
    ports = ports_of(optimised.model)
    plan, tried, untried = _planned(optimised, ranked(ports, shapes), shapes, target_s)
    sizes = {**tried, **shapes}
    folder = Path(cache) / f"{_prefix(optimised.key, target_s)}{of_sizes(sizes)}.blocks"
    blocks = [(list(block.inputs), list(block.outputs), block.estimate_s) for block in plan.blocks]
    with tempfile.TemporaryDirectory(dir=cache) as stage:
        for n, block in enumerate(plan.blocks):
            (Path(stage) / f"{n}.onnx").write_bytes(block.content)
        plan_text = json.dumps(
            {
                "ports": ports,
                "blocks": blocks,
                "tried": tried,
                "sizes": sizes,
                "untried": untried,
            }
        )
        (Path(stage) / "plan.json").write_text(plan_text)
        if (weights := outside_file(optimised.path)).exists():
            os.link(weights, Path(stage) / weights.name)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another device was quicker
            shutil.copytree(stage, f"{stage}.whole", copy_function=os.link)
            os.replace(f"{stage}.whole", folder)
        shutil.rmtree(f"{stage}.whole", ignore_errors=True)
    return CutNetwork(optimised.key, folder, optimised.path, ports, blocks, tried, untried)


def _planned(
    optimised: Optimised, ports: Ports, shapes: Shapes, target_s: float
) -> tuple[BlockPlan, Shapes, str]:
    """Where to cut, by the sizes that are given; where these are too small, by such as fit; or why no input runs.

    A network may want certain values (of a shape, of a length), which nobody can make up. Sizes that somebody gave are
    another matter: where these do not run, that is to be said. Raises ModelError.
    """

    def cuts(found: Shapes) -> BlockPlan:
        sizes = {**found, **shapes}
        return on_either(lambda ones: plan_blocks(optimised, trial_feed(ports, sizes, ones=ones), target_s))

    first = first_guess(ports, shapes, names_of(optimised.model))
    try:
        return cuts(first), first, ""
    except ModelError as error:
        if found := fitting(optimised, ports, shapes):
            return cuts(found), found, ""
        if shapes or ports.get("unranked") or not isinstance(error, Unfit):
            raise
        return uncut(optimised), {}, str(error)[:LONGEST]


def kept(path: str, cache: str, shapes: Shapes, target_s: float, key: str = "") -> CutNetwork | None:
    """What an earlier call left in the cache, of this file or this content; reading it makes no other thread wait.

    It is what was found with the same ``shapes``: others may not fit, and without any, some must be found.
    """
    key = key or content_key(Path(path))
    whole = Path(cache) / f"{key}.onnx"
    for folder in sorted(Path(cache).glob(f"{_prefix(key, target_s)}*.blocks")) if whole.exists() else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            plan = json.loads((folder / "plan.json").read_text())
            if {**plan["tried"], **shapes} == plan["sizes"]:
                return CutNetwork(
                    key, folder, whole, plan["ports"], plan["blocks"], plan["tried"], plan["untried"]
                )
    return None


def _prefix(key: str, target_s: float) -> str:
    """Of a folder of blocks, whose name says all that these follow from: content, target and sizes."""
    return f"{key}-{target_s!r}-"
