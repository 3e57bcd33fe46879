"""BERT (Devlin et al., NAACL 2019; small sizes: Turc et al., arXiv:1908.08962)."""

from __future__ import annotations

from eunomia.core.errors import ConfigError
from eunomia.workload.build import NetworkBuilder, Tensor
from eunomia.workload.model import DnnModel
from eunomia.workload.zoo.transformer import post_norm_layer

_WORDS, _POSITIONS, _SEGMENTS = 30522, 512, 2


def bert_small(seq: int = 128) -> DnnModel:
    """BERT-Small, uncased: 4 layers, hidden size 512, 8 heads, ``seq`` tokens."""
    return _bert("bert-small", 4, 512, 8, seq)


def bert_base(seq: int = 128) -> DnnModel:
    """BERT-Base, uncased: 12 layers, hidden size 768, 12 heads, ``seq`` tokens."""
    return _bert("bert-base", 12, 768, 12, seq)


def _bert(name: str, layers: int, width: int, heads: int, seq: int) -> DnnModel:
    """The encoder with its embeddings and the pooled first token; no head of a task."""
    if not 1 <= seq <= _POSITIONS:
        raise ConfigError(
            f"{name} has {_POSITIONS} positions; seq = {seq} must lie between 1 and {_POSITIONS}"
        )
    net = NetworkBuilder(name, f"BERT, {layers} layers of {width}, {seq} tokens")
    tokens = Tensor(1, seq, 1)
    words = net.embed("embed.words", tokens, _WORDS, width)
    positions = net.embed("embed.positions", tokens, _POSITIONS, width)
    segments = net.embed("embed.segments", tokens, _SEGMENTS, width)
    x = net.layer_norm("embed.norm", net.add("embed.add", words, positions, segments))
    for index in range(layers):
        x = post_norm_layer(net, f"layer{index}", x, heads, 4 * width)
    net.dense("pooler", Tensor(width, 1, 1, x.producers), width)
    return net.build()
