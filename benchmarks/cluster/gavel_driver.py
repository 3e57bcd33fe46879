"""Gavel's own simulator on one trace, in the interpreter that its code needs: ``python gavel_driver.py SCHEDULER``.

SCHEDULER is the folder of that name in a clone of stanford-futuredata/gavel (c4fa400); nothing of it is part of this
repository. A request comes as JSON on standard input, completion times leave as JSON on standard output. Modules that
only a live cluster or the estimation of throughputs needs are replaced by empty ones. The interpreter needs NumPy 1.26,
cvxpy 1.4, ecos, scipy, psutil and cvxopt: without its GLPK_MI, Gavel's water filling ends silently after one step.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import sys
import types
import warnings
from typing import Any

UNUSED = ("matrix_completion", "runtime", "runtime.rpc", "scheduler_server", "scheduler_client")


def main() -> None:
    """Simulate what is asked; an exception of Gavel's code is an answer, too."""
    folder, request = sys.argv[1], json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    for name in UNUSED:
        sys.modules[name] = types.ModuleType(name)
    rpc: Any = sys.modules["runtime.rpc"]
    rpc.scheduler_server, rpc.scheduler_client = (sys.modules[name] for name in UNUSED[3:])
    sys.path[:0] = [folder, f"{folder}/policies"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            answer = {"times_s": simulated(request)}
    except Exception as error:  # noqa: BLE001
        answer = {"crash": f"{type(error).__name__}: {error}".partition("\n")[0]}
    print(json.dumps(answer))


def simulated(asked: dict[str, Any]) -> list[float | None]:
    """Completion times in order of arrival; None = dropped."""
    job, utils, scheduler, key = (__import__(name) for name in ("job", "utils", "scheduler", "job_id_pair"))
    jobs = [job.Job(None, kind, "", "", "", int(steps), duration, scale, weight, slo)
            for kind, steps, duration, scale, weight, slo in asked["jobs"]]  # fmt: skip
    policy = utils.get_policy(asked["policy"], solver="ECOS", seed=asked["seed"])
    run = scheduler.Scheduler(policy, True, asked["throughputs"], asked["seed"])
    if "cost" in asked["policy"]:
        utils.get_latest_price_for_worker_type = lambda kind, *_: asked["prices"][kind]
        run._per_worker_type_prices, run._available_clouds = {}, set()
    if "SLO" in asked["policy"]:
        run._SLOs = {}
    counts = asked["counts"]
    server = {kind: math.gcd(count, asked["per_server"]) for kind, count in counts.items()}
    run.simulate(counts, asked["arrivals"], jobs, num_gpus_per_server=server)
    return [run._job_completion_times[key.JobIdPair(m, None)] for m in range(len(jobs))]


if __name__ == "__main__":
    main()
