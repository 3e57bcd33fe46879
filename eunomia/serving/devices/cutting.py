"""A network in the cache: optimised, and cut into blocks by times and sizes that were found once."""

from __future__ import annotations

import contextlib
import filecmp
import json
import math
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from eunomia.core.errors import ModelError
from eunomia.serving.blocks import BlockPlan, Optimised, optimise, plan_blocks, uncut
from eunomia.serving.blocks.external import outside_file
from eunomia.serving.blocks.long import LongBlock, must_be_short
from eunomia.serving.blocks.optimise import SCRATCH, content_key
from eunomia.serving.blocks.plan import TIMES, of_sizes
from eunomia.serving.blocks.rowwise import why_together
from eunomia.serving.devices.axes import Shapes, names_of
from eunomia.serving.devices.fitting import first_guess, fitting
from eunomia.serving.devices.messages import Message, Ports
from eunomia.serving.devices.ports import check_ports, ports_of, ranked
from eunomia.serving.devices.trial import Unfit, on_either, trial_feed
from eunomia.serving.devices.values import by_ones, whole_numbers

LONGEST = 800  # letters of a reason
UNREAD = "nobody has looked at its operators"
PLAN, BLOCKS, CHOSEN, ONES = "plan.json", ".blocks", "chosen", "-ones"
Block = tuple[list[str], list[str], float]


class Away(ModelError):
    """A device is not there or went away, or the cache cannot be written: no fault of the network's."""


def told(error: Exception) -> Message:
    """What a refusal says besides its words."""
    longest_s = error.longest_s if isinstance(error, LongBlock) else 0.0
    return {"longest_s": longest_s, "away": isinstance(error, Away)}


def refusal(message: Message) -> ModelError:
    """Of a device that does not load a network."""
    if longest_s := message.get("longest_s", 0.0):
        return LongBlock(message["why"], longest_s)
    return Away(message["why"]) if message.get("away") else ModelError(message["why"])


@dataclass(frozen=True)
class CutNetwork:
    """A network in the cache, cut: inputs, outputs and estimated time of each block, whose file has its number.

    ``tried``: sizes that were found for inputs to which nobody gave any, where it fails on one element.
    ``untried``: why it ran on none, and is not cut, unless a request's input of the sizes ``asked`` ran. ``ones``:
    whether its trial is of these. ``together``: why its rows may have to do with each other; empty = they have not.
    """

    key: str
    folder: Path
    whole: Path
    ports: Ports
    blocks: Sequence[Block]
    tried: Shapes
    untried: str = ""
    asked: Shapes = field(default_factory=dict)
    together: str = UNREAD
    ones: bool = False

    @property
    def name(self) -> str:
        """Of this very cut, which begins with its content's key."""
        return self.folder.stem

    def must_be_short(self, most_s: float) -> None:
        """Raises LongBlock if a block takes longer."""
        must_be_short(max((seconds for *_, seconds in self.blocks), default=0.0), most_s)

    def plan(self, sizes: Shapes) -> str:
        """What its folder says of it; ``sizes``: for which it was cut."""
        told = {"ports": self.ports, "blocks": self.blocks, "tried": self.tried, "sizes": sizes}
        why = {"untried": self.untried, "together": self.together}
        return json.dumps({**told, **why, "asked": self.asked, "ones": self.ones})


def prepare(
    path: str, cache: str, shapes: Shapes, target_s: float, key: str = "", most_s: float = math.inf
) -> CutNetwork:
    """Optimise and cut a network, or find it in the cache; raises ModelError.

    ``key``: of the content that it must have, or the name of the very cut. ``most_s``: of a block, where clients chose
    the sizes; nothing stays of a new cut with a longer one (LongBlock).
    """
    if (found := kept(path, cache, shapes, target_s, key)) is not None:
        check_ports(found.ports)  # an older server may have cut it
        return found
    optimised = optimise(Path(path), cache)
    if key and optimised.key != content_of(key):
        raise ModelError(f"{Path(path).name} has been replaced since it was loaded; load it again")
    ports = ports_of(optimised.model)
    (plan, ones), tried, untried = _planned(optimised, ranked(ports, shapes), shapes, target_s, most_s)
    sizes = {**tried, **shapes}
    folder = Path(cache) / f"{_prefix(optimised.key, target_s)}{of_sizes(sizes)}{BLOCKS}"
    together = why_together(optimised.model)[:LONGEST]
    planned = (optimised.path, ports, lists(plan), tried, untried)
    cut = CutNetwork(optimised.key, folder, *planned, together=together, ones=ones)
    try:
        cut.must_be_short(most_s)
    except LongBlock:
        drop_chosen(folder)
        raise
    with staged(cut) as stage:
        write_blocks(plan, optimised, stage)
        (stage / PLAN).write_text(cut.plan(sizes))
        if most_s < math.inf:
            (stage / CHOSEN).touch()
    return cut


