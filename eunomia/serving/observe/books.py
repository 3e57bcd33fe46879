"""What is known of requests that have their answers: metrics, statistics, the live page's last seconds, the recording.

They are written up a moment after the answer; whoever reads them finds every answer so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from eunomia.core.data import Json
from eunomia.serving.dispatch.later import Later
from eunomia.serving.models.entry import key_of
from eunomia.serving.observe.front import FrontEnd
from eunomia.serving.observe.history import History, Run
from eunomia.serving.observe.metrics import NO_MODEL, Telemetry
from eunomia.serving.observe.recording import Recording
from eunomia.serving.observe.retired import Retired
from eunomia.serving.observe.statistics import ModelStatistics
from eunomia.serving.observe.strain import Strain
from eunomia.serving.observe.turns import Turns
from eunomia.serving.observe.use import Use


class Books:
    """All of them, of one server."""

    def __init__(self, later: Later) -> None:
        self._later = later
        self._recording, self._telemetry = Recording(), Telemetry()
        self._history = History(Strain(self._telemetry.front))
        self._statistics: dict[str, dict[str, ModelStatistics]] = {}  # by network and version, then by tenant
        self.use = Use()  # a tenth of a second late

    @property
    def history(self) -> History:
        """The last seconds."""
        self._later.settle()
        return self._history

    @property
    def recording(self) -> Recording:
        """The traffic of a digital twin."""
        self._later.settle()
        return self._recording

    @property
    def telemetry(self) -> Telemetry:
        """What Prometheus reads."""
        self._later.settle()
        return self._telemetry

    @property
    def turns(self) -> Turns:
        """Of the event loop."""
        return self._telemetry.turns

    @property
    def front(self) -> FrontEnd:
        """How far the front end is behind."""
        return self._telemetry.front

    def statistics(self, key: str, only: str | None) -> ModelStatistics:
        """Of a network's version, for a tenant; None = for all together."""
        self._later.settle()
        found, kept = ModelStatistics(), self._statistics.get(key, {})
        for tenant in kept if only is None else kept.keys() & {only}:
            found.join(kept[tenant])
        return found

    async def statistics_of(
        self, keys: Sequence[str], only: str | None, begin: Callable[[], None]
    ) -> list[Json]:
        """Of several, each in a turn of the event loop: of 1,000 tenants one takes half a millisecond."""
        found = list[Json]()
        for key in keys:
            if found:
                await asyncio.sleep(0)
                begin()
            found.append(self.statistics(key, only).content(key))
        return found

    def retired(self, request: Retired, now_s: float, wall_s: float) -> None:
        """A request has its answer."""
        self._later.gather(self._retired, (request, now_s, wall_s))

    def ran(self, run: Run) -> None:
        """A device has run blocks."""
        self._later.gather(self._ran, run)

    def refused(self, tenant: str, key: str | None, reason: str) -> None:
        """A request was not accepted; ``key``: of the network, None = none that exists."""
        self._telemetry.refused(tenant, NO_MODEL if key is None else key, reason)
        if key is not None:
            self._of(key, tenant).refused()

    def _ran(self, runs: list[Run]) -> None:
        for run in runs:
            self._history.ran(run)
            self.use.ran(run)

    def _retired(self, pieces: list[tuple[Retired, float, float]]) -> None:
        self._telemetry.retired([request for request, _, _ in pieces])
        for request, now_s, wall_s in pieces:
            self._history.retired(request, now_s)
            self._recording.retired(request, now_s)
            self.use.retired(request)
            self._of(key_of(request.model, request.version), request.tenant).retired(request, wall_s)

    def _of(self, key: str, tenant: str) -> ModelStatistics:
        of_key = self._statistics.setdefault(key, {})
        found = of_key.get(tenant)
        if found is None:
            found = of_key[tenant] = ModelStatistics()
        return found
