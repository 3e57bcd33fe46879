"""Objects that ``kubectl get ... -o yaml`` or ``-o json`` writes: one, a list, or several YAML documents; bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from eunomia.core.errors import TraceError

if TYPE_CHECKING:
    from eunomia.core.data import Data

QUANTITY = re.compile(r"(?P<number>\d{1,12}(\.\d{0,9})?(e\d{1,2})?)(?P<unit>m|k|M|G|T|Ki|Mi|Gi|Ti|)")
UNITS = {"": Fraction(1), "m": Fraction(1, 1000)}
UNITS |= {unit: Fraction(1000) ** n for n, unit in enumerate("kMGT", 1)}
UNITS |= {f"{unit}i": Fraction(1024) ** n for n, unit in enumerate("KMGT", 1)}
MOST_DEVICES = 10**7
MOST_BYTES = 512 << 20
MOST_YAML_BYTES = 64 << 20  # its reader is a hundred times slower


def objects(path: Path) -> list[Data]:
    """All objects of a file, the items of lists one by one. Raises TraceError."""
    try:
        size = path.stat().st_size
        head = path.read_bytes()[:1] if size <= MOST_BYTES else b""
        most = MOST_BYTES if head in (b"{", b"[") else MOST_YAML_BYTES
        if size > most:
            remedy = "write JSON (-o json)" if size <= MOST_BYTES else "take a shorter time, or one namespace"
            raise TraceError(f"the file has {size >> 20} MiB, at most {most >> 20} are read; {remedy}", path)
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TraceError(
            f"the file cannot be read: {error.strerror or error}; give the path of a file", path
        ) from None
    except UnicodeDecodeError as error:
        raise TraceError(
            f"the file is not UTF-8 text (byte {error.start}); write it with kubectl", path
        ) from None
    found = list(_items(path, _json(path, text) if head in (b"{", b"[") else _yaml(path, text)))
    if not found:
        raise TraceError("the file holds no object; write it with kubectl get ... -o yaml", path)
    return found


def begins(path: Path, kinds: tuple[str, ...]) -> bool:
    """Whether the beginning of a file names one of these kinds of Kueue."""
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16).decode("utf-8", "replace")
    except OSError:
        return False
    return "kueue.x-k8s.io" in head and any(
        f"kind{q}: {p}{kind}" in head for kind in kinds for q, p in (("", ""), ('"', '"'), ("", '"'))
    )


def _json(path: Path, text: str) -> list[object]:
    try:
        return [json.loads(text)]
    except json.JSONDecodeError as error:
        raise TraceError(
            f"not valid JSON: {error.msg}; write it with kubectl -o json", path, error.lineno
        ) from None
    except RecursionError:
        raise TraceError("the JSON is nested too deeply; write it with kubectl -o json", path) from None


def _yaml(path: Path, text: str) -> list[object]:
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise TraceError(
            "YAML needs PyYAML (pip install pyyaml); kubectl -o json needs nothing", path
        ) from None
    try:
        return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise TraceError(f"not valid YAML: {problem}; write it with kubectl -o yaml", path, line) from None
    except (RecursionError, ValueError) as error:
        raise TraceError(f"the YAML cannot be read ({error}); write it with kubectl -o yaml", path) from None


def _items(path: Path, documents: list[object]) -> Iterator[Data]:
    for document in documents:
        if document is None:
            continue
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from _items(path, _with_kind(document["items"], str(document.get("kind", ""))))
        elif isinstance(document, list):
            yield from _items(path, document)
        elif isinstance(document, dict) and isinstance(document.get("kind"), str):
            yield document
        else:
            raise TraceError(
                "an entry is no object with a kind; write the file with kubectl get ... -o yaml", path
            )


def _with_kind(items: list[object], of_list: str) -> list[object]:
    """Items of a list of one kind, which the API server writes without it: a WorkloadList holds Workloads."""
    kind = of_list.removesuffix("List")
    return [{"kind": kind, **each} if kind and isinstance(each, dict) else each for each in items]


def part(path: Path, where: str, data: Data, *keys: str) -> Data:
    """The table under these keys, empty where there is none. Raises TraceError for something else there."""
    for number, key in enumerate(keys):
        found: object = data.get(key)
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise TraceError(f"{where}: {'.'.join(keys[: number + 1])} must be a table of keys", path)
        data = found
    return data


def entries(path: Path, where: str, data: Data, key: str) -> list[Data]:
    """The list of tables under a key, empty where there is none. Raises TraceError for something else there."""
    found = data.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise TraceError(f"{where}: {key} must be a list of tables", path)
    return found


def devices(path: Path, where: str, value: object) -> int:
    """A quantity of devices as Kubernetes writes them, ``4``, ``4000m``, ``1Ki``: a whole number. Raises TraceError."""
    text = str(value)
    found = QUANTITY.fullmatch(text)
    size = Fraction(found["number"]) * UNITS[found["unit"]] if found is not None else Fraction(1, 2)
    if isinstance(value, bool) or size.denominator != 1:
        raise TraceError(f"{where}: '{text[:40]}' is no number of devices; write a whole number", path)
    if size > MOST_DEVICES:
        raise TraceError(f"{where}: '{text[:40]}' devices are too many; write at most {MOST_DEVICES:,}", path)
    return int(size)


def is_gpu(resource: str) -> bool:
    """``nvidia.com/gpu``, ``amd.com/gpu``, ``gpu``."""
    return resource.rpartition("/")[2] == "gpu"
