"""Who starts where: one decider per kind of policy, all answering the same three questions."""

from __future__ import annotations

import math

from eunomia.contract.traits import forget
from eunomia.contract.view import Assign, Policy
from eunomia.core.errors import PolicyError
from eunomia.inference.reference import rules
from eunomia.inference.reference.decider import Decider
from eunomia.inference.reference.engine import Engine
from eunomia.inference.reference.rules import Rule
from eunomia.inference.reference.state import Job, Lane
from eunomia.inference.reference.view import build_view


def make_decider(engine: Engine, policy: Rule | Policy) -> Decider:
    """The decider for a rule or for any callable."""
    if not isinstance(policy, Rule):
        return Asked(engine, policy)
    return Queueing(engine, policy) if policy.place in rules.QUEUE_RULES else Greedy(engine, policy)


class Base:
    """What all deciders share: queues per accelerator, and whether late sub-jobs go last."""

    def __init__(self, engine: Engine, feasible: bool) -> None:
        self.engine = engine
        self.late_last = feasible or engine.options.late == "last"

    def is_late(self, job: Job) -> bool:
        """Whether the sub-job stands behind those on time."""
        return self.late_last and job.is_late(self.engine.now_s)

    def rank(self, job: Job) -> tuple[bool, float, int]:
        """Order of sub-jobs whose key is set: late last, then key, then sequence."""
        return self.is_late(job), job.key, job.sequence

    def bind(self, job: Job, accelerator: int, key: float) -> None:
        """Put a sub-job into the queue of an accelerator."""
        job.bound, job.key = accelerator, key
        job.bound_s = self.engine.beliefs.latency[job.row][self.engine.lanes[accelerator].kind]
        self.engine.binds += 1

    def start_queued(self) -> None:
        """Every idle accelerator takes the head of its own queue."""
        for lane in self.engine.idle():
            queue = [job for job in self.engine.waiting if job.bound == lane.index]
            if queue:
                self.engine.start(min(queue, key=self.rank), lane)

    def collect(self) -> list[Job]:
        """The most urgent waiting sub-jobs, taken out of their queues, at a tick."""
        waiting = sorted(self.engine.waiting, key=lambda job: (job.deadline_s, job.sequence))
        collected = waiting[: self.engine.options.period_cap]
        for job in collected:
            job.bound, job.key = None, math.nan
        return collected

    def opens_round(self) -> bool:
        """Whether something waits while something is idle; if so the round is counted and charged."""
        if not (self.engine.waiting and self.engine.idle()):
            return False
        self.engine.begin_round()
        return True


class Greedy(Base):
    """An order and a placement, evaluated anew for every waiting sub-job before every start."""

    def __init__(self, engine: Engine, rule: Rule) -> None:
        super().__init__(engine, rule.feasible)
        self.rule = rule

    def key(self, job: Job) -> float:
        """The ordering key, now."""
        engine = self.engine
        gap = engine.indicator(job.owner.pair).gap
        return rules.key(self.rule.order, job, engine.now_s, gap, engine.bandwidth, engine.options.seed)

    def became_ready(self, job: Job) -> None:
        """Compute the key; between ticks, bind at once (patch)."""
        options = self.engine.options
        if options.period_s is None:
            job.key = self.key(job)
        elif options.period_mode == "patch":
            self.bind(job, self.queue_of(job, with_queues=True), self.key(job))

    def decide(self) -> None:
        """Start sub-jobs one by one until none has an idle accelerator chosen, or the gate is shut."""
        engine = self.engine
        if not self.opens_round():
            return
        while engine.waiting and engine.estimated_demand() <= self.rule.gate * engine.bandwidth:
            if self.rule.order in rules.DYNAMIC:
                for job in engine.waiting:
                    job.key = self.key(job)
            for job in sorted(engine.waiting, key=self.rank):
                demand = engine.estimated_demand()
                chosen = rules.place(self.rule.place, engine.spots(job), demand, engine.bandwidth)
                if chosen is not None:
                    engine.start(job, engine.lanes[chosen])
                    break
            else:
                return

    def tick(self) -> None:
        """Queue the collected sub-jobs anew, in greedy order."""
        if not self.engine.waiting:
            return
        self.engine.begin_round()
        collected = self.collect()
        for job in collected:
            job.key = self.key(job)
        for job in sorted(collected, key=self.rank):
            with_queues = self.rule.place in ("eft", "eft_ca")
            self.bind(job, self.queue_of(job, with_queues), job.key)

    def queue_of(self, job: Job, with_queues: bool) -> int:
        """The accelerator whose queue the sub-job enters."""
        spots = self.engine.spots(job)
        self.engine.close_calls += with_queues and rules.is_close_call(spots, own=True)
        return rules.place_in_period(spots, with_queues)


