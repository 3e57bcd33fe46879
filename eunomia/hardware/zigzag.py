"""A second opinion from ZigZag (extra ``zigzag``): one layer on one of ZigZag's own templates.

Slow (seconds per layer) and no truth: on the Eyeriss chip ZigZag is further off than Eunomia's model.
Its temporal search depends on ``limit`` and is not monotone in it, so the limit belongs to the result.
Groups run one after another, outside the search, which more loops would blow up. ZigZag 3.8 or later.
"""

from __future__ import annotations

import importlib
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

from eunomia.core.data import Json
from eunomia.core.errors import ConfigError, PlatformError
from eunomia.hardware.nest import Nest, nest_of
from eunomia.workload.model import Layer


@dataclass(frozen=True, slots=True)
class ZigzagCost:
    """What ZigZag reports: cycles with stalls and on-loading, picojoules by its template's figures."""

    cycles: float
    energy_pj: float
    template: str
    limit: int

    @property
    def origin(self) -> str:
        """Origin of a cost table column made of such costs."""
        return f"imported (zigzag, {self.template}, limit {self.limit})"


def zigzag_cost(
    layer: Layer, template: str = "tpu_like", mapping: str | None = None, limit: int = 5
) -> ZigzagCost:
    """Cost of a layer with MACs on a template that ZigZag ships (``tpu_like``, ``eyeriss_like``, ...) or a YAML file.

    ``mapping``: ZigZag's mapping file, by name or path; by default that of the template, else ``default``.
    Raises ConfigError without ZigZag, PlatformError for a layer without MACs or one that ZigZag cannot map.
    """
    if not layer.has_macs:
        raise PlatformError(f"layer '{layer.name}' has no MACs; ZigZag costs convolutions and products only")
    try:
        api = importlib.import_module("zigzag.api")
        inputs = Path(str(importlib.import_module("zigzag").__file__)).parent / "inputs"
    except ImportError as error:
        raise ConfigError(
            f"ZigZag cannot be imported ({error}); install it with: pip install 'eunomia[zigzag]'"
        ) from error
    hardware = _file(inputs / "hardware", template)
    plan = _file(inputs / "mapping", mapping or template, fallback=None if mapping else "default")
    nest = nest_of(layer)
    quiet = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            answer = api.get_hardware_performance_zigzag(
                _workload(nest, layer.dilation_h, layer.dilation_w),
                str(hardware),
                str(plan),
                opt="latency",
                dump_folder=folder,
                lpf_limit=limit,
                loma_show_progress_bar=False,
            )
    except Exception as error:
        raise PlatformError(f"ZigZag cannot map layer '{layer.name}' on {template}: {error}") from error
    finally:
        logging.disable(quiet)
    return ZigzagCost(float(answer[1]) * nest.groups, float(answer[0]) * nest.groups, template, limit)


def _file(folder: Path, name: str, fallback: str | None = None) -> Path:
    for path in (Path(name), folder / f"{name}.yaml", *([folder / f"{fallback}.yaml"] if fallback else [])):
        if path.is_file():
            return path
    choices = ", ".join(sorted(p.stem for p in folder.glob("*.yaml")))
    raise ConfigError(f"ZigZag has no '{name}' in {folder.name}; give a file, or one of: {choices}")


def _workload(nest: Nest, dilation_h: int, dilation_w: int) -> list[Json]:
    """One group as ZigZag's workload: kernel rows go with output rows."""
    return [
        {
            "id": 0,
            "name": "layer",
            "operator_type": "Conv",
            "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
            "dimension_relations": [
                f"iy={nest.stride_h}*oy+{dilation_h}*fy",
                f"ix={nest.stride_w}*ox+{dilation_w}*fx",
            ],
            "loop_dims": ["B", "K", "C", "OY", "OX", "FY", "FX"],
            "loop_sizes": [nest.batch, nest.k, nest.c, nest.p, nest.q, nest.r, nest.s],
            "operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8},
            "operand_source": {"I": 0, "W": 0},
        }
    ]
