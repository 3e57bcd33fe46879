"""``eunomia.train``: a policy from a training file, from settings in Python, or from a server's recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eunomia.config.training import TrainingConfig, load_training
from eunomia.core.errors import ConfigError
from eunomia.engines.crew import Crew, OnRay
from eunomia.study.learning.outcome import Outcome
from eunomia.study.learning.training import Tell, train_policy

TrainingLike = str | Path | TrainingConfig


def train(
    training: TrainingLike | None = None,
    changes: Sequence[str] = (),
    out: str | Path | None = None,
    *,
    twin: str | Path | None = None,
    workers: Crew = 1,
    tell: Tell | None = None,
    command: str = "",
) -> Outcome:
    """Train a policy; one that was stopped goes on from its state in ``out``, to the same bits.

    ``training``: a training file (TOML) or ``TrainingConfig``; it may be left out with ``twin``, a server's recording.
    ``changes``: values to set, as ``--set`` takes them. ``out``: folder of state, curve and policy, else
    ``runs/train-NAME``. ``tell`` gets the stage's name and a Progress after each iteration; ``command`` goes on the
    policy's card. Raises ConfigError, RecordError, OutputError.
    """
    config = checked(training, tuple(changes), twin)
    return start(config, folder_of(config) if out is None else Path(out), twin, workers, tell, command)


def start(
    config: TrainingConfig,
    folder: Path,
    twin: str | Path | None,
    workers: Crew,
    tell: Tell | None,
    command: str,
) -> Outcome:
    """Run what is left of a training whose settings are checked."""
    if config.algorithm is not None and isinstance(workers, OnRay):
        raise ConfigError(
            f"--ray spreads a search; algorithm '{config.algorithm.name}' trains in one process"
        )
    if twin is None:
        return train_policy(config, folder, workers, tell, command)
    from eunomia.study.serving.twin_training import train_on_twin

    return train_on_twin(twin, config, folder, workers, tell, command)


def folder_of(config: TrainingConfig) -> Path:
    """Where a training stands unless told otherwise."""
    return Path("runs") / f"train-{config.name}"


def checked(
    training: TrainingLike | None, changes: tuple[str, ...], twin: str | Path | None
) -> TrainingConfig:
    """The settings of a training. Raises ConfigError."""
    if isinstance(training, TrainingConfig):
        if changes:
            raise ConfigError(f"changes {changes} need a training file; give its content with them in place")
        return training
    if twin is not None:
        from eunomia.study.serving.twin_training import twin_training

        return twin_training(twin, training, changes)
    if training is None:
        raise ConfigError("give a training file, or --twin FILE with a server's recording")
    return load_training(training, changes)
