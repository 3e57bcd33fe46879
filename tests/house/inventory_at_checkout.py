# ruff: noqa: E501, E731, B905, SIM105
"""Print, as JSON, every name that a user of the checkout in ``sys.argv[1]`` can write down. Started by ``inventory``.

It relies on what both checkouts have: the package ``eunomia`` with its ``__all__``, typer's command line, pydantic
models, registries with a group, ``eunomia serve`` with its OpenAPI document, and the folders docs and examples.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import pkgutil
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(sys.argv[1])
PACKAGE = ROOT / "eunomia"
EXAMPLE = ROOT / "examples"
SERVER = """
http_port = 0
grpc_port = 0
anonymous = true
[[device]]
name = "cpu"
[[network]]
name = "mobilenet-v2"
builtin = "mobilenet-v2"
[[tenant]]
name = "default"
promise = [{ model = "*", deadline_ms = 1000.0 }]
"""


def modules() -> Iterator[object]:
    """Every module of the package that can be imported here."""
    import eunomia

    for found in pkgutil.walk_packages(eunomia.__path__, "eunomia."):
        if found.name.endswith("__main__") or ".migrations" in found.name:
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError as error:
            print(f"not imported: {found.name}: {error}", file=sys.stderr)


def of_package() -> list[str]:
    """``from eunomia import ...``."""
    import eunomia

    return [f"eunomia.{name}" for name in eunomia.__all__]


def defined() -> list[str]:
    """Public classes and functions at the top of every module, as ``module::name``, read from the sources."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if (
                isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name[0] != "_"
            ):
                found.append(f"{module}::{node.name}")
    return found


def documented() -> list[str]:
    """What the documents and examples import from the package."""
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in (ROOT / "docs", EXAMPLE, ROOT)
        for pattern in ("*.md", "*.py")
        for path in sorted(folder.glob(pattern))
    )
    lines = re.findall(r"^\s*from (eunomia[\w.]*) import \(?([\w, \n]+)", text, re.MULTILINE)
    return sorted({f"{module}::{name.strip()}" for module, names in lines for name in re.split(r"[,\n]", names)
                   if name.strip() and " " not in name.strip()})  # fmt: skip


def commands() -> tuple[list[str], list[str]]:
    """Verbs, and their arguments and flags."""
    import click
    import typer

    from eunomia.cli.main import app

    verbs, flags = [], []

    def walk(command: click.Command, place: str) -> None:
        verbs.append(place)
        for parameter in command.params:
            names = parameter.opts + parameter.secondary_opts
            shown = "/".join(names) if parameter.param_type_name == "option" else f"<{parameter.name}>"
            flags.append(f"{place} {shown}")
        for name, below in getattr(command, "commands", {}).items():
            walk(below, f"{place} {name}")

    walk(typer.main.get_command(app), "eunomia")
    return verbs, flags


def keys() -> list[str]:
    """Key paths of every configuration file: pydantic models that no other model contains, and all below them."""
    from pydantic import BaseModel

    known: list[type[BaseModel]] = []
    todo: list[type[BaseModel]] = [BaseModel]
    while todo:
        for kind in todo.pop().__subclasses__():
            todo.append(kind)
            if kind.__module__.startswith("eunomia.") and kind.model_fields:
                known.append(kind)
    schemas = {kind: kind.model_json_schema() for kind in known}
    inner = {
        name for kind, schema in schemas.items() for name in schema.get("$defs", {}) if name != kind.__name__
    }
    found: set[str] = set()

    def walk(node: object, place: str, schema: dict[str, object], depth: int) -> None:
        if not isinstance(node, dict) or depth > 12:
            return
        if "$ref" in node:
            definitions = schema["$defs"]
            assert isinstance(definitions, dict)
            walk(definitions[str(node["$ref"]).rpartition("/")[2]], place, schema, depth + 1)
        for choice in ("anyOf", "oneOf", "allOf"):
            for each in node.get(choice, ()):
                walk(each, place, schema, depth + 1)
        for key, value in node.get("properties", {}).items():
            found.add(f"{place}.{key}")
            walk(value, f"{place}.{key}", schema, depth + 1)
        walk(node.get("items"), f"{place}[]", schema, depth + 1)
        walk(node.get("additionalProperties"), f"{place}.*", schema, depth + 1)

    for kind, schema in schemas.items():
        if kind.__name__ not in inner and not kind.__name__.startswith("_"):
            walk(schema, kind.__name__, schema, 0)
    return sorted(found)


def registries(loaded: list[object]) -> tuple[list[str], list[str]]:
    """Entry-point groups, and the names that each registry has."""
    groups, names = set(), set()
    for module in loaded:
        for value in vars(module).values():
            if type(value).__name__ == "Registry":
                groups.add(value.group)
                names |= {f"{value.group}: {name}" for name in value.names()}
    text = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    groups |= set(re.findall(r"""GROUP(?:: \w+)? = "(eunomia\.[\w.]+)\"""", text))
    return sorted(groups), sorted(names)


