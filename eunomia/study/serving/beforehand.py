"""All that a server file names is looked at before anything is loaded: files, folders, ports.

Networks load for minutes, one after the other, so that a wrong path of the last one would show late. Nothing is made
here: a folder that is not there yet is fine where it can be made.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from eunomia.config.server import SQLITE, ServerConfig
from eunomia.core.errors import ConfigError, EunomiaError, OutputError
from eunomia.core.own_file import split_file

MOST_NAMED = 10  # files with names that no network has
FILES = (".json", ".toml", ".py")  # of a policy


def check_files(config: ServerConfig, *, ports: bool = True) -> None:
    """Raise ConfigError, a line for each fault; OutputError where ports alone are taken.

    Without ``ports``, another server may have them, and leaves.
    """
    faults = [*_networks(config), *_policies(config), *_tls(config), *_folders(config)]
    taken = list(_ports(config)) if ports else []
    if faults or taken:
        raise (ConfigError if faults else OutputError)("\n".join([*faults, *taken]))


def _networks(config: ServerConfig) -> Iterator[str]:
    from eunomia.serving.blocks.external import weight_files
    from eunomia.serving.models.labels import read_labels

    for network in config.network:
        try:
            read_labels(network.labels)
        except ConfigError as error:
            yield f"network '{network.name}': {error}"
        if network.onnx is None:
            continue
        if why := _unreadable(Path(network.onnx)):
            yield f"network '{network.name}': onnx = '{network.onnx}' {why}; give the path of an ONNX file"
            continue
        try:
            weight_files(Path(network.onnx))
        except EunomiaError as error:
            yield f"network '{network.name}': {error}"
    folder = config.models_dir
    if folder is not None and not (Path(folder).is_dir() and os.access(folder, os.R_OK | os.X_OK)):
        yield f"models_dir = '{folder}' is no folder that can be read; give one that holds NAME.onnx or NAME/model.onnx"
    elif folder is not None and config.load_all:
        yield from _nothing_to_load(Path(folder), config)


def _nothing_to_load(folder: Path, config: ServerConfig) -> Iterator[str]:
    from eunomia.serving.models.folder import look_through

    found = look_through(folder)
    if (folder / "config.pbtxt").is_file():
        yield f"models_dir = '{folder}' is the folder of one network; give the folder around it"
    elif not found.networks and not config.network:
        yield f"models_dir = '{folder}' holds no network: no NAME.onnx, NAME/model.onnx or NAME/N/model.onnx is there"
        yield from list(found.misnamed.values())[:MOST_NAMED]


def _policies(config: ServerConfig) -> Iterator[str]:
    own = split_file(config.policy)
    file = own[0] if own is not None else Path(config.policy) if config.policy.endswith(FILES) else None
    if file is not None and (why := _unreadable(file)):
        yield f"policy = '{config.policy}': {file} {why}; give its path"


def _tls(config: ServerConfig) -> Iterator[str]:
    from eunomia.serving.fronts.certificate import tls_context

    if config.tls_cert is None or config.tls_key is None:
        return
    try:
        tls_context((Path(config.tls_cert), Path(config.tls_key)))
    except ConfigError as error:
        yield str(error)


def _folders(config: ServerConfig) -> Iterator[str]:
    found = SQLITE.fullmatch(config.database or "")
    kept = {
        "cache_dir": config.cache_dir,
        "policy_dir": config.policy_dir,
        "audit_dir": config.audit_dir,
        "ledger_dir": config.ledger_dir,
        "co_runs": config.co_runs and str(Path(config.co_runs).parent),
        "database": found and found["file"] != ":memory:" and str(Path(found["file"]).parent),
    }
    for key, folder in kept.items():
        if folder and (why := _unwritable(Path(folder).expanduser())):
            yield f"{key}: nothing can be written into '{folder}': {why}; give another folder"
    if config.co_runs and Path(config.co_runs).exists() and (why := _unreadable(Path(config.co_runs))):
        yield f"co_runs = '{config.co_runs}' {why}; give a CSV file, or one that is not there yet"


def _ports(config: ServerConfig) -> Iterator[str]:
    from eunomia.serving.takeover.sockets import why_taken

    for key, port in (("http_port", config.http_port), ("grpc_port", config.grpc_port)):
        if port is not None and (why := why_taken(config.host, port)):
            yield f"{key} = {port} on '{config.host}' cannot be opened: {why}"


def _unreadable(path: Path) -> str:
    """Why a file cannot be read; "" = it can."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "is no file"
        with path.open("rb") as file:
            return "" if file.read(1) else "is empty"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _unwritable(folder: Path) -> str:
    """Why a folder cannot be made or written; "" = it can, as far as can be seen without doing so."""
    here = folder
    while not here.exists() and here != here.parent:
        here = here.parent
    if not here.is_dir():
        return f"'{here}' is a file"
    return "" if os.access(here, os.W_OK | os.X_OK) else f"'{here}' may not be written"
