"""Weights behind links, and files with several names: served as plain onnxruntime serves them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from eunomia.core.errors import ModelError
from eunomia.serving.blocks import external, filled
from eunomia.serving.blocks.external import environment_of, session_source
from eunomia.serving.blocks.optimise import content_key, optimise
from eunomia.serving.devices.network import load_network
from eunomia.serving.models.repository import Repository
from tests.serving.live import ADMIN, GOLD, ask, running
from tests.serving.test_exports import WIDTH, answer, dense, inputs, save


def hub(folder: Path) -> Path:
    """A snapshot of Hugging Face's cache: links to blobs with other names."""
    blobs, shown = folder / "blobs", folder / "snapshots" / "net"
    save(blobs / "model.onnx", dense())
    shown.mkdir(parents=True)
    for name, blob in (("model.onnx", "aa"), ("model.onnx.data", "bb")):
        (blobs / name).rename(blobs / blob)
        (shown / name).symlink_to(f"../../blobs/{blob}")
    return shown / "model.onnx"


def beside(folder: Path) -> Path:
    """A link to a file of the same folder."""
    save(folder / "net" / "model.onnx", dense())
    data = folder / "net" / "model.onnx.data"
    data.rename(data.with_name("real.bin"))
    data.symlink_to("real.bin")
    return data.with_suffix("")


def mount(folder: Path) -> Path:
    """A volume of Kubernetes."""
    save(folder / "net" / "..2026" / "model.onnx", dense())
    (folder / "net" / "..data").symlink_to("..2026")
    for name in ("model.onnx", "model.onnx.data"):
        (folder / "net" / name).symlink_to(f"..data/{name}")
    return folder / "net" / "model.onnx"


def twice(folder: Path) -> Path:
    """Weights that have a second name."""
    save(folder / "net" / "model.onnx", dense())
    os.link(folder / "net" / "model.onnx.data", folder / "again.bin")
    return folder / "net" / "model.onnx"


def linked(folder: Path) -> Path:
    """A folder that is a link."""
    twice(folder)
    (folder / "other").symlink_to("net")
    return folder / "other" / "model.onnx"


@pytest.mark.parametrize("embedded", [external.EMBEDDED_BYTES, 0])  # what is larger, the runtime reads itself
@pytest.mark.parametrize("layout", [hub, beside, mount, twice, linked])
def test_weights_behind_links_are_served(
    tmp_path: Path, layout: Callable[[Path], Path], embedded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external, "EMBEDDED_BYTES", embedded)
    path = layout(tmp_path)
    network = load_network(str(path), str(tmp_path / "cache"), {}, 1.0)
    feed = inputs()
    wanted = ort.InferenceSession(str(path)).run(None, feed)[0]
    np.testing.assert_allclose(answer(network, feed), wanted, rtol=1e-5)


def test_another_target_is_served_after_the_next_load(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    path = mount(folder)
    key = content_key(path)
    sent = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, WIDTH], "data": [1.0] * WIDTH}]}
    with running(tmp_path, models_dir=folder) as server:
        seen = []
        for seed in (0, 7):
            save(folder / "net" / f"..{seed}" / "model.onnx", dense(seed))
            (folder / "net" / "..next").symlink_to(f"..{seed}")
            (folder / "net" / "..next").replace(folder / "net" / "..data")
            assert ask(server, "POST", "/v2/repository/models/net/load", ADMIN)[0] == 200
            seen.append(ask(server, "POST", "/v2/models/net/infer", GOLD, sent)[1]["outputs"][0]["data"])
            plain = ort.InferenceSession(dense(seed).SerializeToString())
            wanted = plain.run(None, {"x": np.ones((1, WIDTH), np.float32)})[0]
            np.testing.assert_allclose(seen[-1], wanted.ravel(), rtol=1e-4, atol=1e-4)
    assert seen[0] != seen[1] and content_key(path) != key


def store(folder: Path) -> tuple[Path, Path]:
    """A network of a models_dir whose weights are a link to another place in it."""
    path = folder / "models" / "net" / "1" / "model.onnx"
    save(path, dense())
    data, shared = path.with_name("model.onnx.data"), folder / "models" / "store" / "w.bin"
    shared.parent.mkdir()
    data.rename(shared)
    data.symlink_to("../../store/w.bin")
    return path, data


