"""Misreports of age, work, shape and size: in one auction, and by one app in ten over a whole run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.table import Cell, Table, table
from eunomia.cluster.policies.themis.agent import App, bid, ideal_time_s
from eunomia.cluster.policies.themis.auction import Outcome, auction
from eunomia.cluster.policies.themis.division import level_of
from eunomia.cluster.policies.themis.proportional import Bids, Offer
from eunomia.contract.allocation import Allocation, Allocator, ClusterView, Holdings, Needs
from eunomia.core.arrays import Floats, Ints

LEASE_S = 1200.0
KINDS = ("rho x 3", "work x 0.5", "work x 2", "spread x 4", "gang x 2")
FORMS = {  # of an auction: payment, rounding, seconds that a bid for nothing waits
    "time, waits": ("lease", "floor", LEASE_S),
    "time, floor bid": ("lease", "floor", 0.0),
    "devices, floor bid": ("devices", "floor", 0.0),
    "devices by lottery, floor bid": ("devices", "lottery", 0.0),
    "no payment, waits": ("none", "floor", LEASE_S),
    "no payment, floor bid": ("none", "floor", 0.0),
}


@dataclass(frozen=True)
class Report:
    """What a single-job app says of itself to an auction of ``most`` GPUs."""

    age_s: float
    full_s: float  # time alone
    left: float  # part of it that is left
    slow: float  # S when spread
    gang: int
    crowd: float
    most: int

    def bid(self, wait_s: float) -> Floats:
        """The bid that follows, in a cluster of 48."""
        speed = np.where(np.arange(self.most + 1) >= self.gang, 1.0, 0.0)[None, :]
        slow = self.slow if self.gang > 1 else 1.0
        ideal_s = ideal_time_s(self.full_s, self.gang, 48, self.crowd)
        left, spread = np.array([self.full_s * self.left]), np.array([[1.0, slow, slow]])
        return bid(
            App(self.age_s, ideal_s, left, speed, spread, np.array([self.gang])), 0, self.most, wait_s=wait_s
        )

    def lies(self) -> dict[str, list[Report]]:
        """Other reports by what they misstate."""
        return {
            "age": [replace(self, age_s=self.age_s * f) for f in (0.0, 0.5, 2.0, 4.0)],
            "work": [replace(self, full_s=self.full_s * f) for f in (0.25, 0.5, 2.0, 4.0)],
            "shape": [
                replace(self, slow=f) for f in (1.0, 1.3, 2.5, 5.0) if f != self.slow and self.gang > 1
            ],
            "size": [replace(self, gang=f) for f in (1, 2, 4, 8) if f != self.gang and f <= self.most],
        }


def drawn(rng: np.random.Generator) -> tuple[list[Report], Offer]:
    """Two to five apps and two to four machines of up to 4 GPUs in two racks."""
    machines = rng.integers(1, 5, int(rng.integers(2, 5)))
    most, found = int(machines.sum()), []
    for gang in rng.choice((1, 2, 4, 8), int(rng.integers(2, 6))).tolist():
        full_s = float(np.exp(rng.uniform(*np.log((0.25, 16.0))))) * 3600.0
        facts = float(rng.exponential(14_400.0)), full_s, float(rng.uniform(0.05, 1.0))
        found.append(Report(*facts, float(rng.choice((1.0, 1.6))), gang, float(rng.uniform(5.0, 20.0)), most))
    return [app for app in found if app.gang <= most], Offer(machines, np.arange(len(machines)) // 2)


def worth(true: Floats, offer: Offer, outcome: Outcome, in_time: bool) -> float:
    """V of app 0 by its true bid: of what it holds while it holds it, and of nothing for the rest of the lease."""
    grant, part = outcome.grant[0], float(outcome.kept[0]) if in_time else 1.0
    held = float(true[int(grant.sum()), level_of(grant, offer.rack)]) if grant.any() else float(true[0, 0])
    return part * held + (1.0 - part) * float(true[0, 0])


def gains(form: str, auctions: int) -> dict[str, list[float]]:
    """Gains by kind of misreport, as parts of the V of all that the app can use; it lies, the others are honest."""
    payment, rounding, wait_s = FORMS[form]
    found: dict[str, list[float]] = {"age": [], "work": [], "shape": [], "size": []}
    for seed in range(auctions):
        apps, offer = drawn(np.random.default_rng([seed, 13]))
        if len(apps) < 2:
            continue
        true = [app.bid(wait_s) for app in apps]
        held = np.zeros((len(apps), len(offer.free)), np.int64)

        def mean(told: Floats, gang: int, apps: list[Report] = apps, offer: Offer = offer, true: list[Floats] = true,
                 held: Ints = held) -> float:  # fmt: skip
            bids, gangs = (
                Bids(np.stack([told, *true[1:]]), held),
                np.array([gang, *(a.gang for a in apps[1:])]),
            )
            draws = range(20 if rounding == "lottery" else 1)
            outcomes = [
                auction(bids, offer, gangs, payment, rounding, np.random.default_rng(d)) for d in draws
            ]  # type: ignore[arg-type]
            return float(np.mean([worth(true[0], offer, one, payment == "lease") for one in outcomes]))

        honest = mean(true[0], apps[0].gang)
        for kind, lies in apps[0].lies().items():
            told = [mean(lie.bid(wait_s), lie.gang) for lie in lies]
            found[kind] += [(one - honest) / float(true[0].max()) for one in told]
    return found


def single_auctions(auctions: int) -> Table:
    """How many misreports gain, and how much at most."""
    rows: list[list[Cell]] = []
    for form in FORMS:
        found = gains(form, auctions // 4 if "lottery" in form else auctions)
        every = np.concatenate([np.array(one) for one in found.values()])
        shares = [float((np.array(one) > 0.01).mean()) for one in found.values()]
        rows.append([form, len(every), *shares, float((every > 0.01).mean()), float(every.max())])
    kinds = "; ".join(f"{kind}|.1%" for kind in ("age", "work", "shape", "size"))
    return table("reports", f"payment; misreports; {kinds}; all|.1%; most gained|.0%", rows)


@dataclass
class Misreporting:
    """A policy that hears false reports of every tenth app.

    ``work``: the steps of a job; who said too few says the truth when they are done. ``spread``: the slowdown S - 1.
    ``gang``: twice the devices, half of which it leaves idle. ``rho``: the factor that an app claims.
    """

    policy: Allocator
    kind: str

    @property
    def needs(self) -> Needs:
        """Those of the policy."""
        return self.policy.needs

    def reset(self, seed: int) -> None:
        """The policy's."""
        self.policy.reset(seed)

    def allocate(self, view: ClusterView) -> Allocation:
        """The policy's answer to what it hears."""
        liar = view.app % 10 == 3
        what, _, factor = self.kind.partition(" x ")
        if what == "work":
            said = view.total_steps * float(factor)
            total = np.where(liar & (view.steps_done < said - 1.0), said, view.total_steps)
            left = np.maximum(total - view.steps_done, 1.0)
            return self.policy.allocate(replace(view, total_steps=total, steps_left=left))
        if what == "gang":
            wide = liar & (2 * view.scale <= view.cluster.counts.min())
            answer = self.policy.allocate(replace(view, scale=np.where(wide, 2 * view.scale, view.scale)))
            return halved(answer, wide)
        traits = dict(view.traits)
        if what == "rho":
            traits["claims"] = np.where(liar, float(factor), 1.0)
        for name in ("slowdown_rack", "slowdown_cross") if what == "spread" else ():
            traits[name] = np.where(liar, 1.0 + (traits[name] - 1.0) * float(factor), traits[name])
        return self.policy.allocate(replace(view, traits=traits))


def halved(answer: Allocation, wide: np.ndarray) -> Allocation:
    """Gangs of ``wide`` jobs on half of the devices that they got."""
    assert answer.devices is not None and answer.servers is not None
    servers, count = answer.servers, answer.servers.count.copy()
    for job in np.flatnonzero(wide & answer.devices.any(axis=1)).tolist():
        surplus = int(answer.devices[job].sum()) // 2
        for place in np.flatnonzero(servers.job == job)[::-1].tolist():
            count[place] -= (taken := min(surplus, int(count[place])))
            surplus -= taken
    here = count > 0
    devices = np.where(wide[:, None], answer.devices // 2, answer.devices)
    return replace(
        answer, devices=devices, servers=Holdings(servers.job[here], servers.server[here], count[here])
    )
