"""What the transformer networks have in common."""

from __future__ import annotations

from eunomia.workload.build import NetworkBuilder, Tensor


def attention(
    net: NetworkBuilder, name: str, x: Tensor, heads: int, *, fused: bool = False, cached: int = 0
) -> Tensor:
    """Multi-head self-attention, output projection included.

    ``fused``: one product gives queries, keys and values, as GPT-2 and ViT store their weights;
    otherwise three products run in parallel. ``cached`` earlier tokens have their keys and values in
    memory; both attention products read them as operands. The full square of scores is computed,
    as dense kernels do, even where a causal mask discards half of it.
    """
    width, context = x.channels, cached + x.height
    if fused:
        q = k = v = net.dense(f"{name}.qkv", x, 3 * width)
    else:
        q, k, v = (net.dense(f"{name}.{part}", x, width) for part in ("query", "key", "value"))
    inner = width // heads
    y = net.attention_product(f"{name}.scores", q, k, heads=heads, inner=inner, columns=context)
    y = net.softmax(f"{name}.softmax", y)
    y = net.attention_product(f"{name}.context", y, v, heads=heads, inner=context, columns=inner)
    y = Tensor(width, x.height, 1, y.producers)
    return net.dense(f"{name}.output", y, width)


def feed_forward(net: NetworkBuilder, name: str, x: Tensor, hidden: int) -> Tensor:
    """Two products; the activation function is applied where the first writes its result."""
    y = net.dense(f"{name}.fc1", x, hidden)
    return net.dense(f"{name}.fc2", y, x.channels)


def pre_norm_layer(
    net: NetworkBuilder, name: str, x: Tensor, heads: int, hidden: int, *, cached: int = 0
) -> Tensor:
    """A transformer layer that normalizes before attention and before the products (GPT-2, ViT)."""
    y = net.layer_norm(f"{name}.norm1", x)
    y = attention(net, f"{name}.attention", y, heads, fused=True, cached=cached)
    x = net.add(f"{name}.add1", y, x)
    y = net.layer_norm(f"{name}.norm2", x)
    y = feed_forward(net, name, y, hidden)
    return net.add(f"{name}.add2", y, x)


def post_norm_layer(net: NetworkBuilder, name: str, x: Tensor, heads: int, hidden: int) -> Tensor:
    """A transformer layer that normalizes after each sum (BERT)."""
    y = attention(net, f"{name}.attention", x, heads)
    x = net.layer_norm(f"{name}.norm1", net.add(f"{name}.add1", y, x))
    y = feed_forward(net, name, x, hidden)
    return net.layer_norm(f"{name}.norm2", net.add(f"{name}.add2", y, x))
