"""What is said of inputs that may hold a device for too long."""

from __future__ import annotations

import math

from eunomia.serving.dispatch.jobs import Job
from eunomia.serving.protocol.errors import TooLarge


def in_ms(longest_s: float, bound_s: float) -> tuple[str, str]:
    """Both, with as many digits as show that they differ."""
    for digits in range(4):
        texts = f"{longest_s * 1e3:.{digits}f} ms", f"{bound_s * 1e3:.{digits}f} ms"
        if texts[0] != texts[1]:
            break
    return texts


def too_large(tenant: str, longest_s: float, bound_s: float, remedy: str) -> TooLarge:
    """Why an input does not run; inf = it is too long for a trial, and nobody knows how long it is."""
    length, most = in_ms(longest_s, bound_s)
    length = length if longest_s < math.inf else "too long"
    return TooLarge(
        f"an input of this size may hold a device for {length} without a pause; tenant "
        f"'{tenant}' may {most}, for the deadlines of others: {remedy}"
    )


def refused(job: Job, longest_s: float, bound_s: float, *, values: bool) -> str:
    """For the log; ``values``: others of its size are short."""
    name, times = job.network.name, in_ms(longest_s, bound_s)
    if job.cost_row == job.network.first_row and not values:
        return (
            f"inputs of '{name}' are refused, though they have its trial's sizes: they hold a device for {times[0]} "
            f"now, and others can wait for {times[1]}; give the device cores that nobody else uses, give those others "
            "longer deadlines, or set max_block_ms"
        )
    if values:
        return (
            f"some inputs of '{name}' are refused, as values of one like them had it hold a device for {times[0]}, "
            f"and others can wait for {times[1]}: give those others longer deadlines, or set max_block_ms"
        )
    return (
        f"some inputs of '{name}' are refused, as they would or may hold a device for too long: it is cut for sizes "
        "of its trial; give usual ones as shapes in its [[network]], or of models_dir in NAME.toml or "
        "NAME/config.toml"
    )
