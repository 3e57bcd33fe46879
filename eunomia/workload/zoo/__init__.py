"""The built-in networks, by name; sources and checks in docs/models.md."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from eunomia.core.errors import ConfigError, ModelError
from eunomia.core.own_file import split_file
from eunomia.core.registry import Registry, made
from eunomia.workload.model import DnnModel

_HERE = "eunomia.workload.zoo"

MODELS = Registry(
    "model",
    "eunomia.models",
    {
        "squeezenet": f"{_HERE}.squeezenet:squeezenet",
        "mobilenet-v2": f"{_HERE}.mobilenet:mobilenet_v2",
        "kws-res8": f"{_HERE}.keyword_spotting:kws_res8",
        "yolo-lite": f"{_HERE}.yolo:yolo_lite",
        "resnet18": f"{_HERE}.resnet:resnet18",
        "resnet34": f"{_HERE}.resnet:resnet34",
        "resnet50": f"{_HERE}.resnet:resnet50",
        "alexnet": f"{_HERE}.alexnet:alexnet",
        "googlenet": f"{_HERE}.googlenet:googlenet",
        "inception-v3": f"{_HERE}.inception:inception_v3",
        "vgg16": f"{_HERE}.vgg:vgg16",
        "yolov2": f"{_HERE}.yolo:yolov2",
        "yolov3": f"{_HERE}.yolo:yolov3",
        "ssd-resnet34": f"{_HERE}.ssd:ssd_resnet34",
        "unet": f"{_HERE}.unet:unet",
        "bert-small": f"{_HERE}.bert:bert_small",
        "bert-base": f"{_HERE}.bert:bert_base",
        "vit-b16": f"{_HERE}.vit:vit_b16",
        "gpt2-prefill": f"{_HERE}.gpt2:gpt2_prefill",
        "gpt2-decode": f"{_HERE}.gpt2:gpt2_decode",
    },
)


def names() -> list[str]:
    """All networks, those of installed packages (entry point group ``eunomia.models``) last."""
    return MODELS.names()


def canonical(name: str) -> str:
    """The registered spelling of a name; case, ``-``, ``_``, ``.`` and spaces do not matter.

    ``FILE.py:NAME`` stays as it is. Raises UnknownNameError with the nearest name.
    """
    if split_file(name) is not None:
        return name
    known = {_squash(registered): registered for registered in reversed(MODELS.names())}
    found = known.get(_squash(name), name)
    if found not in MODELS and name.lower().endswith(".onnx"):
        raise ConfigError(f'model = "{name}" names no network of the zoo; a file is onnx = "{name}"')
    MODELS.path(found)
    return found


def is_registered(name: str) -> bool:
    """Whether a network has that name, spelled as ``canonical`` allows."""
    return _squash(name) in {_squash(registered) for registered in MODELS.names()}


def is_model(name: str) -> bool:
    """Whether ``load`` takes that name; a file is not read."""
    return split_file(name) is not None or is_registered(name)


def load(name: str, **settings: int | str | bool) -> DnnModel:
    """The network of that name, or of ``FILE.py:NAME``; ``settings``: of its function, as ``seq=384``.

    Equal calls return the same object while the file is the same. Raises UnknownNameError, and ConfigError for a
    setting that the network does not have.
    """
    own = split_file(name)
    changed_ns = own[0].stat().st_mtime_ns if own is not None and own[0].is_file() else 0
    return _load(canonical(name), tuple(sorted(settings.items())), changed_ns)


@lru_cache(maxsize=256)
def _load(name: str, settings: tuple[tuple[str, Any], ...], changed_ns: int) -> DnnModel:
    found, what = MODELS.resolve(name), f"model '{name}'"
    model = found if isinstance(found, DnnModel) and not settings else made(found, dict(settings), what)
    if not isinstance(model, DnnModel):
        raise ModelError(f"{what} is made by a function that returned {type(model).__name__}, not a DnnModel")
    return model


@lru_cache(maxsize=1024)  # of every registered name at every look-up
def _squash(name: str) -> str:
    return "".join(c for c in name.lower() if c not in "-_. ")
