"""PPO (Schulman et al., 2017) with a masked pointer over waiting sub-jobs, for comparison; one file, no framework.

    advantage  generalised (lambda), normalised per batch
    loss       - min(ratio A, clip(ratio) A) + value_weight (v - G)^2 - entropy_weight H

Does badly: it sees some thousand decisions per second of processor time, an evolution strategy inside the compiled loop
hundreds of thousands.
"""

from __future__ import annotations

import torch
from torch import Tensor

from eunomia.config.algorithm import PpoAlgorithm
from eunomia.engines.crew import Workers
from eunomia.learning.agents import Context
from eunomia.learning.agents.pointer import KEYS, Pointer, tensors
from eunomia.learning.agents.torch_state import TorchAgent, descend, seeded
from eunomia.learning.gym.stage import Stage
from eunomia.learning.loop import mean_of
from eunomia.learning.state import Entry

TRACE = 0.95  # lambda
CLIP = 0.2
VALUE_WEIGHT = 0.5
GRADIENT = 0.5  # greatest norm
COLUMNS = ("actions", "odds", "values", "live", "rewards", "ends")  # of a rollout, beside what was seen


def advantages(rewards: Tensor, values: Tensor, ends: Tensor, gamma: float, trace: float) -> Tensor:
    """(T, E) A_t = d_t + gamma lambda (1 - end_t) A_{t+1}, d_t = r_t + gamma (1 - end_t) v_{t+1} - v_t.

    ``values`` (T + 1, E); ``ends`` (T, E): 1 where the episode ended with step t.
    """
    result, following = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        go_on = gamma * (1.0 - ends[t])
        following = rewards[t] + go_on * values[t + 1] - values[t] + trace * go_on * following
        result[t] = following
    return result


class PPO(TorchAgent):
    """An iteration is whole episodes, then all epochs over them. The encoding is ``start_eft``."""

    PARTS = ("network", "optimiser", "generator")
    COUNTERS = ("done",)
    network: Pointer
    settings: PpoAlgorithm

    def __init__(self, settings: PpoAlgorithm, context: Context) -> None:
        super().__init__(settings, context)
        with seeded(context.seed):
            self.network = Pointer(settings.units)
        self.optimiser = torch.optim.Adam(self.network.parameters(), settings.rate)
        self.generator = torch.Generator().manual_seed(context.seed)

    def act(self, seen: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Sampled actions, their log-probabilities, values."""
        with torch.no_grad():
            logits, value = self.network(seen)
        odds = logits.softmax(dim=1)
        action = torch.multinomial(odds, 1, generator=self.generator)
        return action[:, 0], logits.log_softmax(dim=1).gather(1, action)[:, 0], value

    def iterate(self, number: int, crew: Workers) -> Entry:
        """Play and learn."""
        stage = self.stage(number)
        roll = self.roll_out(stage)
        self.done += int(roll["live"].sum())
        entry = {"decisions": float(self.done), "hit_rate": float(stage.hit_rates.mean())}
        return entry | self.learn(roll)

    def roll_out(self, stage: Stage) -> dict[str, Tensor]:
        """All episodes of a stage to their ends: (T, E) tables, T that of the longest; ``live`` = real decisions."""
        table: dict[str, list[Tensor]] = {name: [] for name in (*COLUMNS, *KEYS)}
        while stage.live.any():
            now, live = tensors(stage.seen), torch.from_numpy(stage.live)
            action, odds, value = self.act(now)
            reward = torch.from_numpy(self.settings.scale * stage.step(action.numpy())).float()
            step = (action, odds, value, live, reward, torch.from_numpy(~stage.live).float(), *now.values())
            for column, given in zip(table.values(), step, strict=True):
                column.append(given)
        table["values"].append(torch.zeros_like(table["values"][0]))
        return {name: torch.stack(column) for name, column in table.items()}

    def learn(self, roll: dict[str, Tensor]) -> Entry:
        """All epochs over one rollout; returns means of the losses."""
        s, told = self.settings, []
        advantage = advantages(roll["rewards"], roll["values"], roll["ends"], s.gamma, TRACE)
        goal = (advantage + roll["values"][:-1]).flatten()
        kept = roll["live"].flatten().nonzero()[:, 0]  # a step that only begins an episode is no decision
        advantage = advantage.flatten()
        advantage = (advantage - advantage[kept].mean()) / (advantage[kept].std() + 1e-8)
        seen = {name: roll[name].flatten(0, 1) for name in KEYS}
        action, before = roll["actions"].flatten(), roll["odds"].flatten()
        for _ in range(s.epochs):
            order = kept[torch.randperm(len(kept), generator=self.generator)]
            for rows in torch.split(order, s.minibatch):
                given = {name: value[rows] for name, value in seen.items()}
                told.append(self._step(given, action[rows], before[rows], advantage[rows], goal[rows]))
        return mean_of(told)

    def _step(
        self, seen: dict[str, Tensor], action: Tensor, before: Tensor, advantage: Tensor, goal: Tensor
    ) -> Entry:
        logits, value = self.network(seen)
        log = logits.log_softmax(dim=1)
        ratio = (log.gather(1, action[:, None])[:, 0] - before).exp()
        policy = -torch.minimum(ratio * advantage, ratio.clamp(1.0 - CLIP, 1.0 + CLIP) * advantage).mean()
        worth = ((value - goal) ** 2).mean()
        entropy = -(log.exp() * log).sum(dim=1).mean()
        loss = policy + VALUE_WEIGHT * worth - self.settings.entropy * entropy
        descend(loss, self.optimiser, self.network, GRADIENT)
        return {"policy": policy.item(), "value": worth.item(), "entropy": entropy.item()}