def told(*arguments: str) -> str:
    """Standard output of a command of ``eunomia``."""
    out = io.StringIO()
    sys.argv = ["eunomia", *arguments]
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        runpy.run_module("eunomia", run_name="__main__", alter_sys=True)
    return out.getvalue()


def catalogues() -> list[str]:
    """Policies, allocators, networks, platforms, accelerator types and trace formats, as commands list them."""
    lists: dict[str, Callable[[], list[str]]] = {
        "policy": lambda: list(json.loads(told("policies", "--json"))),
        "allocator": lambda: told("cluster", "policies").split(),
        "network": lambda: [each["model"] for each in json.loads(told("models", "--json"))],
        "platform": lambda: list(json.loads(told("platforms", "--json"))["platforms"]),
        "accelerator": lambda: list(json.loads(told("platforms", "--json"))["types"]),
        "trace format": lambda: [
            line.split()[0] for line in told("trace", "formats").splitlines() if line.strip()
        ],
    }
    return [f"{kind}: {name}" for kind, read in lists.items() for name in read()]


def recorded() -> tuple[list[str], list[str]]:
    """Metrics, and the tables with their columns, of one run of either wing."""
    import pyarrow.parquet as pq

    metrics, columns = [], []
    with tempfile.TemporaryDirectory() as name:
        runs = {
            "requests": (
                "run",
                str(PACKAGE / "data" / "demo.toml"),
                "--set",
                "duration_s=0.2",
                "--set",
                "load=0.5",
            ),
            "jobs": ("cluster", "simulate", str(EXAMPLE / "cluster_jobs.toml")),
        }
        for wing, arguments in runs.items():
            folder = Path(name) / wing
            told(*arguments, "--out", str(folder), "--quiet")
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            metrics += [f"{wing}: {metric}" for metric in manifest["metrics"]]
            for path in sorted(folder.glob("*.parquet")):
                columns += [f"{wing}/{path.stem}: {column}" for column in pq.read_schema(path).names]
    return metrics, columns


def served() -> tuple[list[str], list[str], list[str]]:
    """Routes of the HTTP side, RPCs that are not unimplemented, names of Prometheus metrics: of a living server."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "server.toml"
        path.write_text(SERVER, encoding="utf-8")
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "eunomia", "serve", str(path), "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ, cwd=name,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            at = json.loads(server.stdout.readline())
            address = at["http"] if at["http"].startswith("http") else f"http://{at['http']}"
            with urllib.request.urlopen(f"{address}/openapi.json", timeout=60) as answer:
                paths = json.load(answer)["paths"]
            with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
                metrics = sorted(set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.MULTILINE)))
            offered = rpcs(at["grpc"])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    methods = ("get", "put", "post", "delete", "patch", "head")
    return (
        [f"{m.upper()} {path}" for path, what in paths.items() for m in methods if m in what],
        offered,
        metrics,
    )


def rpcs(address: str) -> list[str]:
    """RPCs of the protocol that the server answers in any way but "unimplemented"."""
    import grpc
    from tritonclient.grpc import service_pb2 as pb
    from tritonclient.grpc import service_pb2_grpc as stubs

    found = []
    with grpc.insecure_channel(address) as channel:
        stub = stubs.GRPCInferenceServiceStub(channel)
        for service in pb.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                request = getattr(pb, method.input_type.name)()
                try:
                    call = getattr(stub, method.name)
                    list(call(iter([]), timeout=30)) if method.name == "ModelStreamInfer" else call(
                        request, timeout=30
                    )
                    found.append(method.name)
                except grpc.RpcError as error:
                    if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                        found.append(method.name)
    return found


def pages() -> tuple[list[str], list[str]]:
    """Pages of the documentation and results, and shipped examples, studies and data."""
    folders = [ROOT / "docs", ROOT / "results"]
    written = [
        path.relative_to(ROOT).as_posix() for folder in folders for path in sorted(folder.rglob("*.md"))
    ]
    shipped = [
        path.relative_to(ROOT).as_posix()
        for folder in (EXAMPLE, ROOT / "studies")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    return written, shipped


def main() -> None:
    """Collect and print."""
    loaded = list(modules())
    verbs, flags = commands()
    groups, registered = registries(loaded)
    metrics, columns = recorded()
    routes, offered, gauges = served()
    written, shipped = pages()
    names = {
        "names of eunomia": of_package(),
        "names that documents import": documented(),
        "public classes and functions": defined(),
        "commands": verbs,
        "arguments and flags": flags,
        "configuration keys": keys(),
        "entry-point groups": groups,
        "registered names": registered,
        "names that commands list": catalogues(),
        "metrics of runs": metrics,
        "tables and columns": columns,
        "HTTP routes": routes,
        "RPCs": offered,
        "Prometheus metrics": gauges,
        "pages": written,
        "examples and studies": shipped,
    }
    print(json.dumps(names))


if __name__ == "__main__":
    main()
