"""From networks, promises and a catalogue to a platform: screened by a bound, searched in the simulator."""

from eunomia.config.plan import PlanConfig, load_plan, plan_from
from eunomia.study.plan.result import PlanResult
from eunomia.study.plan.run import plan

__all__ = ["PlanConfig", "PlanResult", "load_plan", "plan", "plan_from"]
