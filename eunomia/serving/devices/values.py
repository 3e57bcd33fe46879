"""With which values a network is tried: zeros or ones, whichever has more to do.

A mask of zeros leaves no work, and neither do identifiers that are padding: all that depends on how many are not is
empty then. So both run once, where an input is of whole numbers, and the longer one is the trial.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from eunomia.core.errors import ModelError
from eunomia.serving.blocks.optimise import session_options
from eunomia.serving.devices.axes import Shapes
from eunomia.serving.devices.messages import DATATYPES, Ports
from eunomia.serving.devices.piece import live_of, piece_of
from eunomia.serving.devices.trial import on_trial, trial_feed

if TYPE_CHECKING:
    from eunomia.serving.blocks.optimise import Optimised
    from eunomia.serving.devices.piece import Runs

CLEARLY, WORTH_S = 2.0, 5e-4  # times as long: noise is no reason; shorter ones are not cut
AGAIN_S = 0.1  # what is shorter runs once more, as a first run takes longer than later ones
MOST_S = 10.0  # on the clock, for ones: where they make a loop endless, zeros may not


def whole_numbers(ports: Ports) -> bool:
    """Whether any input is of these, or of truths."""
    return any(DATATYPES[port["datatype"]].kind in "iub" for port in ports["inputs"])


def by_ones(optimised: Optimised, ports: Ports, shapes: Shapes) -> bool:
    """Whether ones are the better trial for a network in one piece; raises ModelError where neither runs."""
    import onnxruntime as ort

    session = ort.InferenceSession(
        str(optimised.path), session_options(optimised=True), providers=["CPUExecutionProvider"]
    )
    names = [port["name"] for port in ports["inputs"]], [port["name"] for port in ports["outputs"]]
    whole = piece_of(session, *names)

    def took_s(ones: bool) -> float:
        feed = trial_feed(ports, shapes, ones=ones)

        def once() -> float:
            begun_s = time.thread_time()
            whole.run(live_of(feed))
            return time.thread_time() - begun_s

        with on_trial(feed, ports), _ended_late(whole) if ones else contextlib.nullcontext():
            first_s = once()
            return first_s if first_s > AGAIN_S else min(first_s, once())

    return ones_take_longer(took_s)


def ones_take_longer(took_s: Callable[[bool], float]) -> bool:
    """Whether they do, clearly, or zeros fail; ``took_s``: with ones or not.

    Raises its ModelError where both fail.
    """
    try:
        zeros_s = took_s(False)
    except ModelError as error:
        try:
            took_s(True)
        except ModelError:
            raise error from None
        return True
    try:
        return took_s(True) > max(CLEARLY * zeros_s, WORTH_S)
    except Exception:  # the runtime's share no base, and zeros run
        return False


@contextlib.contextmanager
def _ended_late(whole: Runs) -> Iterator[None]:
    import onnxruntime as ort

    whole.options = options = ort.RunOptions()
    late = threading.Timer(MOST_S, lambda: setattr(options, "terminate", True))
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
