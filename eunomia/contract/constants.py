"""What a policy brings along, put where its compiled function finds it: in the SYSTEM record of the View."""

from __future__ import annotations

import numpy as np

from eunomia.contract.traits import BLOCKS, PARAMETERS
from eunomia.core.addresses import give_blocks
from eunomia.core.arrays import Records


def give_constants(policy: object, system: np.void | Records) -> None:
    """Write the ``parameters`` (at most 8 numbers) and the ``blocks`` (arrays) of a policy, if it has some.

    ``system``: a SYSTEM record or an array (1,) of one. The policy must live as long as the record is read.
    """
    numbers, place = PARAMETERS.of(policy), system["parameters"]
    place[..., : len(numbers)] = numbers
    place[..., len(numbers) :] = 0.0
    system["block_at"], system["block_bytes"] = 0, 0  # those of another policy may be gone
    give_blocks(system, BLOCKS.of(policy))
