"""Series as others write them: any CSV file by a mapping of columns, public traces, Prometheus, exporters of GPUs.

====================  ==========================================================================================
file                  series, time, value
====================  ==========================================================================================
wide CSV              a column per series, a row per sample; ``time`` is left out (``series.py``)
long CSV              ``--column series=pod --column time=ts --column value=bytes``; a sum of columns: ``host+gpu``
Alibaba 2018          ``machine_usage``, ``container_usage`` without a header; memory in percent, or
                      ``value=cpu_util_percent``; -1 and 101 mean that nothing was measured
Azure VM 2017, 2019   ``vm_cpu_readings`` without a header; average use, or ``value=max_cpu``
Prometheus            the JSON answer of a range query (``matrix``); a series per set of labels
DCGM, nvidia-smi      CSV with ``gpu`` or ``index`` or ``uuid``; memory used
====================  ==========================================================================================

Samples at uneven distances are put on one grid: the greatest of a step, or the last one before where a step has none.
All series are cut to the time that they share; those that cover less than half of the file's time are left out.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.sharing.harvest.series import FEWEST, read_series

WANTED = ("series", "time", "value")
ALIBABA_REST = ("mem_gps", "mpki", "net_in", "net_out", "disk_io_percent")
SCHEMAS: dict[
    int, tuple[tuple[str, ...], dict[str, str]]
] = {  # of files without a header, by number of columns
    5: (
        ("time", "vm_id", "min_cpu", "max_cpu", "avg_cpu"),
        {"series": "vm_id", "time": "time", "value": "avg_cpu"},
    ),
    9: (
        ("machine_id", "time", "cpu_util_percent", "mem_util_percent", *ALIBABA_REST),
        {"series": "machine_id", "time": "time", "value": "mem_util_percent"},
    ),
    11: (
        ("container_id", "machine_id", "time", "cpu_util_percent", "mem_util_percent", "cpi", *ALIBABA_REST),
        {"series": "container_id", "time": "time", "value": "mem_util_percent"},
    ),
}
KNOWN = {  # of files with a header: the first that is there, in any case, units in brackets left out
    "series": ("uuid", "gpu_uuid", "hostname+gpu", "gpu", "index", "pci.bus_id"),
    "time": ("timestamp", "time"),
    "value": ("dcgm_fi_dev_fb_used", "memory.used", "fb_used", "dcgm_fi_dev_gpu_util", "utilization.gpu"),
}
MISSING = ("", "na", "n/a", "[n/a]", "nan", "null", "none", "-nan", "+inf", "inf", "-inf")


@dataclass(frozen=True)
class Found:
    """Series on one grid of ``step_s`` (NaN: the file has no times), and what was left out."""

    series: dict[str, Floats]
    step_s: float
    notes: list[str] = field(default_factory=list)


@dataclass
class Samples:
    """Of all series, as they stand in a file."""

    path: Path
    of: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    blank: int = 0

    def add(self, line: int, name: str, at: str, value: str) -> None:
        """One sample; blank ones are counted. Raises ConfigError."""
        text = value.strip()
        text = text.split()[0].rstrip("%") if text else text  # 512 MiB
        if text.lower() in MISSING:
            self.blank += 1
            return
        try:
            number, at_s = float(text), moment_s(at)
        except ValueError:
            raise ConfigError(
                f"{self.path}:{line}: time '{at}' and value '{value}' of series '{name}'; both are numbers, or the "
                "time a date such as 2026-01-31T12:00:00"
            ) from None
        if number < 0.0:
            raise ConfigError(f"{self.path}:{line}: a sample of series '{name}' is {text}; none is negative")
        self.of.setdefault(name, []).append((at_s, number))


def moment_s(text: str) -> float:
    """Seconds: a number, or a date; without a zone it is UTC. Raises ValueError."""
    try:
        found = float(text)
    except ValueError:
        date = datetime.fromisoformat(text.strip().replace("/", "-").replace("Z", "+00:00"))
        found = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(found):
        raise ValueError(text)
    return found


def mapping_of(words: Sequence[str]) -> dict[str, str]:
    """``series=pod`` as a mapping. Raises ConfigError."""
    found = {}
    for word in words:
        wanted, mark, name = word.partition("=")
        if not mark or not name:
            raise ConfigError(f"--column {word}: write WANTED=NAME, for example series=pod")
        if wanted not in WANTED:
            raise UnknownNameError("column of series", wanted, WANTED)
        found[wanted] = name
    return found


def read(path: Path, columns: Mapping[str, str] | None = None, step_s: float | None = None) -> Found:
    """Any of the files above, ``.gz`` too. Raises ConfigError."""
    if step_s is not None and not (math.isfinite(step_s) and step_s > 0.0):
        raise ConfigError(f"--step is {step_s}; more than 0 seconds")
    try:
        return _read(Samples(path), dict(columns or {}), step_s)
    except csv.Error as error:
        raise ConfigError(f"{path}: no CSV file: {error}; give the path of one") from None


def _read(samples: Samples, columns: dict[str, str], step_s: float | None) -> Found:
    path = samples.path
    head = next(_lines(path), "")
    if head.lstrip().startswith("{"):
        _of_prometheus(samples)
    else:
        chosen = _chosen(path, next(csv.reader([head]), []), columns)
        if chosen is None:
            return Found(read_series(path), math.nan)
        _of_rows(samples, *chosen)
    return _on_a_grid(samples, step_s)


def _chosen(
    path: Path, head: list[str], columns: dict[str, str]
) -> tuple[list[str], dict[str, str], bool] | None:
    """Names of the columns, which of them are wanted, and whether a header is there; None: a wide table."""
    if len(head) in SCHEMAS and _is_number(head[2 if len(head) == 11 else len(head) - 1]):
        names, usual = SCHEMAS[len(head)]
        found = list(names), {**usual, **columns}, False
    else:
        plain = [name.strip().partition(" [")[0] for name in head]
        lower = [name.lower() for name in plain]
        usual = {
            wanted: next((k for k in known if all(part in lower for part in k.split("+"))), "")
            for wanted, known in KNOWN.items()
        }
        if not columns and not all(usual.values()):
            return None
        chosen = {**usual, **columns}
        found = plain if columns else lower, chosen, True
        if columns:  # names as they are written, those that are not named as usual
            for wanted in set(WANTED) - set(columns):
                chosen[wanted] = "+".join(plain[lower.index(p)] for p in usual[wanted].split("+") if p)
    for wanted in WANTED:
        parts = found[1][wanted].split("+") if found[1][wanted] else []
        if not parts or any(part not in found[0] for part in parts):
            named = f"'{found[1][wanted]}' " if parts else ""
            raise ConfigError(
                f"{path}: no column {named}for {wanted}; name one by --column {wanted}=NAME; there are: "
                f"{', '.join(found[0])}"
            )
    return found


def _is_number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


def _of_rows(samples: Samples, names: list[str], wanted: Mapping[str, str], header: bool) -> None:
    at, value = names.index(wanted["time"]), names.index(wanted["value"])
    parts = [names.index(part) for part in wanted["series"].split("+")]
    alibaba = len(names) in (9, 11) and not header
    for line, row in enumerate(csv.reader(_lines(samples.path)), 1):
        if (line == 1 and header) or not row:
            continue
        if len(row) != len(names):
            raise ConfigError(f"{samples.path}:{line}: {len(row)} cells; the first line has {len(names)}")
        cell = row[value]
        if alibaba and cell in ("-1", "101", "-1.0", "101.0"):
            cell = ""
        samples.add(line, "/".join(row[part].strip() for part in parts), row[at], cell)


def _of_prometheus(samples: Samples) -> None:
    text = "".join(_lines(samples.path))
    try:
        answer = json.loads(text)
        series = [(one["metric"], one["values"]) for one in answer["data"]["result"]]
        for labels, values in series:
            name = ",".join(f"{k}={v}" for k, v in sorted(labels.items()) if k != "__name__") or "all"
            for at, value in values:
                samples.add(1, name, str(at), str(value))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{samples.path}: no answer of a Prometheus range query ({type(error).__name__}: {error}); it has "
            'data.result with "metric" and "values"'
        ) from None


def _lines(path: Path) -> Iterator[str]:
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig", newline="")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig", newline="") as file
        ):
            yield from file
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the file cannot be read: {error}; give the path of a CSV file") from None


def _on_a_grid(samples: Samples, step_s: float | None) -> Found:
    path, notes = samples.path, []
    known = {name: np.array(sorted(rows)) for name, rows in samples.of.items() if len(rows) >= FEWEST}
    if not known:
        raise ConfigError(
            f"{path}: {len(samples.of)} series, none with {FEWEST} samples; longer ones are needed"
        )
    if step_s is None:
        gaps = np.concatenate([np.diff(rows[:, 0]) for rows in known.values()])
        step_s = float(np.median(gaps[gaps > 0.0])) if (gaps > 0.0).any() else 1.0
    first_s, last_s = (pick(rows[end, 0] for rows in known.values()) for pick, end in ((min, 0), (max, -1)))
    half_s = (last_s - first_s) / 2.0
    long = {name: rows for name, rows in known.items() if rows[-1, 0] - rows[0, 0] >= half_s}
    if not long:
        raise ConfigError(
            f"{path}: none of {len(known)} series covers half of the file's {last_s - first_s:g} s; give a file of "
            "a shorter time"
        )
    if len(long) < len(samples.of):
        notes.append(
            f"{len(samples.of) - len(long)} of {len(samples.of)} series are left out: fewer than {FEWEST} samples, or "
            "less than half of the file's time"
        )
    if samples.blank:
        notes.append(f"{samples.blank} samples are blank and left out")
    begin_s, end_s = max(rows[0, 0] for rows in long.values()), min(rows[-1, 0] for rows in long.values())
    steps = int((end_s - begin_s) / step_s) + 1 if end_s > begin_s else 0
    if steps < 2 * FEWEST:
        raise ConfigError(
            f"{path}: the series share {max(steps, 0)} steps of {step_s:g} s; {2 * FEWEST} are needed: a shorter "
            "--step, or fewer series"
        )
    return Found({name: _steps(rows, begin_s, step_s, steps) for name, rows in long.items()}, step_s, notes)


def _steps(rows: Floats, begin_s: float, step_s: float, steps: int) -> Floats:
    """The greatest sample of each step; where there is none, the last one before."""
    number = np.floor((rows[:, 0] - begin_s) / step_s).astype(int)
    found = np.full(steps, -1.0)
    inside = (number >= 0) & (number < steps)
    np.maximum.at(found, number[inside], rows[inside, 1])
    if found[0] < 0.0:
        found[0] = rows[number < 0, 1][-1] if (number < 0).any() else rows[0, 1]
    seen = np.maximum.accumulate(np.where(found >= 0.0, np.arange(steps), 0))
    return np.asarray(found[seen])
