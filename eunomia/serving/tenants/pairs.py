"""Numbers of tenant-model pairs, as the dispatcher has them."""

from __future__ import annotations

from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.tenants.grants import Grant
from eunomia.workload.tenant import Agreement


class Pairs:
    """The dispatcher learns of a new pair, and of what administrators have changed, when its next request comes."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._known: dict[tuple[str, str], tuple[int, Grant]] = {}

    def number(self, grant: Grant, model: str) -> int:
        """Of the pair, with what is promised to it now."""
        key = (grant.name, model)
        pair, known = self._known.get(key, (-1, None))
        if known is not grant:
            promise = grant.promise(model)
            slo, priority = (promise.slo, promise.priority) if promise else (None, 1.0)
            agreement = Agreement(grant.name, model, slo, priority, grant.weight)
            if pair < 0:
                pair = self._dispatcher.add_pair(agreement)
            else:
                self._dispatcher.change_pair(pair, agreement)
            self._known[key] = pair, grant
        return pair
