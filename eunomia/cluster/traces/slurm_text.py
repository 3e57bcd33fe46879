"""How Slurm writes times and resources: ``2-03:04:05``, ``2024-03-01T10:00:00``, ``cpu=8,gres/gpu:a100=4``."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

SPAN = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<parts>\d{1,9}(?::\d{1,2}){0,2})(?:\.\d+)?")
SLASHES = re.compile(r"^(\d{4})/(\d\d)/(\d\d)[-_T ]")
NO_LIMIT = frozenset({"UNLIMITED", "INFINITE", "NONE"})
NO_TIME = frozenset({"", "Unknown", "None", "N/A", "NONE"})
GRES = re.compile(
    r"(?:gres[:/])?gpu(?::(?P<type>[^:,()=]*[^:,()=\d][^:,()=]*))?(?:[:=](?P<count>\d{1,6}))?(?:\(.*\))?"
)
GPU = re.compile(r"gres/gpu(?::(?P<type>[^=,:]+))?")


def span_s(text: str) -> float | None:
    """Seconds of a span; inf for UNLIMITED, None for what is none. Alone, a number counts minutes; ``a:b`` min:s.

    After days come hours: ``2-03`` is two days and three hours, ``2-03:04:05`` the same with minutes and seconds.
    """
    if text.upper() in NO_LIMIT:
        return math.inf
    found = SPAN.fullmatch(text)
    if found is None:
        return None
    parts = [int(part) for part in found["parts"].split(":")]
    if found["days"] is not None:
        hours, minutes, seconds = (parts + [0, 0])[:3]
        return float(int(found["days"]) * 86_400 + hours * 3600 + minutes * 60 + seconds)
    if len(parts) == 1:
        return 60.0 * parts[0]
    hours, minutes, seconds = ([0, *parts] if len(parts) == 2 else parts)[:3]
    return float(hours * 3600 + minutes * 60 + seconds)


def moment_s(text: str) -> float | None:
    """Seconds since 1970 of a date (without a zone: UTC) or of a number of seconds; None for what is neither.

    ``2024/03/01-10:00:00`` is a date, too: SLURM_TIME_FORMAT often says so.
    """
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text):
        return float(text)
    try:
        found = datetime.fromisoformat(SLASHES.sub(r"\1-\2-\3T", text))
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def gpus_of(tres: str) -> tuple[int, tuple[str, ...]] | None:
    """GPUs and their types of a list of trackable resources; None for what is no such list.

    Slurm lists typed GPUs beside their sum: ``gres/gpu=4,gres/gpu:a100=4`` are four.
    """
    total, typed = 0, {}
    for part in filter(None, tres.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name:
            return None
        found = GPU.fullmatch(name)
        if found is None:
            continue
        if not value.isdigit() or len(value) > 9:
            return None
        if found["type"] is None:
            total = int(value)
        else:
            typed[found["type"]] = int(value)
    return max(total, sum(typed.values())), tuple(sorted(kind for kind, count in typed.items() if count))


def gres_of(text: str) -> dict[str, int]:
    """GPUs by type of a list of generic resources, "" = untyped: ``gpu:2``, ``gpu:a100:4(S:0-1)``, ``gres:gpu:2``."""
    found: dict[str, int] = {}
    for part in re.split(r",(?![^(]*\))", text):
        match = GRES.fullmatch(part.strip())
        if match is not None:
            kind = match["type"] or ""
            found[kind] = found.get(kind, 0) + int(match["count"] or 1)
    return found
