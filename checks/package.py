"""Build wheel and sdist twice, compare them byte by byte, and try the wheel in a clean environment: ``make package``.

    python -m checks.package              # dist/*.whl, dist/*.tar.gz, dist/*.cdx.json, tried with this Python
    python -m checks.package python3.12   # tried with these as well
    python -m checks.package --every      # tried with every Python 3.11 to 3.13 of this machine: ``make pythons``

The builds start from two copies at different paths, with the time of the last commit as ``SOURCE_DATE_EPOCH``. The
trial runs outside the checkout: what the wheel lacks, it lacks there. It installs the versions of the lock files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from checks.parts_list import bill_of_materials
from checks.pythons import interpreters, missing

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EXTRAS = "serve,cluster"
HASHED = re.compile(r"^([\w.\-\[\],]+==[^\s;\\]+(?:\s*;[^\\\n]*)?)", re.MULTILINE)
TRIALS = (  # each ends by itself; "serve demo" is stopped once it is ready
    ("--version",),
    ("demo", "--seeds", "1", "--set", "duration_s=0.3", "--quiet"),
    ("policies",),
    ("policies", "show", "eunomia"),
    ("cluster", "demo", "--seeds", "1", "--quiet"),
    ("new", "policy", "steady_hand"),
    ("run", "studio.toml", "-p", "eunomia-attainment", "--quiet"),
)
SCENARIO = """
name = "studio"
duration_s = 0.3
[platform]
preset = "npu-mix"
[[tenant]]
name = "camera"
arrivals = { process = "periodic", period_s = 0.02 }
models = [{ model = "mobilenet-v2", deadline_ms = 30.0, slo = { hit_rate = 0.9 } }]
"""


def main(words: Sequence[str]) -> int:
    """0 where the builds are equal and every trial ends well; the first fault is said."""
    every = "--every" in words
    others = interpreters() if every else {}
    others.pop(sys.version_info.minor, None)
    pythons = [*others.values(), *(word for word in words if word != "--every")]
    for sentence in missing({**others, sys.version_info.minor: sys.executable}) if every else ():
        print(sentence)
    epoch = said("git", "-C", str(ROOT), "log", "-1", "--format=%ct") or "315532800"
    with tempfile.TemporaryDirectory(prefix="eunomia-package-") as name:
        folder = Path(name)
        first, second = (build(folder / place, epoch) for place in ("one", "another/place"))
        unequal = [path.name for path in first if digest(path) != digest(second[0].parent / path.name)]
        if unequal or len(first) != len(second):
            return fault(f"two builds differ: {', '.join(unequal) or 'in their files'}")
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for path in first:
            shutil.copy2(path, DIST)
            print(
                f"{digest(path)}  dist/{path.name}  ({path.stat().st_size / 2**20:.1f} MiB), twice the same"
            )
        wheel = next(path for path in DIST.iterdir() if path.suffix == ".whl")
        parts = DIST / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        parts.write_text(bill_of_materials(ROOT / "requirements" / "core.txt"), encoding="utf-8")
        print(f"parts -> dist/{parts.name}")
        return max((tried(wheel, python, folder) for python in (sys.executable, *pythons)), default=0)


def build(folder: Path, epoch: str) -> list[Path]:
    """Wheel and sdist of the files that git knows, from a copy below ``folder``."""
    copy = folder / "source"
    for name in said("git", "-C", str(ROOT), "ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    made = [sys.executable, "-m", "hatchling", "build", "-d", str(folder / "dist")]
    subprocess.run(made, cwd=copy, env=environment, check=True, stdout=subprocess.DEVNULL)
    return sorted((folder / "dist").iterdir())


def tried(wheel: Path, python: str, folder: Path) -> int:
    """Install it with the locked versions of what it needs, and run it from an empty folder."""
    if shutil.which(python) is None:
        print(f"{python} is not here: not tried")
        return 0
    place = folder / f"env-{Path(python).name}"
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    locked = place / "locked.txt"
    locked.write_text(
        "\n".join(HASHED.findall((ROOT / "requirements" / "test.txt").read_text(encoding="utf-8")))
    )
    install = [place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    subprocess.run([*install, f"{wheel}[{EXTRAS}]", "-c", str(locked)], check=True)
    here = place / "here"
    here.mkdir()
    (here / "studio.toml").write_text(SCENARIO, encoding="utf-8")
    program = str(place / "bin" / "eunomia")
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    for words in TRIALS:
        done = subprocess.run([program, *words], cwd=here, env=clean, capture_output=True, text=True)
        if done.returncode:
            return fault(
                f"eunomia {' '.join(words)} of {wheel.name} ends with {done.returncode}: {done.stderr[-800:]}"
            )
        print(f"{Path(python).name}: eunomia {' '.join(words)}")
    return served(program, here, clean)


def served(program: str, here: Path, environment: dict[str, str]) -> int:
    """Start ``serve demo``, wait until it is ready, stop it."""
    words = [program, "serve", "demo", "--json", "--set", "http_port=0", "--set", "grpc_port=0"]
    with subprocess.Popen(words, cwd=here, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ready = server.stdout.readline()
        server.terminate()
        status = server.wait(timeout=120)
    if not ready or status:
        return fault(f"eunomia serve demo ends with {status} and says {ready!r}")
    print("eunomia serve demo")
    return 0


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def said(*command: str) -> str:
    """What a command prints; nothing where it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def fault(sentence: str) -> int:
    """Say it; the exit status."""
    print(sentence, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
