"""Are networks served that none of us made, rightly, beside a tenant that was promised 50 ms?

``--set models=FOLDER``: every .onnx below it, each with a server of its own under the defaults. Inputs are made up from
the signature and given to ONNX Runtime first, in another process; what it refuses is drawn anew. Bronze sends up to 32
of them one after the other, 0.1 s between an answer and the next, while gold sends a small picture every 40 ms. Answers
of networks that draw random numbers are not compared. The quick run, and one without a folder, has two networks of this
checkout. Less than a minute for each.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tritonclient.http import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from benchmarks.page import ROOT
from benchmarks.serving import beside
from benchmarks.serving.bench import Bench
from benchmarks.serving.beside import REST_S, beside_gold, of_gold
from benchmarks.serving.made_up import STYLES, Feed, made_up
from benchmarks.serving.strange import write_convolutions
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result
from eunomia.serving.blocks.optimise import session_options

REQUESTS, TRIES, PLAIN_S, SERVED_S = 32, 150, 8.0, 30.0
TOLERANCE = {"e": 1e-2, "f": 1e-4, "d": 1e-4}  # of float16, float32 and float64
COLUMNS = (
    "network; MB|.1f; plain run, ms|.1f; answered; wrong; what came instead; slowest answer, s|.2f; "
    f"{beside.COLUMNS}"
)


def plain(path: Path) -> tuple[list[tuple[Feed, Feed]], float, bool]:
    """Inputs, what ONNX Runtime makes of them on one thread, the median ms of a run, and whether it is by lot."""
    import onnxruntime as ort

    session = ort.InferenceSession(str(path), session_options(), providers=["CPUExecutionProvider"])
    names, draw = [port.name for port in session.get_outputs()], random.Random(path.name)
    begun_s, found, took_ms = time.monotonic(), list[tuple[Feed, Feed]](), list[float]()
    refused, why = 0, ""
    while len(found) < REQUESTS and refused < TRIES and time.monotonic() < begun_s + PLAIN_S:
        try:
            like = [feed for feed, _ in found] if refused else []
            feed = made_up(session.get_inputs(), draw, STYLES[refused // 3 % len(STYLES)], like)
            run_s = time.monotonic()
            found.append((feed, dict(zip(names, session.run(None, feed), strict=True))))
            took_ms.append((time.monotonic() - run_s) * 1e3)
        except Exception as error:  # ONNX Runtime's have no common base
            refused, why = refused + 1, str(error)
    if not found:
        raise ValueError(f"no input found: {brief(why)}")
    again = session.run(None, found[0][0])
    lot = not all(same(one, found[0][1][name]) for name, one in zip(names, again, strict=True))
    return found, float(np.median(took_ms)), lot


def same(given: npt.NDArray[Any] | None, wanted: npt.NDArray[Any]) -> bool:
    """Whether an output is ONNX Runtime's, within the tolerance of its datatype."""
    if given is None or not isinstance(wanted, np.ndarray) or given.shape != wanted.shape:
        return False
    if (bound := TOLERANCE.get(wanted.dtype.char)) is not None:
        return np.allclose(given, wanted, bound, bound * 0.1, equal_nan=True)
    return [v.decode() if isinstance(v, bytes) else v for v in given.flat] == list(wanted.flat)


def told(client: InferenceServerClient, feed: Feed) -> Feed | str:
    """The answer, or what came instead of it."""
    tensors = [InferInput(name, [*one.shape], np_to_triton_dtype(one.dtype)) for name, one in feed.items()]
    try:
        for tensor, array in zip(tensors, feed.values(), strict=True):
            tensor.set_data_from_numpy(array)
        answer = client.infer("strange", tensors, headers={"x-tenant-id": "bronze"})
        return {one["name"]: answer.as_numpy(one["name"]) for one in answer.get_response()["outputs"]}
    except InferenceServerException as error:
        return brief(f"{error.status()} {error.message()}")
    except Exception as error:  # a server that is gone, in any of three libraries' words
        return brief(f"{type(error).__name__}: {error}")


