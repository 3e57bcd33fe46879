"""``eunomia explain`` and ``report``: look again at what a run left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.console import print_json, say
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, RecordError

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or of a comparison.")]


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("explain")(explain)
    app.command("report")(report)


def explain(
    run: Run,
    request: Annotated[
        str, typer.Argument(metavar="REQUEST", help="Number of the request: req-1042 or 1042.")
    ],
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", help="Which policy of a comparison.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Which seed of a comparison.")] = None,
    as_json: opt.Json = False,
) -> None:
    """Where a request's time went, what was run instead of it and why, from the recorded inputs."""
    from eunomia.report.explain import explain as tell

    story = tell(find_run(run, policy, seed), request)
    if as_json:
        print_json(story.to_dict())
    else:
        say(story.text())


def find_run(folder: Path, policy: str | None, seed: int | None) -> Path:
    """The single run that is meant: the folder itself, or one below a comparison (the first, unless named)."""
    from eunomia.core.records import read_manifest, run_directories

    manifest = read_manifest(folder)
    if manifest.get("kind") == "sweep":
        raise RecordError(
            f"'{folder}' is a sweep, which keeps metrics and no runs; run the setting that interests you "
            "with 'eunomia run SCENARIO --set KEY=VALUE', and explain that"
        )
    found = run_directories(folder)
    if folder in found:
        return folder
    from eunomia.study.cells import folder_name

    order = [folder_name(str(name)) for name in manifest.get("policies", [])]
    chosen = [path for path in found if _fits(path, policy, seed)]
    if not chosen:
        wanted = " ".join(part for part in (policy, None if seed is None else f"seed {seed}") if part)
        known = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        refusal = ConfigError if wanted else RecordError
        raise refusal(f"{folder} has no run of {wanted or 'any policy'}; it has: {known}")
    rank = {name: place for place, name in enumerate(order)}
    best = min(chosen, key=lambda path: (rank.get(path.parent.name, len(rank)), int(path.name)))
    _say_what_is_missing(best, manifest, policy, seed)
    return best


def _say_what_is_missing(best: Path, manifest: Data, policy: str | None, seed: int | None) -> None:
    """Say so when the run that would have been told first is not there."""
    from eunomia.study.cells import folder_name

    policies, seeds = manifest.get("policies") or [], manifest.get("seeds") or []
    first = folder_name(policy or str(policies[0])) if policy or policies else best.parent.name
    wanted = str(seed if seed is not None else min(seeds, default=best.name))
    if (best.parent.name, best.name) != (first, wanted):
        note = f"note: there is no complete run {first}/{wanted} here; this is {best.parent.name}/{best.name}"
        typer.echo(note, err=True)


def _fits(path: Path, policy: str | None, seed: int | None) -> bool:
    from eunomia.study.cells import folder_name
    from eunomia.study.inference.policy import policy_name

    right_policy = policy is None or path.parent.name in (
        folder_name(policy),
        folder_name(policy_name(policy)),
    )
    return right_policy and (seed is None or path.name == str(seed))


def report(
    run: Run,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write, instead of beside the data.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Write report.html and timeline.json of a run or a comparison anew."""
    from eunomia.cli.outputs import publish
    from eunomia.core.records import read_comparison

    paths = publish(read_comparison(run), out or run, data=run)
    if as_json:
        print_json(paths)
        return
    for what, path in paths.items():
        say(f"{what:<9}-> {path}")