@contextlib.contextmanager
def staged(cut: CutNetwork, scratch: Path | None = None) -> Iterator[Path]:
    """A folder to fill inside the block, in ``scratch`` if that is given; behind it, it is the cut's, in one step."""
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=scratch or cut.folder.parent) as stage:
        yield Path(stage)
        files = [file.name for file in Path(stage).iterdir() if file.name != PLAN]
        with contextlib.suppress(OSError):
            if not any(filecmp.cmpfiles(stage, cut.folder, files, shallow=False)[1:]):
                os.replace(f"{stage}/{PLAN}", cut.folder / PLAN)  # a device may be about to read the others
                return
        shutil.rmtree(cut.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another device was quicker
            shutil.copytree(stage, f"{stage}.whole", copy_function=os.link)
            os.replace(f"{stage}.whole", cut.folder)
        shutil.rmtree(f"{stage}.whole", ignore_errors=True)


def lists(plan: BlockPlan) -> Sequence[Block]:
    """Inputs, outputs and estimated time of each block."""
    return [([*block.inputs], [*block.outputs], block.estimate_s) for block in plan.blocks]


def write_blocks(plan: BlockPlan, optimised: Optimised, folder: Path) -> None:
    """Each as a network of its own, and their weights if those lie outside."""
    for n, block in enumerate(plan.blocks):
        (folder / f"{n}.onnx").write_bytes(block.content)
    if (weights := outside_file(optimised.path)).exists() and not (folder / weights.name).exists():
        os.link(weights, folder / weights.name)


def _planned(
    optimised: Optimised, ports: Ports, shapes: Shapes, target_s: float, most_s: float
) -> tuple[tuple[BlockPlan, bool], Shapes, str]:
    """Where to cut, by the sizes that are given; where these are too small, by such as fit; or why no input runs.

    And whether by ones.

    A network may want certain values (of a shape, of a length), which nobody can make up. Sizes that somebody gave are
    another matter: where these do not run, that is to be said. Raises ModelError.
    """

    def cuts(found: Shapes) -> tuple[BlockPlan, bool]:
        sizes = {**found, **shapes}
        feed = partial(trial_feed, ports, sizes)

        def cut(ones: bool) -> tuple[BlockPlan, bool]:
            plan = plan_blocks(optimised, feed(ones=ones), target_s, most_s, values=ONES * ones)
            return plan, ones

        return cut(by_ones(optimised, ports, sizes)) if whole_numbers(ports) else on_either(cut)

    first = first_guess(ports, shapes, names_of(optimised.model))
    try:
        return cuts(first), first, ""
    except LongBlock:
        raise
    except ModelError as error:
        if found := fitting(optimised, ports, shapes):
            return cuts(found), found, ""
        if shapes or ports.get("unranked") or not isinstance(error, Unfit):
            raise
        return (uncut(optimised), False), {}, str(error)[:LONGEST]


def kept(
    path: str, cache: str, shapes: Shapes, target_s: float, key: str = "", *, asked: bool = True
) -> CutNetwork | None:
    """What an earlier call left in the cache, of this file or this content; reading it makes no other thread wait.

    It is what was found with the same ``shapes``: others may not fit, and without any, some must be found. Of several,
    the one for the longest input; without ``shapes``, the last that a request's input cut comes before, if ``asked``,
    where no made-up input runs.
    ``key`` may be a cut's name.
    """
    if key and (exact := _read(Path(cache) / f"{key}{BLOCKS}")) is not None:
        return exact[0]
    content = content_of(key) or content_key(Path(path))
    found = [_read(folder) for folder in sorted(Path(cache).glob(f"{_prefix(content, target_s)}*{BLOCKS}"))]
    fit = [
        cut
        for cut, sizes in filter(None, found)
        if (asked and cut.untried and not shapes if cut.asked else {**cut.tried, **shapes} == sizes)
    ]
    return max(fit, key=_worth, default=None)


def _worth(cut: CutNetwork) -> tuple[int, float]:
    written_ns = 0
    with contextlib.suppress(OSError):
        written_ns = (cut.folder / PLAN).stat().st_mtime_ns if cut.asked else 0
    return written_ns, sum(seconds for *_, seconds in cut.blocks)


def drop_chosen(folder: Path) -> None:
    """What is there of a cut by sizes that clients chose, and the times by which it was made."""
    shutil.rmtree(folder, ignore_errors=True)
    sizes = folder.stem.rpartition("-")[2]
    for values in ("", ONES):
        with contextlib.suppress(OSError):
            folder.with_name(f"{content_of(folder.stem)}.{sizes}{values}{TIMES}").unlink()


def drop_older(cut: CutNetwork, target_s: float, needed: Collection[str]) -> None:
    """What else requests' inputs cut of the same content; ``needed``: names of cuts in service."""
    for folder in cut.folder.parent.glob(f"{_prefix(cut.key, target_s)}*{BLOCKS}"):
        found = None if folder.stem in {cut.name, *needed} else _read(folder)
        if found is not None and found[0].asked:
            shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> tuple[CutNetwork, Shapes] | None:
    """What a folder of the cache holds, and the sizes for which it was cut."""
    key = content_of(folder.stem)
    whole = folder.with_name(f"{key}.onnx")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        plan = json.loads((folder / PLAN).read_text())
        own = {name: plan[name] for name in ("ports", "blocks", "tried", "untried", "together", "ones")}
        cut = CutNetwork(key, folder, whole, **own, asked=plan.get("asked", {}))
        return (cut, plan["sizes"]) if whole.exists() else None
    return None


def content_of(name: str) -> str:
    """The content's key, with which the name of a cut begins."""
    return name.partition("-")[0]


def _prefix(key: str, target_s: float) -> str:
    """Of a folder of blocks, whose name says all that these follow from: content, target and sizes."""
    return f"{key}-{target_s!r}-"
