"""Predictors by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.sharing.interference.averages import Mean, NoInterference, UtilisationSum
from eunomia.sharing.interference.co_run import Features, Predictor
from eunomia.sharing.interference.completed import Completed
from eunomia.sharing.interference.factorised import Factorised
from eunomia.sharing.interference.linear import Linear
from eunomia.sharing.interference.online import Online
from eunomia.sharing.interference.trees import Trees

BACK_ENDS = (
    "none",
    "mean",
    "utilisation_sum",
    "linear",
    "forest",
    "unified",
    "boosting",
    "factorised",
    "completed",
    "online",
)
BY_TREES = ("forest", "unified", "boosting")  # with scikit-learn


def predictor(
    name: str,
    features: Features | None = None,
    utilisation: Mapping[str, float] | None = None,
    kind_features: Mapping[str, Floats] | None = None,
    seed: int = 0,
) -> Predictor:
    """A back end by name; UnknownNameError lists them, ConfigError says what a back end lacks."""
    if name not in BACK_ENDS:
        raise UnknownNameError("interference predictor", name, BACK_ENDS)
    if name in ("linear", *BY_TREES) and features is None:
        raise ConfigError(f"interference predictor '{name}' needs features of the jobs")
    if name == "utilisation_sum" and utilisation is None:
        raise ConfigError("interference predictor 'utilisation_sum' needs the jobs' utilisations")
    known = features or {}
    if name == "linear":
        return Linear(known)
    if name in BY_TREES:
        return Trees(known, name != "forest", kind_features or {}, name == "boosting", seed)
    if name == "utilisation_sum":
        return UtilisationSum(utilisation or {})
    plain: dict[str, Callable[[], Predictor]] = {
        "none": NoInterference,
        "mean": Mean,
        "factorised": Factorised,
        "completed": Completed,
        "online": Online,
    }
    return plain[name]()
