"""The interface between event loop and decisions; :mod:`.decide` has the answers, one class per kind of policy."""

from __future__ import annotations

from typing import Protocol

from eunomia.inference.reference.state import Job


class Decider(Protocol):
    """How the engine calls its policy."""

    def became_ready(self, job: Job) -> None:
        """A sub-job waits from now on."""

    def decide(self) -> None:
        """Start sub-jobs (event-driven)."""

    def tick(self) -> None:
        """Fill the queues anew (periodic)."""

    def start_queued(self) -> None:
        """Let idle accelerators serve their queues (periodic)."""
