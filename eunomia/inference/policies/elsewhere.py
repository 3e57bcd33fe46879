"""Start tags that know of other servers: what these have served of a tenant moves its tag here."""

from __future__ import annotations

import numpy as np

from eunomia.core.arrays import Floats, Ints

VIRTUAL, FIRST, TAGS = 0, 1, 62  # places in system.memory of the fair policies


def charge_tags(memory: Floats, tenants: Ints, served_s: Floats, most_s: Floats) -> None:
    """T = max(V, T) + service elsewhere per unit of weight, for each tenant by number; T <= V + ``most_s`` [s].

    T is the tenant's finish tag and V the last start tag (weighted_fair.py). A negative service takes back what was
    charged too much. Without the bound a tenant that was alone elsewhere for an hour would owe that hour here.
    """
    place = tenants % TAGS
    owed, most = np.zeros(TAGS), np.zeros(TAGS)
    np.add.at(owed, place, served_s)
    np.maximum.at(most, place, most_s)
    tags, virtual = memory[FIRST : FIRST + TAGS], memory[VIRTUAL]
    moved = np.minimum(np.maximum(tags, virtual) + owed, np.maximum(virtual + most, tags))
    tags[owed != 0.0] = moved[owed != 0.0]
