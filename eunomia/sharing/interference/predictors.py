"""Predictors by name."""

from __future__ import annotations

from collections.abc import Mapping

from eunomia.core.arrays import Floats
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.sharing.interference.averages import Mean, NoInterference, UtilisationSum
from eunomia.sharing.interference.co_run import Features, Predictor
from eunomia.sharing.interference.factorised import Factorised
from eunomia.sharing.interference.forest import Forest
from eunomia.sharing.interference.linear import Linear

BACK_ENDS = ("none", "mean", "utilisation_sum", "linear", "forest", "unified", "factorised")


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
    if name in ("linear", "forest", "unified") and features is None:
        raise ConfigError(f"interference predictor '{name}' needs features of the jobs")
    if name == "utilisation_sum" and utilisation is None:
        raise ConfigError("interference predictor 'utilisation_sum' needs the jobs' utilisations")
    known = features or {}
    if name == "linear":
        return Linear(known)
    if name in ("forest", "unified"):
        return Forest(known, name == "unified", kind_features or {}, seed=seed)
    if name == "utilisation_sum":
        return UtilisationSum(utilisation or {})
    plain: dict[str, type[NoInterference] | type[Mean] | type[Factorised]] = {
        "none": NoInterference,
        "mean": Mean,
        "factorised": Factorised,
    }
    return plain[name]()
