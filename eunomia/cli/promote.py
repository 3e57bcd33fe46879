"""``eunomia promote``: another policy for a running server, if it does well on the server's own traffic."""

from __future__ import annotations

import base64
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eunomia.cli import options as opt
from eunomia.cli.admin import KeyEnv, Url, ask
from eunomia.cli.bundle import bundled
from eunomia.cli.console import note, print_json, say
from eunomia.cli.twin import note_left_out
from eunomia.core.data import Data
from eunomia.core.errors import ConfigError, EunomiaError

if TYPE_CHECKING:
    from eunomia.inference.rehearsal import Rehearsed
    from eunomia.study.serving.promotion import Verdict

POLICY = "/v2/eunomia/policy"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("promote")(bundled(promote))


@dataclass(frozen=True)
class PromoteOptions:
    """Options of a promotion: what is judged against what, and what becomes of it."""

    key_env: KeyEnv = None
    recording: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Judge on this recording, not on the server's last traffic."),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Judge against this policy, not against the serving one."),
    ] = None
    even_if_equal: Annotated[
        bool, typer.Option("--even-if-equal", help="Pass where the recording cannot tell the two apart.")
    ] = False
    margin: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Hit rate that may be lost where more SLOs are met.")
    ] = 0.05
    check: Annotated[bool, typer.Option("--check", help="Judge only; change nothing.")] = False
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Back to the policy before; nothing is judged.")
    ] = False
    as_json: opt.Json = False


def promote(
    url: Url,
    policy: Annotated[
        str | None,
        typer.Argument(metavar="POLICY", help="A checkpoint (.json), rules (.toml) or a registered name."),
    ] = None,
    *,
    options: PromoteOptions,
) -> None:
    """Judge a policy by replaying recorded traffic in the twin; if it passes, it serves from now on.

    The server goes on meanwhile: no restart, no request lost. Exit status 1 only when the policy does not pass, or the
    traffic is too little to judge by; 2 when anything else is in the way.
    """
    from eunomia.study.serving.promotion import NotPassed

    try:
        if options.rollback:
            _roll_back(url, options.key_env, options.as_json)
        elif policy is None:
            raise ConfigError("name the policy that shall serve, or --rollback")
        else:
            verdict, chosen, serving = _judge(url, policy, options)
            _act(url, chosen, verdict, serving, options)
    except NotPassed:
        raise
    except EunomiaError as error:
        raise ConfigError(str(error)) from None


def _act(url: str, policy: str, verdict: Verdict, serving: str, options: PromoteOptions) -> None:
    """Put it in, or say why not."""
    from eunomia.study.serving.promotion import NotPassed

    facts, key_env, as_json = verdict.facts(), options.key_env, options.as_json
    if not as_json:
        _print_verdict(verdict)
    if verdict.doubt:
        note(verdict.doubt)
    if not verdict.passed:
        if as_json:
            print_json({**facts, "promoted": False})
        hint = "; to put it in all the same: --even-if-equal" if verdict.equal else ""
        raise NotPassed(f"'{verdict.candidate.name}' does not pass: {verdict.why}{hint}")
    remark = "" if options.check else _put(url, policy, key_env, facts, serving)
    if remark:
        note(remark)
    if as_json:
        print_json({**facts, "promoted": not options.check, **({"note": remark} if remark else {})})
    elif options.check:
        say(f"'{verdict.candidate.name}' would pass; nothing was changed")
    else:
        key = f" --key-env {key_env}" if key_env else ""
        say(f"'{verdict.candidate.name}' serves now; back with: eunomia promote {url} --rollback{key}")


def _judge(url: str, policy: str, options: PromoteOptions) -> tuple[Verdict, str, str]:
    from eunomia.study.serving.apart import apart
    from eunomia.study.serving.promotion import differs, files_of, judge, replay, write_served
    from eunomia.study.serving.rehearsing import halves, rehearse_on, rehearses
    from eunomia.study.serving.twin import read_twin, twin_of

    files_of(policy)  # refuses code, and what cannot be read, before anything is asked or run
    answer = ask(url, POLICY, options.key_env)
    if not (isinstance(answer, dict) and isinstance(answer.get("now"), dict) and "policy" in answer):
        raise ConfigError(f"{url} does not say which policy serves: is it a Eunomia server?")
    recording = options.recording
    content = None if recording is not None else ask(url, "/v2/eunomia/twin", options.key_env)
    twin = read_twin(recording) if recording is not None else twin_of(content, url)
    note_left_out(twin)
    if recording is not None and (other := differs(twin, *_standing(url, options.key_env))):
        note(other)
    if rehearses(policy):
        first, twin = halves(twin)
        policy, made = rehearse_on(first, policy)
        note(_rehearsed(policy, made))
    with tempfile.TemporaryDirectory() as folder:
        serving = options.against or write_served(answer, Path(folder))
        by, equal = partial(apart, replay), options.even_if_equal
        verdict = judge(twin, policy, serving, options.margin, even_if_equal=equal, by=by)
        return verdict, policy, str(answer["policy"])


def _standing(url: str, key_env: str | None) -> list[list[str]]:
    """Names of the server's devices, networks and tenants."""
    state = ask(url, "/v2/eunomia/state", key_env)
    networks = ask(url, "/v2/repository/index", key_env, {})
    tenants = ask(url, "/v2/eunomia/tenants", key_env)
    return [[each["name"] for each in found] for found in (state["devices"], networks, tenants)]


def _rehearsed(policy: str, made: Rehearsed) -> str:
    scores = f"{made.scores.get(made.name, 0.0):.3f}, the best rule '{made.rule}' {made.scores.get(made.rule, 0.0):.3f}"
    return f"rehearsed on the first half of the recording: '{policy}' ({scores}); the second half judges it"


def _put(url: str, policy: str, key_env: str | None, evidence: Data, serving: str) -> str:
    """The server's own remark on how it was put in; empty if it has none."""
    from eunomia.study.serving.promotion import files_of

    files = {name: base64.b64encode(content).decode() for name, content in files_of(policy).items()}
    name = Path(policy).name if files else policy
    content = {"name": name, "files": files, "evidence": evidence, "instead_of": serving}
    answer = ask(url, POLICY, key_env, content, "PUT", timeout_s=300.0)  # it may have to be compiled first
    return str(answer.get("note", "")) if isinstance(answer, dict) else ""


def _roll_back(url: str, key_env: str | None, as_json: bool) -> None:
    answer = ask(url, f"{POLICY}/rollback", key_env, {}, "POST")
    if as_json:
        print_json(answer)
        return
    say(f"'{answer['policy']}' serves again in place of '{answer['taken']}'")


def _print_verdict(verdict: Verdict) -> None:
    from eunomia.cli.tables import print_table

    rows = [
        [r.name, f"{r.hit_rate:.2%}", f"{r.attainment:.0%}", f"{r.worst:.2%}"]
        for r in (verdict.serving, verdict.candidate)
    ]
    print_table(["policy", "hits", "SLO attainment", "worst shortfall"], rows)
    why = f": {verdict.why}" if verdict.passed else ""  # else the error says it
    say(f"over {verdict.requests} recorded requests{why}")
