"""Formulas in the block of a policy: a postfix program and the stack machine that runs it; compiled.

A formula is FORMULA, the number of its instructions, STACK cells to compute in, and (code, value) per instruction. A
code of at least 0 is a feature, a negative one stands for its place in ``CODES``. One machine runs every formula, so a
new rule needs no compilation. learning/evolve/expression.py is the same in Python, to the last bit.
"""

from __future__ import annotations

import math

from eunomia.core.arrays import Floats
from eunomia.inference.kernel.jit import jitted
from eunomia.learning.observation.table import GLOBAL, JOB, PAIR

PAIR_AT, GLOBAL_AT, SHARE_AT = len(JOB), len(JOB) + len(PAIR), len(JOB) + len(PAIR) + len(GLOBAL)
FORMULA = -2.0  # in place of the feature of a tree's root
STACK = 64  # a formula of 40 nodes needs at most 27, with its linear terms taken out of it at most one more
CODES = ("number", "+", "-", "*", "/", "<", "<=", "min", "max", "where", "neg", "abs", "log1p", "sqrt")
(NUMBER, ADD, SUB, MUL, DIV, LESS, AT_MOST, LEAST, MOST, WHERE, NEG, ABS, LOG, ROOT) = (
    -1 - place for place in range(len(CODES))
)
LIMIT = 1e15  # results beyond it count as it
SMALL = 1e-6  # divisors nearer to 0 count as it, with their sign


@jitted
def input_of(f: int, x: Floats, y: Floats, z: Floats, v: Floats) -> float:
    """A feature by its number: of the sub-job, of the sub-job on an accelerator, of the platform, of a start."""
    if f < PAIR_AT:
        return x[f]  # type: ignore[no-any-return]
    if f < GLOBAL_AT:
        return y[f - PAIR_AT]  # type: ignore[no-any-return]
    if f < SHARE_AT:
        return z[f - GLOBAL_AT]  # type: ignore[no-any-return]
    return v[f - SHARE_AT]  # type: ignore[no-any-return]


@jitted
def _of_one(code: int, a: float) -> float:
    """neg, abs, log1p and sqrt; the last two keep the sign."""
    if code == NEG:
        return -a
    if code == ABS:
        return abs(a)
    found = math.log1p(abs(a)) if code == LOG else math.sqrt(abs(a))
    return -found if a < 0.0 else found


@jitted
def _of_two(code: int, a: float, b: float) -> float:
    """The operators of two values."""
    if code == ADD:
        found = a + b
    elif code == SUB:
        found = a - b
    elif code == MUL:
        found = a * b
    elif code == DIV:
        if abs(b) < SMALL:
            b = SMALL if b >= 0.0 else -SMALL
        found = a / b
    elif code == LESS:
        found = 1.0 if a < b else 0.0
    elif code == AT_MOST:
        found = 1.0 if a <= b else 0.0
    elif code == LEAST:
        found = min(a, b)
    else:
        found = max(a, b)
    return min(max(found, -LIMIT), LIMIT)


@jitted
def run_formula(block: Floats, at: int, x: Floats, y: Floats, z: Floats, v: Floats) -> float:
    """Value of the formula that stands at ``at``."""
    bottom = at + 2
    top, place = bottom, bottom + STACK  # top: the first free cell
    for _ in range(int(block[at + 1])):
        code = int(block[place])
        if code >= 0:
            block[top] = input_of(code, x, y, z, v)
            top += 1
        elif code == NUMBER:
            block[top] = block[place + 1]
            top += 1
        elif code <= NEG:
            block[top - 1] = _of_one(code, block[top - 1])
        elif code == WHERE:
            top -= 2
            block[top - 1] = block[top] if block[top - 1] > 0.0 else block[top + 1]
        else:
            top -= 1
            block[top - 1] = _of_two(code, block[top - 1], block[top])
        place += 2
    return block[bottom]  # type: ignore[no-any-return]