def brief(text: str) -> str:
    """A reason without its numbers, as the table has it."""
    words = " ".join(text.partition(";")[0].rpartition(" : ")[2].split())  # behind ONNX Runtime's codes
    return re.sub(r"(?<=\D )\d[\d.,]*", "#", words)[:90].replace("|", "/")


def played(path: Path) -> Result:
    """One network. What ends it early is its ``problem``."""
    result: Result = {"asked": 0, "answers_s": [], "wrong": 0, "instead": [], "gold": [], "plain_ms": None}
    with tempfile.NamedTemporaryFile() as log:
        try:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                made, result["plain_ms"], lot = pool.submit(plain, path).result()
            answers = list[tuple[Feed | str, float]]()
            with beside_gold(path, Path(log.name)) as (live, gold):
                client, begun_s = InferenceServerClient(live.http), time.monotonic()
                for feed, _ in made:
                    if (sent_s := time.monotonic()) < begun_s + SERVED_S:
                        answers.append((told(client, feed), time.monotonic() - sent_s))
                        time.sleep(REST_S)
        except Exception as error:  # of ONNX Runtime, its process, the server's start
            said = [line for line in Path(log.name).read_text(errors="replace").splitlines() if line]
            return {**result, "problem": brief((said or [str(error) or type(error).__name__])[-1])}
    for (feed, wanted), (answer, seconds) in zip(made, answers, strict=False):
        if isinstance(answer, str):
            result["instead"].append((answer, {name: one.shape for name, one in feed.items()}))
        else:
            result["answers_s"].append(seconds)
            right = lot or all(same(answer.get(name), one) for name, one in wanted.items())
            result["wrong"] += not right
    return {**result, "asked": len(answers), "gold": gold}


def row(name: str, path: Path, one: Result) -> list[Cell]:
    """One network."""
    reasons = Counter(what for what, _ in one["instead"]).most_common()
    instead = "; ".join(f"{what} x {count}" for what, count in reasons)
    counts = f"{len(one['answers_s'])} of {one['asked']}"
    slowest_s = max(one["answers_s"], default=None)
    cells = [one["plain_ms"], counts, one["wrong"], one.get("problem", instead), slowest_s]
    return [name, path.stat().st_size / 1e6, *cells, *(of_gold(one["gold"]) if one["gold"] else [None, None])]


def measure(options: Options) -> Iterator[Table]:
    """A row for each network, and a sentence on all."""
    bench, rows, found = Bench("strangers", options), list[list[Cell]](), list[Result]()
    with tempfile.TemporaryDirectory() as made:
        write_convolutions(Path(made) / "convolutions.onnx")
        shutil.copy(ROOT / "examples" / "models" / "encoder.onnx", made)
        folder = Path(options.given.get("models", made))
        if not (paths := sorted(folder.rglob("*.onnx"))):
            raise SystemExit(f"models={folder} holds no .onnx")
        for path in paths:
            name = str(path.relative_to(folder).with_suffix(""))
            found.append(bench.piece(partial(played, path), network=name, bytes=path.stat().st_size))
            rows.append(row(name, path, found[-1]))
            print(*rows[-1], sep=" | ", flush=True)
    answered = [len(one["answers_s"]) for one in found]
    whole = sum(n == one["asked"] > 0 for n, one in zip(answered, found, strict=True))
    idle, wrong = sum(not one["asked"] for one in found), sum(one["wrong"] for one in found)
    gold = [ask for one in found for ask in one["gold"]]
    inside = of_gold(gold)[0] if gold else 0.0
    note = (
        f"Of {len(found)} networks {whole} answered all that was asked, {answered.count(0) - idle} nothing, and {idle} "
        f"could not be asked. Of {sum(answered):,} answers {wrong} were wrong. Gold had {inside:.1%} within 50 ms."
    ).replace("%", " %")
    yield bench.table("all", COLUMNS, rows, [f"Not as promised: {note}" if wrong else note])
