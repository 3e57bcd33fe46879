"""``eunomia scenario``: check a scenario file, print it resolved, export its JSON schema."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, say

app = typer.Typer(no_args_is_help=True, help="Check a scenario file, print it resolved, export the schema.")


@app.command("show")
def show(
    scenario: opt.ScenarioFile,
    sets: opt.Set = None,
    form: Annotated[Literal["toml", "json"], typer.Option("--format", help="toml or json.")] = "toml",
) -> None:
    """Print the scenario with every default and override in place."""
    from eunomia.config import load_scenario, to_json, to_toml

    checked = load_scenario(scenario, sets or ())
    say((to_toml if form == "toml" else to_json)(checked).rstrip("\n"))


@app.command("check")
def check(scenario: opt.ScenarioFile, sets: opt.Set = None) -> None:
    """Build everything a run needs, networks, costs and requests included, without running it."""
    from eunomia.config import load_scenario
    from eunomia.study.inference.bench import prepare
    from eunomia.study.inference.policy import resolve_policy

    checked = load_scenario(scenario, sets or ())
    for policy in checked.compare.policies:
        resolve_policy(policy)
    bench = prepare(checked)
    requests = bench.requests(checked.seed)
    layers = sum(len(model.layers) for model in bench.models)
    say(f"{scenario}: {len(checked.tenant)} tenants, {len(bench.models)} networks with {layers} layers, "
        f"{len(bench.machine.type_of)} accelerators of {len(bench.machine.types)} types, "
        f"{len(requests)} requests with seed {checked.seed}")  # fmt: skip


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of scenario files, for editors."""
    from eunomia.config import json_schema

    print_json(json_schema())
