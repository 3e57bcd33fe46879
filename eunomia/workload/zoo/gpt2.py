"""GPT-2, the smallest (Radford et al., 2019): 12 layers of 768, 12 heads, 124 million parameters."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel
from eunomia.workload.zoo.transformer import pre_norm_layer

_WORDS, _POSITIONS, _WIDTH, _HEADS, _LAYERS = 50257, 1024, 768, 12, 12


def gpt2_prefill(prompt: int = 512, logits: str = "last") -> DnnModel:
    """Read a prompt of ``prompt`` tokens; ``logits``: of the ``last`` token, as serving needs, or of ``all``."""
    if logits not in ("last", "all"):
        raise ConfigError(f"gpt2-prefill has no logits '{logits}'; choose 'last' or 'all'")
    return _gpt2("gpt2-prefill", prompt, 0, 1 if logits == "last" else prompt)


def gpt2_decode(context: int = 512) -> DnnModel:
    """Write one token after ``context`` tokens, whose keys and values are read from the cache."""
    return _gpt2("gpt2-decode", 1, context, 1)


def _gpt2(name: str, tokens: int, cached: int, results: int) -> DnnModel:
    if tokens < 1 or cached < 0 or tokens + cached > _POSITIONS:
        raise ConfigError(
            f"{name} has {_POSITIONS} positions; {tokens} new and {cached} earlier tokens do not fit into them"
        )
    net = NetworkBuilder(name, f"GPT-2 (124M), {tokens} new tokens after {cached}")
    ids = Tensor(1, tokens, 1)
    words = net.embed("embed.words", ids, _WORDS, _WIDTH)
    positions = net.embed("embed.positions", ids, _POSITIONS, _WIDTH)
    x = net.add("embed.add", words, positions)
    for index in range(_LAYERS):
        x = pre_norm_layer(net, f"layer{index}", x, _HEADS, 4 * _WIDTH, cached=cached)
    x = net.layer_norm("norm", x)
    net.dense("logits", Tensor(_WIDTH, results, 1, x.producers), _WORDS, bias=False, shared=True)
    return net.build()