def test_a_link_leads_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever could put a link beside a network read any file of the server's user: as weights, by its answers."""
    path, data = store(tmp_path)
    refused = r"weights in 'model.onnx.data', a link to .*: links may not lead out of models_dir"
    with pytest.raises(ModelError, match=refused):  # of a [[network]]: only its own folder is known
        external.weight_files(path)
    monkeypatch.setenv(*environment_of(tmp_path / "models").popitem())
    assert external.weight_files(path) == [data]
    secret = tmp_path / "secret" / "key"
    secret.parent.mkdir()
    (tmp_path / "models" / "store" / "w.bin").rename(secret)
    for way in (secret, Path("..") / "folder" / "key"):
        (tmp_path / "models" / "net" / "folder").unlink(missing_ok=True)
        (tmp_path / "models" / "net" / "folder").symlink_to(secret.parent)
        data.unlink()
        data.symlink_to(way)
        with pytest.raises(ModelError, match=refused):
            external.weight_files(path)
    real = path.with_name("real.onnx")
    path.rename(real)
    path.symlink_to("real.onnx")
    with pytest.raises(ModelError, match=refused):  # it is a link, but not to where its weights are
        external.weight_files(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("within_models", [True, False])
def test_a_linked_network_has_no_weights_of_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, within_models: bool
) -> None:
    """In a folder for all, such as /tmp, somebody's network beside the server's own files named these as weights."""
    path = hub(tmp_path)
    if within_models:
        monkeypatch.setenv(*environment_of(path.parent.parent).popitem())
    for owner in (12345, 0):
        os.chown(path, owner, -1)
        os.chown(path.with_name("model.onnx.data"), 12345 - owner, -1)
        with pytest.raises(ModelError, match="weights in 'model.onnx.data', a link to .*/blobs/bb"):
            external.weight_files(path)
    os.chown(path, 12345, -1)
    assert external.weight_files(path) == [path.with_name("model.onnx.data")]


def test_a_server_follows_links_within_its_folder_alone(tmp_path: Path) -> None:
    path, data = store(tmp_path)
    load = "/v2/repository/models/net/load"
    with running(tmp_path, models_dir=tmp_path / "models") as server:
        assert ask(server, "POST", load, ADMIN)[0] == 200
        data.unlink()
        data.symlink_to("/etc/passwd")
        status, told = ask(server, "POST", load, ADMIN)
        assert status == 400 and "a link to /etc/passwd" in told["error"]


def test_files_that_change_while_they_are_read_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of one version would have been served under the name of another, as often as that came back."""
    path = twice(tmp_path)

    def changing(source: Path) -> str | bytes:
        found = session_source(source)
        save(path, dense(7))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(sys.modules[optimise.__module__], "session_source", changing)
        with pytest.raises(ModelError, match="it has changed while it was read; load it again"):
            optimise(path, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.onnx"))
    optimise(path, tmp_path / "cache")


def test_nobody_is_told_to_rename_what_kubernetes_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mount(tmp_path)
    (tmp_path / "..data").symlink_to("net")
    (tmp_path / "..a.onnx").write_bytes(b"")
    repository = Repository(None, tmp_path)  # type: ignore[arg-type]
    assert [entry.name for entry in repository.entries()] == ["net"] and not caplog.records


@pytest.mark.parametrize(
    "told, words",
    [
        ({"offset": "-1"}, "bytes -1 to 4095 of"),
        ({"offset": "8200"}, "bytes 8200 to 12296 of"),
        ({"length": "4"}, "its shape takes 4096 bytes, and 4 are said to be there"),
        ({"offset": "x"}, "invalid literal"),
    ],
)
def test_places_that_the_file_does_not_hold_are_refused(
    tmp_path: Path, told: dict[str, str], words: str
) -> None:
    path = tmp_path / "net.onnx"
    save(path, dense())
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    for entry in tensor.external_data:
        entry.value = told.get(entry.key, entry.value)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=f"the weights of 'a' in 'net.onnx.data': {words}"):
        session_source(path)


def test_no_length_means_what_the_shape_takes_and_all_together_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path, dense())
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        kept = [(e.key, e.value) for e in tensor.external_data if e.key != "length"]
        tensor.ClearField("external_data")
        for key, value in kept:
            tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())
    read = onnx.load_from_string(session_source(path))  # type: ignore[arg-type]
    assert [t.raw_data for t in read.graph.initializer] == [t.raw_data for t in dense().graph.initializer]
    with pytest.raises(ModelError, match="'b' in 'net.onnx.data': .* more than one network may have"):
        filled.fill("net", tmp_path, model.graph.initializer, 6000)


def test_elements_smaller_than_a_byte_share_bytes(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(bytes(range(8)))
    small = onnx.TensorProto(data_type=onnx.TensorProto.INT4, dims=[5], name="w", data_location=1)
    small.external_data.add(key="location", value="w")
    text = onnx.TensorProto(data_type=onnx.TensorProto.STRING, dims=[1], name="s", data_location=1)
    text.external_data.add(key="location", value="w")
    filled.fill("net", tmp_path, [small], 100)
    assert small.raw_data == bytes([0, 1, 2]) and not small.external_data
    with pytest.raises(ModelError, match="they are texts"):
        filled.fill("net", tmp_path, [text], 100)
