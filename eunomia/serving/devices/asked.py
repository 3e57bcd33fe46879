"""The process that cuts a network by the input of a request.

Started as ``python -m eunomia.serving.devices.asked``, with its order as JSON; the result stays in the cache. It copies
the input out of the server's memory first, and lets that go. No value of the input is written anywhere, nor what the
runtime says of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from eunomia.core.arrays import Tensor
from eunomia.core.atomic import clear_output_errors
from eunomia.core.errors import ModelError, OutputError
from eunomia.core.workers import follow_parent, how_it_ended
from eunomia.serving.blocks import BlockPlan, Optimised, cut_by, uncut
from eunomia.serving.blocks.external import outside_file
from eunomia.serving.blocks.optimise import SCRATCH
from eunomia.serving.blocks.parts import MOST_BYTES
from eunomia.serving.blocks.plan import node_times_s, of_sizes
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.cutting import (
    BLOCKS,
    CHOSEN,
    PLAN,
    Away,
    Block,
    CutNetwork,
    kept,
    lists,
    staged,
    write_blocks,
)
from eunomia.serving.devices.memory import bound_memory, out_of_memory
from eunomia.serving.devices.messages import Message, Placed, value_at
from eunomia.serving.devices.network import LoadedNetwork, sessions_of
from eunomia.serving.devices.piece import Feed
from eunomia.serving.devices.ports import ranked
from eunomia.serving.devices.prepare import FULL, REFUSED, UTF_8
from eunomia.serving.devices.priority import end_first
from eunomia.serving.devices.strings import Strings

POLITE = 13  # a core that is never idle gives it some 5 % of its time
MOST_S, MOST_USED_S = 600.0, 30  # on the clock, and of processor time: an input may be made to run for ever
LONGER = 1.0, 2.0, 4.0, 8.0  # targets that a block takes, tried in turn
ROOM, MEMORY = 64 * 1024**2, 512 * 1024**2  # bytes, besides the network: of each file, and in all
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
COPIED = b"."  # what it says once the input is its own
GONE = "the cache does not hold it any more"
AGAIN = "a request's input did not run again"
OF_ROOM = -signal.SIGABRT, -signal.SIGSEGV  # the runtime's profiler ends so, where it may take no more
STEPS = "it has too many steps to be timed"  # a Loop may have millions, each with times of its own


class TooManySteps(ModelError):
    """Their times find no room."""


async def cut_beside(order: Message, copied: Callable[[], None]) -> CutNetwork:
    """What the process makes of an ``order``; raises ModelError, or OSError where it cannot be started.

    ``copied``: called once the input is not needed any more.
    """
    told = json.dumps({**order, "polite": POLITE})
    with tempfile.TemporaryDirectory(
        prefix=SCRATCH, dir=order["cache"], ignore_cleanup_errors=True
    ) as scratch:
        process = subprocess.Popen(  # by the event loop's thread, with which it ends
            [sys.executable, "-m", "eunomia.serving.devices.asked"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(order["arena"],),
            env={**os.environ, **UTF_8, **ONE_THREAD, "TMPDIR": scratch},
        )
        tell = partial(asyncio.get_running_loop().call_soon_threadsafe, copied)
        try:
            async with asyncio.timeout(MOST_S):
                said = await asyncio.to_thread(_talk, process, told, tell)
        except TimeoutError:
            raise ModelError(f"it was not cut within {MOST_S:.0f} s") from None
        finally:
            process.kill()  # the thread that hears it ends, too
            process.wait()
    said = said.rpartition("\n")[2]
    if process.returncode == FULL:
        raise Away(said)
    if process.returncode == REFUSED or (process.returncode in OF_ROOM and said == STEPS):
        raise ModelError(said)
    found = None if process.returncode else kept("", order["cache"], {}, order["target_s"], said)
    if found is None:
        raise ModelError(f"the process that cuts it {how_it_ended(process.returncode, said.encode())}")
    return found


def _talk(process: subprocess.Popen[bytes], order: str, copied: Callable[[], object]) -> str:
    """Its last words, when it has ended."""
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    with contextlib.suppress(OSError), process.stdin as line:
        line.write(order.encode())
    with process.stdout as words:
        if words.read(len(COPIED)):
            copied()
        said = words.read()
    process.wait()
    return said.decode(errors="replace").strip()


def own_inputs(arena: int, inputs: Sequence[Placed]) -> Feed:
    """Copies of these tensors of the server's memory, which is closed here."""
    whole = mmap.mmap(arena, os.fstat(arena).st_size, prot=mmap.PROT_READ)
    memory = memoryview(whole)
    feed = {tensor["name"]: _copy(memory, tensor) for tensor in inputs}
    memory.release()
    whole.close()
    os.close(arena)
    return feed


def _copy(memory: memoryview, tensor: Placed) -> Tensor:
    value = value_at(memory, tensor)
    return value.numpy() if isinstance(value, Strings) else value.copy()


