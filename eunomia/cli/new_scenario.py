"""``eunomia new scenario``: a scenario file from flags, or from answers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli.bundle import bundled
from eunomia.cli.console import say

HEAD = """# {name}: `eunomia scenario check {file}`, then `eunomia compare {file}`. Keys: `eunomia scenario schema`.
name = "{name}"
duration_s = {duration_s}
warmup_s = {warmup_s}
load = {load}          # of the platform's capacity: scales the rates below; without it they hold

[platform]
preset = "{platform}"  # `eunomia platforms` lists them; or: accelerators = [{{ type = "simba", count = 2 }}]

"""
TENANT = """[[tenant]]
name = "{name}"
arrivals = {{ process = "poisson", rate_per_s = {rate} }}
models = [{{ model = "{network}", deadline_ms = {deadline}, slo = {{ hit_rate = {promise} }} }}]

"""
TAIL = """[compare]
policies = ["fcfs", "edf+f+eft", "edf+f+eft+g0.9", "eunomia"]
seeds = 3
"""
EXAMPLE = ("camera:mobilenet-v2:12:100:0.95", "reader:bert-small:50:40:0.8")
FORM = "NAME:NETWORK:DEADLINE_MS:RATE_PER_S:HIT_RATE"


@dataclass(frozen=True)
class ScenarioOptions:
    """What stands in the file. At a terminal, the verb asks for tenants that are not given."""

    tenant: Annotated[list[str] | None, typer.Option(metavar=FORM, help="A tenant. Repeatable.")] = None
    platform: Annotated[str | None, typer.Option(metavar="NAME", help="See eunomia platforms.")] = None
    load: Annotated[float, typer.Option(min=0.01, max=10.0, help="Of the platform's capacity.")] = 0.8
    duration_s: Annotated[float, typer.Option(min=0.01, help="Seconds of requests.")] = 2.0
    into: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write, instead of NAME.toml.")
    ] = None


@bundled
def scenario(
    name: Annotated[str, typer.Argument(help="Its name, and that of its file.")], options: ScenarioOptions
) -> None:
    """Write a scenario that runs: tenants, networks, promises, a platform. Asks at a terminal, or takes flags."""
    from eunomia.core.atomic import write_text
    from eunomia.core.errors import OutputError

    file = options.into or Path(f"{name}.toml")
    if file.exists():
        raise OutputError(f"'{file}' exists already; choose another name, or another file with --into FILE")
    tenants, platform = list(options.tenant or ()), options.platform
    if not tenants and sys.stdin.isatty():
        tenants, platform = _asked(platform)
    text = written(name, file, tenants or list(EXAMPLE), platform or "npu-mix", options)
    write_text(file, text)
    say(f"scenario -> {file}")
    say(f"check    -> eunomia scenario check {file}")
    say(f"compare  -> eunomia compare {file}")


def written(name: str, file: Path, tenants: list[str], platform: str, options: ScenarioOptions) -> str:
    """The text of the file, after a check that it is a scenario. Raises ConfigError."""
    import tomllib

    from eunomia.config import scenario_from

    seconds = options.duration_s
    text = HEAD.format(
        name=name,
        file=file,
        duration_s=seconds,
        warmup_s=round(seconds / 10.0, 4),
        load=options.load,
        platform=platform,
    )
    text += "".join(_tenant(words) for words in tenants) + TAIL
    scenario_from(tomllib.loads(text), (), str(file))
    return text


def _tenant(words: str) -> str:
    from eunomia.core.errors import ConfigError

    parts = words.split(":")
    try:
        name, network, deadline, rate, promise = (part.strip() for part in parts)
        return TENANT.format(
            name=name, network=network, deadline=float(deadline), rate=float(rate), promise=float(promise)
        )
    except ValueError:
        raise ConfigError(f"--tenant {words}: write {FORM}, for example {EXAMPLE[0]}") from None


def _asked(platform: str | None) -> tuple[list[str], str]:
    """Tenants and platform as somebody at the terminal says."""
    tenants: list[str] = []
    while not tenants or typer.confirm("another tenant?", default=False):
        name = typer.prompt("tenant", default=f"tenant-{len(tenants) + 1}")
        network = typer.prompt("its network (eunomia models lists them)", default="mobilenet-v2")
        numbers = (
            typer.prompt(what, default=value, type=float)
            for what, value in (
                ("deadline, ms", 20.0),
                ("requests per second", 50.0),
                ("promised hit rate", 0.95),
            )
        )
        tenants.append(":".join([name, network, *(f"{number:g}" for number in numbers)]))
    return tenants, platform or typer.prompt("platform (eunomia platforms lists them)", default="npu-mix")
