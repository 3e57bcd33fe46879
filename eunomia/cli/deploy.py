"""``eunomia deploy``: files that run a server elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.bundle import bundled
from eunomia.cli.console import counted, note, print_json, say

app = typer.Typer(
    no_args_is_help=True, help="Run a server elsewhere: render Kubernetes, Helm, images, HAProxy."
)


@dataclass(frozen=True)
class RenderOptions:
    """Options of rendering."""

    replicas: Annotated[int, typer.Option(min=1, max=1000, help="Servers that share the promises.")] = 2
    image: Annotated[str, typer.Option(metavar="NAME", help="Image of the server.")] = (
        "localhost/eunomia:latest"
    )
    postgres_image: Annotated[
        str, typer.Option("--postgres-image", metavar="NAME", help="Image of the database.")
    ] = "localhost/eunomia-postgres:latest"
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST[:HTTP:GRPC]", help="A server behind HAProxy. Repeatable."),
    ] = None
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="image, kubernetes, helm, haproxy, watching, kserve or kuberay. Repeatable."
        ),
    ] = None
    sets: opt.Set = None
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the files there; default: print them.")
    ] = None
    as_json: opt.Json = False
    quiet: opt.Quiet = False


@app.command("render")
@bundled
def render(
    server: Annotated[Path, typer.Argument(metavar="SERVER.toml", help="Server file.")],
    options: RenderOptions,
) -> None:
    """Write the files that run this server as replicas: the same text for the same file. Runs nothing."""
    from eunomia.core.atomic import write_text
    from eunomia.engines.deploy.catalogue import render
    from eunomia.study.serving.deployment import deployment

    tell = (lambda _: None) if options.quiet or options.as_json else note
    plan = deployment(server, options.sets or (), options.replicas, tell)
    plan = replace(plan, image=options.image, postgres_image=options.postgres_image)
    plan = replace(plan, hosts=tuple(options.host or ()))
    files = render(plan, options.only)
    if options.as_json:
        print_json(files)
        return
    for path, content in files.items():
        if options.out is not None:
            write_text(options.out / path, content)
        else:
            say(f"# === {path}\n{content}")
    if options.out is not None:
        say(f"{counted(len(files), 'file')} -> {options.out}")
