"""``eunomia new dataflow``: a small package that adds a dataflow, with its entry point and its contract test."""

from __future__ import annotations

from pathlib import Path

from eunomia.cli.console import say
from eunomia.cli.new_package import Into, Name, check_name, write_package

MODULE = '''"""A dataflow for Eunomia: outputs stay in the elements until they are summed."""

from __future__ import annotations

from collections.abc import Iterator

from eunomia.hardware.accelerator import AcceleratorType
from eunomia.hardware.array_mapping import ArrayMapping
from eunomia.hardware.nest import Nest


def NAME(nest: Nest, kind: AcceleratorType) -> Iterator[ArrayMapping]:
    """Rows of the array take output rows or columns, its columns filters; channels and kernel are summed in turn.

    Loops: g groups, b batch, k filters, c channels, p q output rows and columns, r s kernel rows and columns.
    """
    for pixels in ("p", "q"):
        yield ArrayMapping(across={pixels: kind.array_rows, "k": kind.array_columns}, order="gbpqkcrs")
    yield ArrayMapping(across={"k": kind.pes}, order="gbpqkcrs")  # layers without rows and columns
'''


def dataflow(
    name: Name,
    into: Into = None,
) -> None:
    """Write a package with a dataflow that proposes mappings, its entry point and its contract test."""
    from eunomia.hardware.dataflow_names import dataflow_names

    target = into or Path(name)
    check_name(name, "dataflow", dataflow_names().__contains__, "my_array")
    words = {
        "KIND": "dataflow",
        "ENTRY_GROUP": "eunomia.dataflows",
        "CHECK_MODULE": "eunomia.hardware.conformance",
        "CHECK": "check_dataflow",
        "WHAT_IT_KEEPS": "its_mappings_are_legal_and_repeat_themselves",
    }
    write_package(name, target, MODULE, words)
    say(f"dataflow -> {target / name / '__init__.py'}")
    say(f"test     -> {target / 'tests' / 'test_contract.py'}: cd {target} && python -m pytest")
    say(f'try      -> dataflow = "{target / name / "__init__.py"}:{name}" in the TOML file of a type')
    say(f"install  -> pip install -e {target}; then {name} is a dataflow like weight_stationary")
