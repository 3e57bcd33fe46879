"""The experimental protocol as a command: a study file in, results that can be trusted out (docs/study.md)."""

from eunomia.study.grid.load import load_study
from eunomia.study.grid.result import StudyResult
from eunomia.study.grid.run import run_study

__all__ = ["StudyResult", "load_study", "run_study"]
