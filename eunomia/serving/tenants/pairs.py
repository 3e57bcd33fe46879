"""Numbers of tenant-model pairs, as the dispatcher has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eunomia.serving.dispatch.dispatcher import Dispatcher
from eunomia.serving.observe.snapshot import Usage
from eunomia.serving.tenants.grants import Directory, Grant
from eunomia.workload.tenant import Agreement


class Pairs:
    """The dispatcher learns of a new pair, and of what administrators have changed, when its next request comes.

    ``usage``: what the ledger has of each.
    """

    def __init__(self, dispatcher: Dispatcher, usage: Callable[[], Mapping[tuple[str, str], Usage]]) -> None:
        self._dispatcher, self._usage = dispatcher, usage
        self._known: dict[tuple[str, str], tuple[int, Grant]] = {}

    def recall(self, directory: Directory, has: Callable[[str], bool]) -> None:
        """Those to whom something is promised and that have had requests before this start, of networks that exist."""
        for tenant, model in self._usage():
            grant = directory.by_name(tenant)
            if grant is not None and (promise := grant.promise(model)) and promise.slo and has(model):
                self.number(grant, model)

    def number(self, grant: Grant, model: str) -> int:
        """Of the pair, with what is promised to it now."""
        key = (grant.name, model)
        pair, known = self._known.get(key, (-1, None))
        if known is not grant:
            promise = grant.promise(model)
            slo, priority = (promise.slo, promise.priority) if promise else (None, 1.0)
            agreement = Agreement(grant.name, model, slo, priority, grant.weight)
            if pair < 0:
                past = self._usage().get(key)
                pair = self._dispatcher.add_pair(agreement, past.window if past else ())
            else:
                self._dispatcher.change_pair(pair, agreement)
            self._known[key] = pair, grant
        return pair
