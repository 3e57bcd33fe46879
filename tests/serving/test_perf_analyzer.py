"""perf_analyzer, Triton's own load generator: every kind of load that it has for such a server, answers compared.

`make test` puts its last release that runs on Debian 12 into the environment (requirements/perf.txt).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import children
from tests.serving.stock import Place, place

pytest.importorskip("grpc")

from tests.serving.process import IMAGE  # noqa: E402

FOLDER = Path(sys.prefix) / "tools"
PROGRAM = shutil.which("perf_analyzer", path=f"{FOLDER / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
PLACES = [FOLDER / "nvidia" / "cuda_runtime" / "lib", *FOLDER.glob("usr/lib/*-linux-gnu")]
LIBRARIES = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, PLACES))}
WHO = ("-H", "x-tenant-id:gold")
# Not --request-count: it forgets what was answered before its first window began, then waits for ever for the rest.
# Windows by time: those of ten requests last a second each, however fast the answers come.
WINDOWS_MS, NONE = (200, 1000, 5000), "No valid requests recorded"  # longer ones on a busy machine
LOADS: dict[str, tuple[str, ...]] = {
    "http": (),
    "http, eight at once": ("--concurrency-range", "8"),
    "http, three pictures a request": ("-b", "3"),
    "http, numbers as JSON": ("--input-tensor-format", "json", "--output-tensor-format", "json"),
    "http, in shared memory": ("--shared-memory", "system"),
    "http, a rate": ("--request-rate-range", "25"),
    "http, its own intervals": ("--request-intervals",),
    "http, metrics": ("--collect-metrics", "--verbose-csv", "-f", "/dev/null", "--metrics-url"),
    "grpc": (),
    "grpc, eight at once": ("--concurrency-range", "8"),
    "grpc, three pictures a request": ("-b", "3"),
    "grpc, a stream": ("--streaming", "--async", "--concurrency-range", "4"),
    "grpc, in shared memory": ("--shared-memory", "system"),
    "grpc, a stream in shared memory": ("--streaming", "--async", "--shared-memory", "system"),
    "grpc, a rate": ("--request-rate-range", "25", "--request-distribution", "poisson"),
    "grpc, packed": ("--grpc-compression-algorithm", "gzip"),
}  # fmt: skip


def ran(*words: object) -> Any:
    assert PROGRAM is not None
    return children.run([PROGRAM, *words], env=LIBRARIES)


pytestmark = pytest.mark.skipif(
    PROGRAM is None or ran("--version").returncode != 0, reason="perf_analyzer is not installed, or not for this system"
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Whose tenants need no key, as it gives the objects in shared memory names of its own."""
    with place(tmp_path_factory.mktemp("server"), anonymous=True) as found:
        yield found


def analyze(server: Place, folder: Path, load: str, wrong: float = 0.0) -> Any:
    """What it says of this load. ``wrong``: by how much the first number that it shall expect is."""
    answer = server.answer.copy()
    answer.flat[0] += wrong
    tensors = {"image": IMAGE}, {"logits": answer}
    asked, wanted = (
        [{name: {"content": one.ravel().tolist(), "shape": one.shape[1:]} for name, one in kind.items()}]
        for kind in tensors
    )
    compares = not any(word in load for word in ("shared memory", "pictures"))  # it compares no others
    data = folder / "data.json"
    data.write_text(json.dumps({"data": asked} | ({"validation_data": wanted} if compares else {})))
    more = list(LOADS[load])
    if more[-1:] == ["--request-intervals"]:
        (folder / "gaps.txt").write_text("4000\n2000\n")  # microseconds
        more.append(str(folder / "gaps.txt"))
    if more[-1:] == ["--metrics-url"]:
        more.append(f"{server.server.url}/metrics")
    http = load.startswith("http")
    where = server.server.url.removeprefix("http://") if http else server.server.grpc
    for window_ms in WINDOWS_MS:
        done = ran(
            "-m", "small", "-i", "http" if http else "grpc", "-u", where, *WHO, "--input-data", data,
            "--measurement-interval", window_ms, "-s", "999", "-r", "20", *more,
        )  # fmt: skip
        if NONE not in done.stdout + done.stderr:
            break
    return done


@pytest.mark.parametrize("load", LOADS)
def test_every_load_runs_to_its_end(server: Place, tmp_path: Path, load: str) -> None:
    """As it was, it ended with an error over HTTP wherever outputs went to shared memory."""
    done = analyze(server, tmp_path, load)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Throughput" in done.stdout and "Successful request count" in done.stdout
    assert "shared memory" not in done.stderr, "it forgets regions at its end, those on devices too"


@pytest.mark.parametrize("load", ["http", "http, numbers as JSON", "grpc", "grpc, a stream"])
def test_it_does_compare_the_answers(server: Place, tmp_path: Path, load: str) -> None:
    done = analyze(server, tmp_path, load, wrong=1.0)
    assert done.returncode != 0 and "match expected output" in done.stdout + done.stderr


def test_what_it_may_not_do_is_one_sentence(server: Place, tmp_path: Path) -> None:
    done = ran("-m", "other", "-u", server.server.url.removeprefix("http://"), *WHO)
    assert done.returncode != 0 and "unknown model 'other'; tenant 'gold' may use" in done.stderr
