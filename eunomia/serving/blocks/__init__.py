"""Networks cut into blocks: whole optimisation first, then cuts of the optimised graph."""

from eunomia.serving.blocks.cut import Cut, Segment, cut_points, segment_model
from eunomia.serving.blocks.optimise import Optimised, optimise
from eunomia.serving.blocks.plan import Block, BlockPlan, cut_by, plan_blocks, uncut

__all__ = [
    "Block",
    "BlockPlan",
    "Cut",
    "Optimised",
    "Segment",
    "cut_by",
    "cut_points",
    "optimise",
    "plan_blocks",
    "segment_model",
    "uncut",
]
