"""The expected regret of a policy on labels, its gradient, and its descent.

Assume that at one decision point with candidates i the policy draws i with probability p = softmax(score /
HEAT). Its mean loss is

    loss = sum_i p_i regret_i

The policy that is served takes the best score; the heat only makes the loss smooth.
Cross-entropy on the best choice would treat a loss of a hundredth of a hit like one of three hits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eunomia.core.arrays import Floats, Ints
from eunomia.learning.agents.codec import Codec
from eunomia.learning.agents.expert.labels import Labels
from eunomia.learning.policy.network import REACH
from eunomia.learning.policy.weights import Weights

HEAT = 0.1
BATCH = 512  # decision points


@dataclass(frozen=True)
class Descent:
    """Adam (Kingma and Ba, ICLR 2015), ``epochs`` over all labels; ``decay``: pull back to where it began."""

    epochs: int = 10
    rate: float = 0.02
    decay: float = 1e-3


def loss_and_gradient(weights: Weights, labels: Labels) -> tuple[float, dict[str, Floats]]:
    """Mean expected regret per decision point [hits], and its gradient by tensor.

    Linear and hidden policies; the pooled terms of a pointer need all that waits, which labels do not hold.
    """
    score = labels.jobs @ (weights.base + weights.job)
    if weights.kind == "hidden":
        network = weights.network
        own = np.clip((labels.jobs - weights.centre) / weights.spread, -REACH, REACH)
        inputs = np.hstack([own, labels.overall])
        summed = inputs @ network["W1"] + network["b1"]
        hidden = summed / (1.0 + np.abs(summed))
        score = score + hidden @ network["out"]
    value, by_score = _expected(score, labels)
    gradient = {"job": by_score @ labels.jobs}
    if weights.kind == "hidden":
        back = np.outer(by_score, network["out"]) / (1.0 + np.abs(summed)) ** 2
        gradient |= {"out": by_score @ hidden, "W1": inputs.T @ back, "b1": back.sum(axis=0)}
    return value, gradient


def _expected(score: Floats, labels: Labels) -> tuple[float, Floats]:
    """Mean loss, and its derivative by score."""
    first = np.flatnonzero(np.diff(labels.point, prepend=-1))
    sizes = np.diff(first, append=len(score))
    spread = np.repeat(np.maximum.reduceat(score, first), sizes)
    p = np.exp((score - spread) / HEAT)
    p /= np.repeat(np.add.reduceat(p, first), sizes)
    mean = np.add.reduceat(p * labels.regret, first)
    return float(mean.mean()), p * (labels.regret - np.repeat(mean, sizes)) / HEAT / len(first)


def descend(
    codec: Codec, x: Floats, labels: Labels, how: Descent, rng: np.random.Generator
) -> tuple[Floats, float]:  # fmt: skip
    """Search coordinates after the descent from ``x``, and the mean loss over its last epoch; ``x`` without labels."""
    if labels.points == 0:
        return x, 0.0
    began, m, v = x.copy(), np.zeros_like(x), np.zeros_like(x)
    first = np.append(np.flatnonzero(np.diff(labels.point, prepend=-1)), len(labels.point))
    step = 0
    losses: list[float] = []
    for _ in range(how.epochs):
        order, losses = rng.permutation(labels.points), []
        for at in range(0, len(order), BATCH):
            value, gradient = loss_and_gradient(codec.decode(x), _some(labels, first, order[at : at + BATCH]))
            g = codec.gather(gradient) + how.decay * (x - began)
            step += 1
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x = x - how.rate * (m / (1.0 - 0.9**step)) / (np.sqrt(v / (1.0 - 0.999**step)) + 1e-8)
            losses.append(value)
    return x, float(np.mean(losses))


def _some(labels: Labels, first: Ints, points: Ints) -> Labels:
    """The labels of these points."""
    sizes = first[points + 1] - first[points]
    number = np.repeat(np.arange(len(points)), sizes)
    within = np.arange(len(number)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return labels.some(np.repeat(first[points], sizes) + within, number)
