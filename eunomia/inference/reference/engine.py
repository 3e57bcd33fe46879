"""The event loop of docs/engine.md, step by step."""

from __future__ import annotations

import math

from eunomia.contract.contention import CONTENTION
from eunomia.contract.contention.model import Demand
from eunomia.core.arrays import Floats
from eunomia.inference.options import EngineOptions
from eunomia.inference.problem import Problem, noise_of
from eunomia.inference.reference.beliefs import Beliefs
from eunomia.inference.reference.decider import Decider
from eunomia.inference.reference.indicators import Departure, Reading, read
from eunomia.inference.reference.noise import FACTOR, MOVE, SWITCH, drawn, jitter
from eunomia.inference.reference.records import Decision, Interval, Outcome, Run
from eunomia.inference.reference.rules import Spot
from eunomia.inference.reference.state import GRACE_S, Job, Lane, Request, Running


class Engine:
    """State of one run; each method is one step of docs/engine.md."""

    decider: Decider  # set before the run begins

    def __init__(self, problem: Problem, options: EngineOptions) -> None:
        self.problem, self.options = problem, options
        self.noise = noise_of(problem, options)
        self.now_s = 0.0
        self.bandwidth = problem.bandwidth_bytes_s
        self.beliefs = Beliefs(problem, options.estimator.alpha if options.estimator.mode == "ewma" else 0.0)
        self.lanes = [Lane(index, int(kind)) for index, kind in enumerate(problem.type_of)]
        self.expected = {k: float(problem.jobs.arrival_s[k]) for k in range(problem.jobs.num_open)}
        self.live: dict[int, Request] = {}
        self.waiting: list[Job] = []
        self.fresh: list[Job] = []  # became ready in the current step of the current instant
        self.outcomes = [Outcome(k) for k in range(len(problem.jobs.pair))]
        self.history: list[list[Departure]] = [[] for _ in problem.jobs.model_of]
        self.decisions: list[Decision] = []
        self.sequence = self.binds = self.departed = self.rounds = self.next_tick = self.close_calls = 0
        self.scheduler_free_s = 0.0

    # -- time ---------------------------------------------------------------------------------

    def run(self) -> Run:
        """Process instants until nothing is left or the horizon is reached."""
        horizon_s = self.options.horizon_s
        while (time_s := self.next_event_s()) < math.inf or (horizon_s is not None and self.waiting):
            if horizon_s is not None and time_s > horizon_s:
                self.advance(max(horizon_s, self.now_s))
                break
            self.advance(time_s)
            self.instant()
        intervals = [interval for lane in self.lanes for interval in lane.history]
        return Run(
            intervals=sorted(
                intervals, key=lambda i: (math.inf if i.end_s is None else i.end_s, i.accelerator)
            ),
            decisions=self.decisions,
            outcomes=self.outcomes,
            busy_s=[lane.busy_until(self.now_s) for lane in self.lanes],
            now_s=self.now_s,
            rounds=self.rounds,
            close_calls=self.close_calls,
        )

    def next_event_s(self) -> float:
        """The earliest end, arrival, drop timer or useful tick; inf = none."""
        self.set_rates()
        times = [self.now_s + run.remaining_s / run.rate for run in self.running()]
        times += self.expected.values()
        times += [time_s for time_s, _, _ in self.timers()]
        if self.options.period_s is not None and self.waiting:
            times.append(self.next_tick * self.options.period_s)
        return max(self.now_s, min(times, default=math.inf))

    def advance(self, time_s: float) -> None:
        """Running layers progress, each at its rate."""
        for run in self.running():
            run.remaining_s -= (time_s - self.now_s) * run.rate
        for owner in {run.job.request: run.job.owner for run in self.running()}.values():
            owner.record.running_s += time_s - self.now_s
        self.now_s = time_s

    def instant(self) -> None:
        """Everything that happens at one instant, in the documented order."""
        until_s = self.now_s + self.eps_s
        self.end_layers()
        while any(time_s <= until_s for time_s in self.expected.values()) or self.due_timers(until_s):
            self.admit_requests(until_s)
            self.fire_timers(until_s)
        period_s = self.options.period_s
        if period_s is None:
            self.decider.decide()
            return
        while self.next_tick * period_s < self.now_s - self.eps_s:
            self.next_tick += 1
        if self.next_tick * period_s <= until_s:
            self.next_tick += 1
            self.decider.tick()
        self.decider.start_queued()

    @property
    def eps_s(self) -> float:
        """What is due within this time is due now."""
        return 1e-12 * max(1.0, self.now_s)

    # -- ends, arrivals, drops ----------------------------------------------------------------

    def end_layers(self) -> None:
        """Step 1, in order of accelerator index."""
        for lane in self.lanes:
            if lane.running is not None and lane.running.remaining_s <= self.eps_s * lane.running.rate:
                self.end_layer(lane, lane.running)
        self.enqueue()

    def end_layer(self, lane: Lane, run: Running) -> None:
        """A layer is done: account for it, release its successors or finish its request."""
        job, owner, interval = run.job, run.job.owner, run.interval
        interval.end_s = self.now_s
        elapsed_s = self.now_s - interval.start_s
        lane.running, lane.last_request = None, owner.index
        lane.busy_s += elapsed_s
        owner.running -= 1
        owner.attained_s += elapsed_s
        owner.last_run_s, owner.last_accelerator = self.now_s, lane.index
        owner.unfinished.discard(job.layer)
        owner.record.work_s += interval.work_s + interval.charge_s
        owner.record.switch_s += interval.switch_s
        owner.record.stretch_s += max(0.0, elapsed_s - run.total_s)
        owner.record.energy_j += float(self.problem.costs.energy_j[job.row, lane.kind])
        self.beliefs.learn(job.row, lane.kind, elapsed_s - interval.switch_s - interval.charge_s)
        if owner.gone:
            return
        if not owner.unfinished:
            on_time = self.now_s <= owner.deadline_s + GRACE_S
            self.leave(owner, "hit" if on_time else "late")
            return
        for layer in self.beliefs.successors[job.row]:
            owner.missing[layer] -= 1
            if owner.missing[layer] == 0:
                self.make_ready(owner, layer)

    def admit_requests(self, until_s: float) -> None:
        """Step 2: those that arrive by the clock in order of index, then those of closed loops by (time due, index)."""
        by_clock = self.problem.jobs.num_open
        due = [(k >= by_clock and time_s, k) for k, time_s in self.expected.items() if time_s <= until_s]
        for _, k in sorted(due):
            del self.expected[k]
            self.admit(k)
        self.enqueue()

    def admit(self, k: int) -> None:
        """A request arrives; its layers without predecessors become ready."""
        jobs, graph = self.problem.jobs, self.problem.graph
        pair = int(jobs.pair[k])
        model = int(jobs.model[k])
        first, last = int(graph.offset[model]), int(graph.offset[model + 1])
        deadline_s = self.now_s + float(jobs.relative_deadline_s[k])
        record = self.outcomes[k]
        record.arrival_s, record.deadline_s = self.now_s, deadline_s
        request = Request(
            index=k, pair=pair, model=model, arrival_s=self.now_s, deadline_s=deadline_s,
            priority=float(jobs.priority[k]), layers=last - first, missing=graph.indegree[first:last].tolist(),
            unfinished=set(range(last - first)), record=record, last_run_s=self.now_s,
        )  # fmt: skip
        self.live[k] = request
        for layer in range(request.layers):
            if graph.indegree[first + layer] == 0:
                self.make_ready(request, layer)

    def make_ready(self, owner: Request, layer: int) -> None:
        """A sub-job starts to wait; its facts are written down once."""
        best, mean, data = self.beliefs.work(owner.model, owner.unfinished)
        iso_best, iso_mean, _ = self.beliefs.work(owner.model, range(owner.layers))
        path_best, path_mean = self.beliefs.paths(owner.model, layer)
        job = Job(
            owner=owner, request=owner.index, layer=layer, row=self.beliefs.offset[owner.model] + layer,
            sequence=self.sequence, arrival_s=owner.arrival_s, deadline_s=owner.deadline_s, ready_s=self.now_s,
            work_best_s=best, work_mean_s=mean, path_best_s=path_best, path_mean_s=path_mean,
            iso_best_s=iso_best, iso_mean_s=iso_mean, bytes_left=data, attained_s=owner.attained_s,
            last_run_s=owner.last_run_s, priority=owner.priority,
            layers_done=owner.layers - len(owner.unfinished), accelerator=owner.last_accelerator,
        )  # fmt: skip
        self.sequence += 1
        self.waiting.append(job)
        self.fresh.append(job)

    def enqueue(self) -> None:
        """Hand over what has just become ready, in order, once all ends (or arrivals) of the instant are known."""
        for job in self.fresh:
            self.decider.became_ready(job)
        self.fresh = []

    def timers(self) -> list[tuple[float, int, int]]:
        """Drop timers (time, request, layer) that still mean something, in order of firing."""
        if self.options.late != "drop":
            return []
        if self.options.drop_when == "expired":
            timers = [(request.deadline_s + GRACE_S, k, -1) for k, request in self.live.items()]
        else:
            timers = [(job.drop_s, job.request, job.layer) for job in self.waiting]
        return sorted(timer for timer in timers if timer[0] < math.inf)

    def due_timers(self, until_s: float) -> list[tuple[float, int, int]]:
        """Timers that fire at this instant."""
        return [timer for timer in self.timers() if timer[0] <= until_s]

    def fire_timers(self, until_s: float) -> None:
        """Step 3: drop requests whose time is up."""
        for _, k, _ in self.due_timers(until_s):
            if k in self.live:
                self.waiting = [job for job in self.waiting if job.request != k]
                self.leave(self.live[k], "dropped")

    def leave(self, request: Request, outcome: str) -> None:
        """A request finishes or is dropped: outcome, indicator, closed-loop successor."""
        jobs = self.problem.jobs
        request.gone = True
        request.record.finish_s = self.now_s
        request.record.outcome = outcome  # type: ignore[assignment]
        del self.live[request.index]
        self.departed += 1
        self.history[request.pair].append(
            Departure(self.now_s, self.now_s - request.arrival_s, outcome == "hit", outcome == "dropped")
        )
        following = int(jobs.next[request.index])
        if following >= 0:
            self.expected[following] = self.now_s + float(jobs.arrival_s[following])

    # -- starting a layer ---------------------------------------------------------------------

    def begin_round(self) -> None:
        """Count a decision round and charge its time to the one scheduler."""
        self.rounds += 1
        if self.options.decision_s > 0.0:
            self.scheduler_free_s = max(self.now_s, self.scheduler_free_s) + self.options.decision_s

    def start(self, job: Job, lane: Lane) -> None:
        """A waiting sub-job starts on an idle accelerator."""
        assert lane.running is None, f"accelerator {lane.index} is busy"
        costs, owner = self.problem.costs, job.owner
        number = len(self.decisions)
        self.decisions.append(
            Decision(number, self.now_s, job.request, job.layer, lane.index, len(self.waiting),
                     self.estimated_demand(), tuple(spot.free_s for spot in self.spots(None)))
        )  # fmt: skip
        self.waiting.remove(job)
        known_s, drawn_s = self.switch_cost_s(job, lane)
        switch_s = known_s + drawn_s
        charge_s = max(0.0, self.scheduler_free_s - self.now_s)
        factor = jitter(self.options.seed, job.request, job.layer, self.noise.sigma[lane.kind])
        work_s = float(costs.latency_s[job.row, lane.kind]) * factor
        work_s *= self.drawn(job, FACTOR, self.noise.factors[lane.kind], 1.0)
        interval = Interval(job.request, job.layer, lane.index, job.ready_s, self.now_s, None,
                            work_s, switch_s, charge_s, job.key, number)  # fmt: skip
        lane.history.append(interval)
        total_s = work_s + switch_s + charge_s
        remaining_s, _, _ = self.beliefs.work(owner.model, owner.unfinished)
        lane.running = Running(
            job=job, interval=interval, total_s=total_s, remaining_s=total_s,
            estimate_s=self.beliefs.latency[job.row][lane.kind] + known_s + charge_s,
            demand_bytes_s=self.beliefs.demand(job.row, lane.kind),
            weight=0.25 * (1.0 + owner.priority) + 10.0 * remaining_s / max(owner.deadline_s - self.now_s, 1e-9),
        )  # fmt: skip
        owner.running += 1
        if owner.record.start_s is None:
            owner.record.start_s = self.now_s

    def switch_cost_s(self, job: Job, lane: Lane) -> tuple[float, float]:
        """What changing the request, or the accelerator of a request, costs: the mean, and what lot adds to it."""
        other_request = lane.last_request not in (-1, job.request)
        moved = job.owner.last_accelerator not in (-1, lane.index)
        if not (other_request or moved):
            return 0.0, 0.0
        known_s = float(self.problem.costs.switch_s[job.row, lane.kind])
        drawn_s = self.drawn(job, SWITCH, self.noise.switches_s[lane.kind])
        if moved:
            left = self.lanes[job.owner.last_accelerator].kind
            known_s += float(self.noise.move_s[left])
            drawn_s += self.drawn(job, MOVE, self.noise.moves_s[left])
        return known_s, drawn_s

    def drawn(self, job: Job, stream: int, values: Floats, default: float = 0.0) -> float:
        """What lot gives this execution."""
        return drawn(self.options.seed, job.request, job.layer, stream, values, default)

    # -- what is known now --------------------------------------------------------------------

    def running(self) -> list[Running]:
        """Running layers in order of accelerator index."""
        return [lane.running for lane in self.lanes if lane.running is not None]

    def idle(self) -> list[Lane]:
        """Idle accelerators in order of index."""
        return [lane for lane in self.lanes if lane.running is None]

    def set_rates(self) -> None:
        """How fast each running layer progresses from now on."""
        costs = self.problem.costs
        runs, demands = self.running(), []
        for lane in self.lanes:
            if lane.running is not None:
                at = (lane.running.job.row, lane.kind)
                demands.append(
                    Demand(float(costs.demand_bytes_s[at]), lane.running.weight, float(costs.latency_s[at]),
                           float(costs.floor_s[at]), float(costs.dram_bytes[at]),
                           lane.running.job.owner.model, self.problem.slowdowns)
                )  # fmt: skip
        model = CONTENTION[self.problem.contention]
        rates = model.plain(demands, self.bandwidth, len(self.lanes))
        for run, rate in zip(runs, rates, strict=True):
            run.rate = rate

    def estimated_demand(self) -> float:
        """D': sum of b' over running layers."""
        return sum((run.demand_bytes_s for run in self.running()), 0.0)

    def indicator(self, pair: int) -> Reading:
        """Service level of a pair, now."""
        slo = self.problem.requests.agreements[pair].slo
        return read(slo, self.history[pair], self.now_s, self.options.sli_ewma)

    def spots(self, job: Job | None) -> list[Spot]:
        """All accelerators as a placement rule sees them for a sub-job (None: without costs)."""
        spots = []
        for lane in self.lanes:
            queue = [other.bound_s for other in self.waiting if other.bound == lane.index]
            spots.append(
                Spot(
                    index=lane.index,
                    kind=lane.kind,
                    idle=lane.running is None,
                    free_s=lane.running.free_in_s if lane.running else 0.0,
                    queued=len(queue),
                    queued_s=sum(queue),
                    estimate_s=self.beliefs.latency[job.row][lane.kind] if job else math.inf,
                    demand_bytes_s=self.beliefs.demand(job.row, lane.kind) if job else 0.0,
                )  # fmt: skip
            )
        return spots
