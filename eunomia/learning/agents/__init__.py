"""The table of training algorithms: name -> a function ``(settings, context)`` that makes an agent of the loop.

Other packages add agents by entry points of the group ``eunomia.agents``; a training file may name ``FILE.py:NAME``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from eunomia.core.errors import ConfigError
from eunomia.core.registry import Registry
from eunomia.learning.episodes import Task

if TYPE_CHECKING:
    from eunomia.config.section import Section
    from eunomia.learning.loop import Agent
    from eunomia.learning.policy.weights import Weights

AGENTS = Registry(
    "training algorithm",
    "eunomia.agents",
    {
        "evolution": "eunomia.learning.agents.cmaes:Search",
        "expert": "eunomia.learning.agents.expert.agent:Expert",
        "ddpg": "eunomia.learning.agents.ddpg.agent:Relmas",
        "td3": "eunomia.learning.agents.ddpg.agent:Relmas",
        "ppo": "eunomia.learning.agents.ppo:PPO",
        "sac": "eunomia.learning.agents.sac:SAC",
        "bdq": "eunomia.learning.agents.bdq.agent:BranchingAgent",
        "deferrable": "eunomia.learning.agents.deferrable:DeferrableAgent",
        "a3c": "eunomia.learning.agents.a3c.agent:PlacementAgent",
        "a2c": "eunomia.learning.agents.a3c.agent:PlacementAgent",
    },
)


@dataclass(frozen=True, eq=False)
class Context:
    """What an agent is given beside its own settings."""

    task: Task
    seed: int = 0
    start: Weights | None = None  # stages: the weights to begin with
    tenants: bool = False  # whether features of promises are seen (and, in stages, trained)
    promises: bool = False  # stages: train them alone
    rule: str = ""  # stages by experts: what rollouts follow
    stage: str = ""  # stages: what this one is called


def make_agent(name: str, settings: Section, context: Context) -> Agent:
    """The agent of a name or of ``FILE.py:NAME``. Raises UnknownNameError or ConfigError."""
    made = AGENTS.resolve(name)
    if not callable(made):
        raise ConfigError(f"algorithm '{name}' is {made!r}; it must be a function of (settings, context)")
    agent: Agent = made(settings, context)
    return agent
