"""Energy from sizes and process: sourced points, order of nodes, and the chip whose power was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.silicon import eyeriss_energy
from eunomia.core.errors import PlatformError
from eunomia.hardware import technology
from eunomia.hardware.accelerator import AcceleratorType, Sizes, accelerator_from_table, sized_energy
from eunomia.hardware.facts import presets, read_toml
from eunomia.hardware.types import load_type
from tests.shared_data import shared


def test_the_points_that_the_sources_give() -> None:
    """Horowitz, ISSCC 2014: 64 bits cost 10 pJ from 8 KB, 20 from 32 KB, 100 from 1 MB, at 45 nm."""
    assert technology.sram_pj_byte(8192) * 8 == pytest.approx(10)
    assert technology.sram_pj_byte(32768) * 8 == pytest.approx(20, rel=0.05)
    assert technology.sram_pj_byte(2**20) * 8 == pytest.approx(100)
    assert technology.energy_factor(45, 0.9) == pytest.approx(1)


def test_a_finer_process_takes_less_energy_and_a_higher_supply_more() -> None:
    factors = [technology.energy_factor(node) for node in (65, 45, 32, 28, 20, 16, 14, 10, 7)]
    assert factors == sorted(factors, reverse=True)
    assert technology.energy_factor(16, 0.9) > technology.energy_factor(16, 0.7)


def test_one_array_in_two_processes() -> None:
    """What the old coefficients could not say: they were the same at 65 and at 16 nm."""
    kind = load_type("simba")
    assert isinstance(kind, AcceleratorType)
    old, new = (sized_energy(kind, Sizes(node, 4.0, "ddr4")) for node in (65, 16))
    assert old.mac_pj / new.mac_pj > 5
    assert old.dram_pj_byte == new.dram_pj_byte
    assert sized_energy(kind, Sizes(16, 8.0, "ddr4")).static_w == pytest.approx(2 * new.static_w)


def test_a_file_gives_sizes_instead_of_coefficients() -> None:
    table = read_toml(presets("types")["simba"])
    sizes = {"node_nm": 7, "area_mm2": 2.5, "dram": "hbm2"}
    energy = accelerator_from_table({**table, "energy": sizes}, "mine").energy
    assert not energy.illustrative
    idle = accelerator_from_table({**table, "energy": {**sizes, "idle_w": 0.25}}, "mine").energy
    assert idle == replace(energy, static_w=0.25)  # published, in place of clock and leakage by area
    assert energy.dram_pj_byte == 44.0
    for wrong, message in (
        ({"dram": "core"}, "unknown kind of DRAM 'core'"),
        ({"node_nm": 3}, "from 7 to 65"),
        ({"idle_w": -1.0}, "energy.idle_w is -1.0; it must be finite and not negative"),
    ):
        with pytest.raises(PlatformError, match=message):
            accelerator_from_table({**table, "energy": {**sizes, **wrong}}, "mine")


def test_power_of_the_eyeriss_chip() -> None:
    """VGG-16 within 10 % per layer in the mean, where AlexNet's constant power errs by more; in joules within 1.5."""
    shared("silicon/eyeriss_jssc17_alexnet.csv")
    rows = {str(row[0]): row for row in eyeriss_energy().rows}
    power, constant, joules = (rows["**VGG-16: mean abs.**"][n] for n in (3, 4, 7))
    assert isinstance(power, float) and isinstance(constant, float) and isinstance(joules, float)
    assert power < 0.1 < constant
    assert joules < 0.25
    totals = np.sum([[float(v) for v in (row[5], row[6])] for row in rows.values() if row[5]], axis=0)  # type: ignore[arg-type]
    assert 1 / 1.5 < totals[0] / totals[1] < 1.5
