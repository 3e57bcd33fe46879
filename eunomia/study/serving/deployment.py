"""From a server file to a deployment: the same tenants and networks, in places that every replica has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import tomli_w

from eunomia.config.load import read_table
from eunomia.config.overrides import Table, apply_overrides, parse_overrides
from eunomia.config.server import ServerConfig, server_from
from eunomia.core.errors import ConfigError
from eunomia.core.own_file import split_file
from eunomia.engines.deploy.plan import CACHE, DATABASE, GRPC_PORT, HTTP_PORT, MODELS, Deployment
from eunomia.serving.blocks.external import weight_files
from eunomia.study.inference.policy import CARD, RULES, resolve_policy
from eunomia.study.serving.server import Tell, remark_on_shares, warn

FOLDERS = {
    "ledger_dir": "ledger",
    "policy_dir": "policies",
    "audit_dir": "audit",
    "co_runs": "co_runs.csv",
}  # beside the file, on its disk
DEVICE_MIB, GPU_MIB, SERVER_MIB = 512, 4096, 1024  # of main memory; GPU_MIB: the libraries of a GPU
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # names that are files' names anywhere
SLACK_MIB = 64  # of shared memory beside the arena


def deployment(
    path: str | Path, overrides: Iterable[str] = (), replicas: int = 2, tell: Tell = warn
) -> Deployment:
    """The plan of a server file. Raises ConfigError.

    ``tell`` takes remarks on what differs from the file.
    """
    path = Path(path)
    table = apply_overrides(read_table(path, "server file"), parse_overrides(list(overrides)))
    on_cores = {d.get("name") for d in table.get("device", ()) if d.get("cores") and d.get("gpu") is None}
    for device in table.get("device", ()):
        if device.pop("cores", None):  # they are those of this machine
            tell(
                f"device '{device.get('name')}' has no cores of its own: a replica's cores are given by its cluster"
            )
    config = server_from(table, (), str(path), path.parent)
    if config.policy.endswith((CARD, RULES)) or split_file(config.policy):
        raise ConfigError(
            f"policy = '{config.policy}' is a file, which no image holds; name a policy of Eunomia"
        )
    if config.models_dir is not None:
        raise ConfigError(
            f"models_dir = '{config.models_dir}': name each network as [[network]], so that images hold it"
        )
    _refuse_what_no_image_holds(config)
    if replicas > 1 and (remark := remark_on_shares(config.policy, resolve_policy(config.policy))):
        tell(remark)
    on_gpus = [
        d for d in config.device if d.backend == "cuda" or (d.backend == "torch" and d.name not in on_cores)
    ]
    number = {gpu: n for n, gpu in enumerate(sorted({device.gpu or 0 for device in on_gpus}))}
    for device in table["device"]:
        if device.get("gpu") in number:  # a replica counts the GPUs that it is given, from 0
            device["gpu"] = number[device["gpu"]]
    inside, models = _inside(table, config, tell)
    return Deployment(
        tomli_w.dumps(inside),
        models,
        replicas=replicas,
        cpus=len(config.device) + 1,
        memory_mib=SERVER_MIB
        + sum(DEVICE_MIB + int(device.memory_mib or 0) for device in config.device)
        + GPU_MIB * len(on_gpus),
        shared_mib=int(config.arena_mib) + SLACK_MIB,
        gpus=len(number),
        extras=_extras(config),
        cuda=any(device.backend == "cuda" for device in config.device),
        drain_s=config.drain_s,
        traces_port=_port(config.traces.endpoint) if config.traces else None,
    )


def _refuse_what_no_image_holds(config: ServerConfig) -> None:
    """Raise ConfigError for a device that could not start in the image."""
    for device in config.device:
        if device.on != "process":
            raise ConfigError(
                f"device '{device.name}': on = \"{device.on}\" needs a Ray cluster that the rendered objects do not "
                "reach; leave the device out"
            )
        if device.backend not in ("cpu", "torch", "cuda"):
            raise ConfigError(
                f"device '{device.name}': backend = \"{device.backend}\" needs libraries that the rendered image "
                'does not hold; write backend = "cuda"'
            )


def _extras(config: ServerConfig) -> tuple[str, ...]:
    """What of Eunomia the image installs."""
    torch = any(device.backend == "torch" for device in config.device)
    return ("serve", "postgres", *["learn"] * torch, *["tracing"] * (config.traces is not None))


def _inside(table: Table, config: ServerConfig, tell: Tell) -> tuple[Table, dict[str, str]]:
    """The file as a replica has it, and which files of networks its image needs."""
    inside = {key: value for key, value in table.items() if key not in ("tls_cert", "tls_key")}
    if config.tls_cert is not None:
        tell("TLS ends before the servers, at the cluster's gateway: tls_cert and tls_key are left out")
    if config.database is not None:
        tell("the database is the deployment's own PostgreSQL")
    named = {key: value for key, value in (table.get("replicas") or {}).items() if key != "name"}
    inside |= {"host": "0.0.0.0", "http_port": HTTP_PORT, "grpc_port": GRPC_PORT, "database": DATABASE}
    inside |= {"replicas": named, "cache_dir": f"{CACHE}/networks"}
    inside.update({key: place for key, place in FOLDERS.items() if key in table})
    if config.co_runs is not None:
        tell(f"co_runs is learned by each replica on its own disk; {config.co_runs} is not copied there")
    models: dict[str, str] = {}
    outside: dict[str, Path] = {}
    networks = []
    for number, network in enumerate(config.network):
        entry = next(dict(each) for each in table["network"] if each["name"] == network.name)
        if network.onnx is not None:
            file = f"{network.name if PLAIN.fullmatch(network.name) else f'_{number}'}.onnx"
            models[file] = f"models/{file}"
            entry["onnx"] = f"{MODELS}/{file}"
            _weights(Path(network.onnx), models, outside, tell)
            there = "" if Path(network.onnx).is_file() else " (it is not there now)"
            tell(f"copy {network.onnx}{there} to models/{file} in the folder where the image is built")
        networks.append(entry)
    inside["network"] = networks
    scalars = {key: value for key, value in inside.items() if not _is_table(value)}
    return {**scalars, **{key: value for key, value in inside.items() if key not in scalars}}, models


def _weights(onnx: Path, models: dict[str, str], outside: dict[str, Path], tell: Tell) -> None:
    """Take along the files of weights beside a network, under the names by which it knows them. Raises ConfigError."""
    for file in weight_files(onnx) if onnx.is_file() else ():
        name = file.relative_to(onnx.parent).as_posix()
        if not all(map(PLAIN.fullmatch, name.split("/"))):
            raise ConfigError(
                f"{onnx} has weights in a file named {name!r}: "
                "export it anew, with a name of letters, digits, '.', '_' and '-'"
            )
        if outside.setdefault(name, file) != file:
            raise ConfigError(
                f"{onnx} and another network have weights in files named '{name}', and an image has one folder: "
                "export it anew, with its weights under another name"
            )
        if name not in models:
            models[name] = f"models/{name}"
            tell(f"copy {file} to models/{name}, too: it holds weights of {onnx.name}")


def _is_table(value: object) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )


def _port(endpoint: str) -> int:
    from urllib.parse import urlsplit

    parts = urlsplit(endpoint)
    return parts.port or (443 if parts.scheme == "https" else 80)
