"""Numbers of tenant-model pairs, as the dispatcher has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.dispatch.indicators import Past
from eunomia.serving.tenants.grants import Grant
from eunomia.workload.tenant import Agreement


class Pairs:
    """The dispatcher learns of a new pair, and of what administrators have changed, when its next request comes.

    ``past``: what the ledger has of a tenant and a network from a server before.
    """

    def __init__(
        self, dispatcher: Dispatcher, past: Callable[[str, str], Sequence[Past]] = lambda tenant, model: ()
    ) -> None:
        self._dispatcher, self._past = dispatcher, past
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
                pair = self._dispatcher.add_pair(agreement, self._past(*key))
            else:
                self._dispatcher.change_pair(pair, agreement)
            self._known[key] = pair, grant
        return pair
