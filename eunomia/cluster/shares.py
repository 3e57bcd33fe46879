"""Reference shares: what a job would get if the cluster were simply divided."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints


def proportional_share(counts: Ints) -> Floats:
    """x_j = N_j / sum(N), shape (J,): one job's time spread over all devices. Gavel, OSDI 2020."""
    return np.asarray(counts / max(counts.sum(), 1))


def isolated_shares(counts: Ints, scale: Ints) -> Floats:
    """x_mj = N_j / (M s_m), each row cut to a sum of at most 1, shape (M, J). Gavel, OSDI 2020."""
    shares = counts[None, :] / (max(len(scale), 1) * scale[:, None])
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))


def isolated_throughput(throughput: Floats, counts: Ints, scale: Ints) -> Floats:
    """Steps/s of each job under its isolated share, shape (M,); C_m is the sum of steps done over this."""
    return np.asarray((throughput * isolated_shares(counts, scale)).sum(axis=1))