class Queueing(Base):
    """Sub-jobs are bound to a queue when they become ready; the order rules inside each queue."""

    def __init__(self, engine: Engine, rule: Rule) -> None:
        super().__init__(engine, rule.feasible)
        self.rule = rule

    def became_ready(self, job: Job) -> None:
        """Compute the key and bind, if a queue has room."""
        engine = self.engine
        gap = engine.indicator(job.owner.pair).gap
        job.key = rules.key(self.rule.order, job, engine.now_s, gap, engine.bandwidth, engine.options.seed)
        self.try_bind(job)

    def try_bind(self, job: Job) -> bool:
        """Bind by the rule; False when no queue has room."""
        engine = self.engine
        spots = engine.spots(job)
        engine.close_calls += self.rule.place == "least_loaded" and rules.is_close_call(spots, own=False)
        target = rules.bind(self.rule, spots, job, engine.binds, engine.options.seed)
        if target is not None:
            self.bind(job, target, job.key)
        return target is not None

    def decide(self) -> None:
        """Bind those that no queue had room for, in order, as room appears; then serve the queues."""
        if not self.opens_round():
            return
        while homeless := [job for job in self.engine.waiting if job.bound is None]:
            if not self.try_bind(min(homeless, key=self.rank)):
                break
        self.start_queued()

    def tick(self) -> None:
        """Queueing rules have no period."""
        raise PolicyError(
            f"placement '{self.rule.place}' binds sub-jobs at once; it cannot be used with a period"
        )


class Asked(Base):
    """Any callable ``View -> Sequence[Assign]``."""

    def __init__(self, engine: Engine, policy: Policy) -> None:
        super().__init__(engine, feasible=False)
        self.policy = policy
        forget(policy, engine.options.seed)

    def became_ready(self, job: Job) -> None:
        """Between ticks: the request's last priority, on the accelerator of least c' (patch)."""
        options = self.engine.options
        if options.period_s is not None and options.period_mode == "patch":
            given = job.owner.given_priority
            place = rules.place_in_period(self.engine.spots(job), with_queues=False)
            self.bind(job, place, math.inf if given is None else -given)

    def decide(self) -> None:
        """Ask until the answer is empty, or nothing waits or is idle."""
        if not self.opens_round():
            return
        while self.engine.waiting and self.engine.idle():
            answers = list(self.policy(build_view(self.engine, self.engine.waiting)))
            if not answers:
                return
            for answer in answers:
                job, lane = self.checked(answer, self.engine.waiting)
                if lane.running is not None:
                    raise PolicyError(f"the policy answered {answer}, but accelerator {lane.index} is busy")
                self.engine.start(job, lane)

    def tick(self) -> None:
        """Ask once, about the collected sub-jobs; those without an answer wait for the next tick."""
        if not self.engine.waiting:
            return
        self.engine.begin_round()
        collected = self.collect()
        for answer in self.policy(build_view(self.engine, collected)):
            job, lane = self.checked(answer, [job for job in collected if job.bound is None])
            job.owner.given_priority = answer.priority
            self.bind(job, lane.index, -answer.priority)

    def checked(self, answer: Assign, allowed: list[Job]) -> tuple[Job, Lane]:
        """The sub-job and accelerator of a legal answer."""
        found = [job for job in allowed if (job.request, job.layer) == (answer.request, answer.layer)]
        if not found:
            raise PolicyError(f"the policy answered {answer}, but that sub-job does not wait for a decision")
        if not 0 <= answer.accelerator < len(self.engine.lanes):
            raise PolicyError(
                f"the policy answered {answer}, but there are {len(self.engine.lanes)} accelerators"
            )
        lane = self.engine.lanes[answer.accelerator]
        if self.engine.beliefs.latency[found[0].row][lane.kind] == math.inf:
            raise PolicyError(f"the policy answered {answer}, but that accelerator cannot run the layer")
        return found[0], lane
