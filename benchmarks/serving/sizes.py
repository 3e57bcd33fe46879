"""Are sizes served that nobody gave, beside a tenant that was promised 50 ms?

A server with its defaults and an empty cache, one device, networks without ``shapes``. Bronze sends 60 pictures of
strange sizes one after the other, or batches of them, 0.1 s between an answer and the next, and asks for none twice.
Gold sends a small picture every 40 ms meanwhile. ``convolutions``: six of them, made here; ``--set models=FOLDER``:
that of the package rapidocr-onnxruntime, with PP-OCRv4's detector and recogniser. About 20 s for each row and seed.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.serving import beside
from benchmarks.serving.bench import Bench
from benchmarks.serving.beside import REST_S, Asked, asked, beside_gold, of_gold
from benchmarks.serving.strange import write_convolutions
from benchmarks.table import Cell, Options, Table
from eunomia.engines.processes import Result

PICTURES = 60
LINE, PAGE, LINES = "48 by 160 to 1,600", "192 to 608, multiples of 32", "2 to 12 at once, 48 by 160 to 640"
NETWORKS = {
    "convolutions": ("convolutions", LINE),
    "PP-OCRv4, recognition": ("ch_PP-OCRv4_rec_infer", LINE),
    "PP-OCRv4, detection": ("ch_PP-OCRv4_det_infer", PAGE),
    "convolutions, batches": ("convolutions", LINES),
    "PP-OCRv4, recognition, batches": ("ch_PP-OCRv4_rec_infer", LINES),
}
Picture = npt.NDArray[np.float32]
COLUMNS = f"network; sizes; seeds; answered; refusals; slowest, s|.1f; median, s|.2f; {beside.COLUMNS}; its requests"


def strange(sizes: str, seed: int) -> Iterator[Picture]:
    """Pictures as strangers send them."""
    draw, values = random.Random(seed), np.random.default_rng(seed)
    for _ in range(PICTURES):
        if sizes == PAGE:
            rows, width, height = 1, *(32 * draw.randrange(6, 20) for _ in range(2))
        else:
            rows, most = (1, 1600) if sizes == LINE else (draw.randrange(2, 13), 640)
            width, height = draw.randrange(160, most), 48
        yield values.random((rows, 3, height, width), np.float32)


def played(path: Path, sizes: str, seed: int) -> Result:
    """One network and seed."""
    with beside_gold(path) as (live, gold):
        port, bronze = live.ask("/v2/models/strange")[1]["inputs"][0]["name"], list[Asked]()
        for picture in strange(sizes, seed):
            bronze.append(asked(live, "bronze", "strange", port, picture))
            time.sleep(REST_S)
    return {"bronze": bronze, "gold": gold}


def row(name: str, sizes: str, found: list[Result]) -> list[Cell]:
    """All seeds of one network."""
    answered = [sum(status == 200 for status, _ in one["bronze"]) for one in found]
    refused = Counter(status for one in found for status, _ in one["bronze"] if status != 200)
    told = ", ".join(f"{status} x {count}" for status, count in refused.most_common()) or "none"
    took_s = [s for one in found for status, s in one["bronze"] if status == 200]
    gold = [ask for one in found for ask in one["gold"]]
    times: list[Cell] = [max(took_s), float(np.median(took_s)), *of_gold(gold), len(gold)]
    return [name, sizes, len(found), json.dumps(answered)[1:-1], told, *times]


def measure(options: Options) -> Iterator[Table]:
    """The quick run has the network that is made here, and one seed."""
    bench, rows, seeds = Bench("sizes", options), [], 1 if options.quick else 3
    with tempfile.TemporaryDirectory() as folder:
        write_convolutions(Path(folder) / "convolutions.onnx")
        places = [Path(folder), *([Path(options.given["models"])] if "models" in options.given else [])]
        for name, (file, sizes) in NETWORKS.items():
            path = next((p for place in places if (p := place / f"{file}.onnx").exists()), None)
            if path is None and len(places) > 1:
                raise SystemExit(f"models={places[1]} holds no {file}.onnx")
            if path is not None:
                plays = [partial(played, path, sizes, seed) for seed in range(seeds)]
                found = [bench.piece(play, network=name, seed=n) for n, play in enumerate(plays)]
                rows.append(row(name, sizes, found))
                print(*rows[-1], sep=" | ", flush=True)
    yield bench.table("all", COLUMNS, rows)
