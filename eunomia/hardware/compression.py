"""How small run-length coding makes a feature map: an estimate from its share of zeros."""

from __future__ import annotations


def run_length_factor(zero_share: float, word_bits: int = 16) -> float:
    """Coded bits / raw bits for independent zeros, in Eyeriss' format (JSSC 2017).

    Three pairs (5-bit run of zeros, value) and a flag fill 64 bits for 16-bit words: 64/3 bits per
    pair. A pair ends at a value, or after 32 zeros: with density d = 1 - zero_share, pairs per element
    are d / (1 - zero_share**32). Above 1 for dense maps; real zeros cluster, which codes a little better.
    """
    if not 0.0 <= zero_share <= 1.0:
        raise ValueError(f"zero_share is {zero_share}; it must be between 0 and 1")
    pair_bits = (3 * (5 + word_bits) + 1) / 3
    pairs = 1.0 / 32.0 if zero_share == 1.0 else (1.0 - zero_share) / (1.0 - zero_share**32)
    return pairs * pair_bits / word_bits