def cut_anew(cut: CutNetwork, target_s: float, feed: Feed, scratch: Path) -> CutNetwork:
    """The same network in the cache, cut by the times of an input; in one block if its pieces do not run.

    Each piece takes memory of its own: where so many find no room, they are made longer. ``scratch``: a folder there
    for all that is not whole yet. Raises TooManySteps, and what the runtime raises.
    """
    import onnx

    model = onnx.load(str(cut.whole), load_external_data=False)
    optimised = Optimised(cut.key, model, scratch / cut.whole.name)  # beside it, pieces are tried
    for file in filter(Path.exists, (cut.whole, outside_file(cut.whole))):
        os.link(file, scratch / file.name)
    times_s = node_times_s(optimised, feed)
    if not any(times_s):
        raise TooManySteps(STEPS)
    for longer in LONGER:
        plan = cut_by(optimised, times_s, longer * target_s)
        if len(plan.blocks) == 1:
            break
        try:
            return _measured(plan, optimised, cut, target_s, feed)
        except Exception as error:
            if out_of_memory(error) is None:  # a piece may lack shapes that the whole has
                break
    return _measured(uncut(optimised), optimised, cut, target_s, feed)


def _measured(
    plan: BlockPlan, optimised: Optimised, cut: CutNetwork, target_s: float, feed: Feed
) -> CutNetwork:
    blocks, sizes = lists(plan), {name: [*array.shape] for name, array in feed.items()}
    found = asked(cut, target_s, sizes, blocks)
    with staged(found, optimised.path.parent) as stage:
        write_blocks(plan, optimised, stage)
        names = [(inputs, outputs) for inputs, outputs, _ in blocks]
        sessions = sessions_of(replace(found, folder=stage))
        network = LoadedNetwork(sessions, names, ranked(cut.ports, {}))
        network.measure(feed)
        timed = [(*ends, seconds) for ends, seconds in zip(names, network.block_s, strict=True)]
        found = replace(found, blocks=timed)
        (stage / PLAN).write_text(found.plan(sizes))
        if not cut.untried:
            (stage / CHOSEN).touch()
    return found


def asked(cut: CutNetwork, target_s: float, sizes: Shapes, blocks: Sequence[Block]) -> CutNetwork:
    """The cut into these blocks by a request's sizes."""
    ends = json.dumps([(inputs, outputs) for inputs, outputs, _ in blocks])
    digest = hashlib.sha256(ends.encode()).hexdigest()[:8]
    folder = cut.folder.with_name(f"{cut.key}-{target_s!r}-{of_sizes(sizes)}-{digest}{BLOCKS}")
    return replace(cut, folder=folder, blocks=blocks, asked=sizes)


def remember(cut: CutNetwork, target_s: float, sizes: Shapes, took_s: float) -> None:
    """A network in one block takes so long with an input of these sizes; raises OSError."""
    (inputs, outputs, _), *_ = cut.blocks
    found = asked(cut, target_s, sizes, [(inputs, outputs, took_s)])
    with staged(found) as stage:
        for file in cut.folder.iterdir():
            if file.name != PLAN:
                os.link(file, stage / file.name)
        (stage / PLAN).write_text(found.plan(sizes))


def bound(cut: CutNetwork, memory: int) -> None:
    """What this process may take from now on, as an input may be made to have it take all; ``memory``: if not 0."""
    size = cut.whole.stat().st_size
    weights = outside_file(cut.whole)
    whole = size + (weights.stat().st_size if weights.exists() else 0)
    bound_memory(memory or 8 * whole + MEMORY)
    most = {
        resource.RLIMIT_CPU: MOST_USED_S,
        resource.RLIMIT_FSIZE: size + MOST_BYTES + ROOM,
        resource.RLIMIT_CORE: 0,
    }
    for kind, soft in most.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (soft if hard < 0 else min(soft, hard), hard))


def main() -> int:
    """Entry point of the process."""
    told = json.load(sys.stdin)
    os.nice(told["polite"])
    end_first()
    feed = own_inputs(told["arena"], told["inputs"])
    os.write(sys.stdout.fileno(), COPIED)
    target_s, cut = told["target_s"], kept("", told["cache"], {}, told["target_s"], told["name"])
    if cut is None:
        print(GONE)
        return REFUSED
    bound(cut, told["memory"])
    print(STEPS, flush=True)  # if it ends by that
    try:
        with clear_output_errors(Path(told["cache"])):
            print(cut_anew(cut, target_s, feed, Path(tempfile.gettempdir())).name)
    except TooManySteps:
        return REFUSED
    except OutputError as error:
        print(error)
        return FULL
    except Exception as error:  # its words may hold values of the input
        print(AGAIN + ": it lacks memory" * (out_of_memory(error) is not None))
        return REFUSED
    return 0


if __name__ == "__main__":
    follow_parent(os.getppid())
    sys.exit(main())
