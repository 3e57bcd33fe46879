"""Rendered deployments: valid objects, the same text for the same file, and commands that start here."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from eunomia.config.server import load_server
from eunomia.core.errors import ConfigError, UnknownNameError
from eunomia.engines.deploy.catalogue import RENDERERS, render
from eunomia.engines.deploy.image import POSTGRES_SH
from eunomia.engines.deploy.plan import Deployment
from eunomia.engines.deploy.proxy import haproxy
from eunomia.engines.deploy.text import yaml as written
from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant, hash_key
from eunomia.study.serving.deployment import deployment
from tests import children
from tests.patience import until
from tests.ports import free_port
from tests.serving.made_up import examples
from tests.serving.process import process, write_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "serving" / "server.toml"
KINDS = ("kubernetes/server.yaml", "kubernetes/postgres.yaml", "kubernetes/network.yaml")


@pytest.fixture
def plan(tmp_path: Path) -> Deployment:
    """Of the example server, with a key for each tenant."""
    text = EXAMPLE.read_text()
    for key in ("eun_operator", "eun_gold"):
        text = text.replace("PASTE-KEY_SHA256-HERE", hash_key(key), 1)
    (tmp_path / "server.toml").write_text(text)
    return deployment(tmp_path / "server.toml", tell=lambda _: None)


def objects(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(inner)
    if isinstance(value, dict):
        yield value


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    LEAVES,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=8), v, max_size=3),
    max_leaves=12,
)


@examples(0.5)
@given(VALUES)
def test_what_is_written_as_yaml_is_read_back(value: Any) -> None:
    assert yaml.safe_load(written(value)) == value


def test_the_same_file_gives_the_same_text(plan: Deployment, tmp_path: Path) -> None:
    again = deployment(tmp_path / "server.toml", tell=lambda _: None)
    assert render(plan) == render(again) and set(render(plan, ["haproxy"])) == {"haproxy/haproxy.cfg"}
    assert {path.partition("/")[0] for path in render(plan)} == {*RENDERERS, "prometheus", "grafana"} - {
        "watching"
    }
    with pytest.raises(UnknownNameError):
        render(plan, ["podman"])


@pytest.mark.parametrize("gpus", [0, 1])
def test_every_object_is_valid_by_the_schemas_of_kubernetes(plan: Deployment, gpus: int) -> None:
    checker = pytest.importorskip("kubernetes_validate")
    files = render(replace(plan, gpus=gpus, traces_port=4318))
    for path in KINDS:
        for one in objects(files[path]):
            checker.validate(one, checker.latest_version(), strict=True)
    core = [one for one in objects(files["kserve/runtime.yaml"]) if one["apiVersion"] == "v1"]
    pods = [
        one["spec"]
        for one in walk(objects(files["kuberay/cluster.yaml"]))
        if "containers" in one.get("spec", ())
    ]
    assert len(pods) == 2
    wrapped = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod} for pod in pods]
    for one in [*core, *wrapped]:
        checker.validate(one, checker.latest_version(), strict=True)


def test_containers_are_locked_down_and_have_limits(plan: Deployment) -> None:
    files = render(plan)
    found = [
        one for path in KINDS for each in objects(files[path]) for one in walk(each) if "containers" in one
    ]
    assert len(found) == 2
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False
        volumes = {volume["name"] for volume in pod["volumes"]} | {"state", "data"}
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"] == container["resources"]["requests"]
            assert {"readinessProbe", "livenessProbe"} <= set(container)
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert {"/tmp", "/dev/shm"} <= {mount["mountPath"] for mount in container["volumeMounts"]}
    labels = [
        one["spec"]["selector"]
        for one in objects(files["kubernetes/server.yaml"])
        if one["kind"] == "Service"
    ]
    pods = objects(files["kubernetes/server.yaml"])[4]["spec"]["template"]["metadata"]["labels"]
    assert all(label == pods for label in labels)


def expanded(text: str, values: dict[str, Any]) -> str:
    """What Helm makes of a template of ours."""
    text = re.sub(r"\{\{ \.Values\.(\w+) \| quote \}\}", lambda m: json.dumps(values[m[1]]), text)
    text = re.sub(r"\{\{ \.Values\.(\w+) \}\}", lambda m: str(values[m[1]]), text)
    return text.replace('{{ "{{" }}', "{{")


def same_chart(files: Mapping[str, str]) -> None:
    """The chart with its own values is the plain manifests."""
    values = yaml.safe_load(files["helm/eunomia/values.yaml"])
    for path in KINDS:
        chart = files[path.replace("kubernetes/", "helm/eunomia/templates/")]
        assert "{{" in chart or "network" in path
        assert objects(expanded(chart, values)) == objects(files[path])


def test_the_chart_with_its_own_values_is_the_plain_manifests(plan: Deployment) -> None:
    same_chart(render(plan))


def stranger(
    folder: Path, top: str = "", device: str = 'name = "d"', network: str = "net", tenant: str = "gold"
) -> Path:
    """Somebody's server file, with these words in it."""
    (folder / "weights").mkdir(exist_ok=True)
    (folder / "weights" / "a b.onnx").touch()
    for name in ("cert.pem", "key.pem"):
        (folder / name).touch()
    path = folder / "theirs.toml"
    path.write_text(
        f"anonymous = true\n{top}\n[[device]]\n{device}\n[[network]]\nname = {json.dumps(network)}\n"
        f'onnx = "weights/a b.onnx"\n[[tenant]]\nname = {json.dumps(tenant)}\n'
    )
    return path


STRANGERS: dict[str, dict[str, str]] = {
    "a password and TLS": {
        "top": 'tls_cert = "cert.pem"\ntls_key = "key.pem"\ndatabase = "postgresql://u:hunter2@db:5432/x"'
    },
    "a group of replicas": {"top": 'database = "postgresql://u:hunter2@db/x"\n[replicas]\nname = "a"\ngroup = "east"'},
    "a tenant of braces": {"tenant": "it's {{ .Values.x }} {{- \"q\" }} $HOME \u00e9"},
    "a network of spaces and braces": {"network": "a b {{z}}"},
    "a network that would be a command": {"network": 'q"; RUN rm -rf . #'},
    "a network that would be a folder": {"network": ".."},
    "a GPU of another number": {"device": 'name = "g"\nbackend = "cuda"\ngpu = 5'},
    "traces outside": {"top": '[traces]\nendpoint = "https://collector.example/v1/traces"'},
}  # fmt: skip


@pytest.mark.parametrize("who", STRANGERS)
def test_files_of_strangers_are_valid_the_same_as_a_chart_and_hold_no_password(
    tmp_path: Path, who: str
) -> None:
    checker = pytest.importorskip("kubernetes_validate")
    plan = deployment(stranger(tmp_path, **STRANGERS[who]), replicas=3, tell=lambda _: None)
    files = render(plan)
    for path in KINDS:
        for one in objects(files[path]):
            checker.validate(one, checker.latest_version(), strict=True)
    same_chart(files)
    assert not [path for path, text in files.items() if "hunter2" in text]
    copies = [line for line in files["image/Containerfile"].splitlines() if line.startswith("COPY [")]
    assert [len(json.loads(line.removeprefix("COPY "))) for line in copies] == [2]
    assert "RUN rm" not in files["image/Containerfile"].replace(" rm -rf /var/lib", "")
    assert 'group = "east"' in plan.server_toml or who != "a group of replicas"
    (tmp_path / "again.toml").write_text(plan.server_toml)
    assert load_server(tmp_path / "again.toml").network[0].name == STRANGERS[who].get("network", "net")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"device": 'name = "far"\non = "ray"'}, "device 'far': on = \"ray\" needs a Ray cluster"),
        ({"top": 'policy = "mine.py:choose"'}, "policy = 'mine.py:choose' is a file, which no image holds"),
        ({"top": 'policy = "best.json"'}, "policy = 'best.json' is a file, which no image holds"),
        (
            {"top": '[traces]\nendpoint = "http://box:99999/v1"'},
            "names no host and port behind http:// or https://; write http://HOST:4318",
        ),
        ({"top": '[traces]\nendpoint = "http:///v1"'}, "names no host and port"),
        ({"network": "a/b"}, "'a/b' holds '/'"),
    ],
)
def test_what_cannot_be_rendered_is_one_sentence(
    tmp_path: Path, words: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(sentence)) as told:
        deployment(stranger(tmp_path, **words), tell=lambda _: None)
    assert "\n" not in str(told.value)


def test_a_network_that_is_not_there_yet_is_pointed_out(tmp_path: Path) -> None:
    path, told = stranger(tmp_path), list[str]()
    path.write_text(path.read_text().replace("a b.onnx", "later.onnx"))
    deployment(path, tell=told.append)
    assert any("later.onnx (it is not there now) to models/net.onnx" in one for one in told)


def test_the_rendered_command_starts_here_with_the_rendered_file(tmp_path: Path) -> None:
    """The server of the manifests outside Kubernetes: other ports and folders, another database, one network."""
    told: list[str] = []
    plan = deployment(write_server(tmp_path, ledger_dir="here"), tell=told.append)
    assert any("copy" in text and "models/small.onnx" in text for text in told)
    container = objects(render(plan)["kubernetes/server.yaml"])[4]["spec"]["template"]["spec"]["containers"][
        0
    ]
    assert container["command"] == ["eunomia", "serve", "server.toml"]
    text = objects(render(plan)["kubernetes/server.yaml"])[1]["data"]["server.toml"]
    changes = {
        "/opt/eunomia/models": str(tmp_path),
        "/var/cache/eunomia": str(tmp_path / "cache"),
        "= 8000\n": "= 0\n",
        "= 8001\n": "= 0\n",
        "postgresql://eunomia@eunomia-postgres:5432/postgres": f"sqlite:///{tmp_path}/t.db",
    }
    for place, here in changes.items():
        assert place in text
        text = text.replace(place, here)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "server.toml").write_text(text)
    with process(tmp_path / "home" / "server.toml") as server:
        assert server.infer() == 200 and server.ask("/v2/eunomia/replicas")[1]["database"] == "answers"
    assert list((tmp_path / "home" / "ledger").iterdir())


def test_what_a_server_file_cannot_take_along_is_one_sentence(tmp_path: Path) -> None:
    path = write_server(tmp_path, models_dir=str(tmp_path))
    with pytest.raises(ConfigError, match=r"models_dir = .*: name each network"):
        deployment(path, tell=lambda _: None)


def test_replicas_of_the_file_keep_their_settings(tmp_path: Path) -> None:
    path = write_server(tmp_path)
    path.write_text(
        path.read_text().replace("[[device]]", '[replicas]\nname = "me"\nhold_s = 5.0\n[[device]]', 1)
    )
    plan = deployment(path, ["database=sqlite:///x.db"], tell=lambda _: None)
    assert "hold_s = 5.0" in plan.server_toml and '"me"' not in plan.server_toml


def test_postgres_sh_makes_a_database_that_wants_its_password() -> None:
    if not sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="eunomia-pg-"))
    (folder / "postgres.sh").write_text(POSTGRES_SH)
    port = free_port()
    as_user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        as_user = ["runuser", "-u", "postgres", "--"]
    environment = {"PGDATA": str(folder / "data"), "POSTGRES_PASSWORD": "secret", "TMPDIR": str(folder)}
    words = [
        *as_user,
        "env",
        *(f"{k}={v}" for k, v in environment.items()),
        "sh",
        str(folder / "postgres.sh"),
        "-p",
        str(port),
    ]
    with children.started(words, cwd=Path("/")) as child:

        def made() -> DatabaseDirectory | None:
            try:
                return DatabaseDirectory(f"postgresql://eunomia:secret@127.0.0.1:{port}/postgres")
            except Exception:
                return None

        directory = until(made, child)
        assert directory is not None
        directory.put(Grant("gold"))
        directory.close()
        with pytest.raises(Exception, match="password"):
            DatabaseDirectory(f"postgresql://eunomia:wrong@127.0.0.1:{port}/postgres")
    shutil.rmtree(folder, ignore_errors=True)


def test_both_protocols_pass_haproxy_to_a_server_that_is_ready(tmp_path: Path) -> None:
    """As it was, checks of gRPC's servers spoke HTTP/2 to the port of HTTP, so none was ever up."""
    program = shutil.which("haproxy") or next(iter(map(str, Path("/usr/sbin").glob("haproxy"))), None)
    if program is None:
        pytest.skip("HAProxy is not installed (Debian: apt-get install haproxy)")
    import tritonclient.grpc as stock

    http, grpc = free_port(), free_port()
    with process(write_server(tmp_path)) as server:
        places = server.url.rpartition(":")[2], server.grpc.rpartition(":")[2]
        text = haproxy([f"127.0.0.1:{':'.join(places)}", "127.0.0.1"], http, grpc)
        (tmp_path / "haproxy.cfg").write_text(text)
        children.run([program, "-c", "-f", tmp_path / "haproxy.cfg"], check=True)
        limited = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", program, "-f", tmp_path / "haproxy.cfg"]
        with children.started(limited) as proxy:  # as it was, it wanted 40,000 descriptors
            behind = replace(server, url=f"http://127.0.0.1:{http}")

            def answers() -> bool:
                try:
                    with stock.InferenceServerClient(f"127.0.0.1:{grpc}") as client:
                        return behind.infer() == 200 and client.is_server_ready()
                except (OSError, stock.InferenceServerException):
                    return False

            until(answers, proxy)
            assert all(answers() for _ in range(100))  # checks that fail would take it away meanwhile


def test_the_packaged_demo_is_no_server_file_but_the_example_is(plan: Deployment, tmp_path: Path) -> None:
    (tmp_path / "again.toml").write_text(plan.server_toml)
    config = load_server(tmp_path / "again.toml")
    assert [tenant.name for tenant in config.tenant] == ["operator", "gold"] and config.replicas is not None
    assert config.host == "0.0.0.0" and not config.device[0].cores


SERVED = '[[network]]\nname = "net"\nbuiltin = "resnet50"\n[[tenant]]\nname = "gold"\n'
DEVICES = """
[[device]]
name = "first"
backend = "cuda"
gpu = 2
memory_mib = 3000

[[device]]
name = "second"
backend = "cuda"
gpu = 3

[traces]
"""


def with_devices(path: Path, devices: str) -> Path:
    """A server file with these devices, and one tenant."""
    path.write_text(f'anonymous = true\nco_runs = "/srv/near.csv"\n{devices}\n{SERVED}')
    return path


@pytest.mark.parametrize("backend", ["cuda", "torch"])
def test_gpus_packages_memory_and_places_are_those_of_the_devices(tmp_path: Path, backend: str) -> None:
    plan = deployment(
        with_devices(tmp_path / "server.toml", DEVICES.replace("cuda", backend)), tell=lambda _: None
    )
    files = render(plan, ["image", "kubernetes"])
    container = next(
        each["containers"][0]
        for each in walk(objects(files["kubernetes/server.yaml"]))
        if "containers" in each
    )
    limits = container["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == 2 and int(limits["memory"].removesuffix("Mi")) > 3000 + 2 * 4096
    image = files["image/Containerfile"]
    extras = "serve,postgres,learn,tracing" if backend == "torch" else "serve,postgres,tracing"
    assert f'"/src[{extras}]"' in image
    assert " locales \\\n    && localedef -i en_US -f UTF-8 en_US.UTF-8 \\\n" in image, (
        "some operators on texts need it"
    )
    for part in ("onnxruntime-gpu[cuda,cudnn]", "uninstall -y onnxruntime", "ldconfig"):
        assert (part in image) == (backend == "cuda")
    inside = tomllib.loads(files["image/server.toml"])
    assert [device["gpu"] for device in inside["device"]] == [0, 1] and inside["co_runs"] == "co_runs.csv"


def test_a_processor_needs_no_gpu(tmp_path: Path) -> None:
    cores = '[[device]]\nname = "one"\nbackend = "torch"\ncores = [0]\n'
    plan = deployment(with_devices(tmp_path / "server.toml", cores), tell=lambda _: None)
    assert plan.gpus == 0 and "onnxruntime-gpu" not in render(plan, ["image"])["image/Containerfile"]


def test_what_no_image_holds_is_one_sentence(tmp_path: Path) -> None:
    path = with_devices(tmp_path / "server.toml", DEVICES.replace('"cuda"', '"tensorrt"'))
    with pytest.raises(ConfigError, match="device 'first': backend = \"tensorrt\" needs libraries"):
        deployment(path, tell=lambda _: None)


def test_addresses_of_ipv6_stand_in_brackets() -> None:
    text = haproxy(["[::1]:8100:8101", "[fe80::2]", "box:9000"])
    assert (
        "replica-1 [::1]:8100\n" in text
        and "replica-1 [::1]:8101 proto h2 check check-proto h1 port 8100" in text
    )
    assert (
        "replica-2 [fe80::2]:8000\n" in text
        and "replica-3 box:8001 proto h2 check check-proto h1 port 9000" in text
    )


@pytest.mark.parametrize("host", ["::1", "[::1", "box:http", "box:1:2:3", "box:70000", "box: 1", "a\nb", ""])
def test_a_host_that_is_none_is_one_sentence(host: str) -> None:
    with pytest.raises(ConfigError, match="write HOST, HOST:HTTP_PORT or"):
        haproxy([host])


@pytest.mark.parametrize(
    "image",
    [
        "localhost/eunomia:latest",
        "Registry.Example:5000/team/eunomia:1.0-RC",
        "eunomia",
        "a/b__c/d.e@sha256:" + "0" * 64,
    ]
    + ["[::1]:5000/x", "10.0.0.1/x-y:_1"],
)
def test_images_of_any_registry_are_taken(plan: Deployment, image: str) -> None:
    files = render(replace(plan, image=image, postgres_image=image), ["kubernetes", "helm"])
    same_chart(files)
    assert (
        json.dumps(image) in files["kubernetes/server.yaml"]
        and json.dumps(image) in files["kubernetes/postgres.yaml"]
    )


@pytest.mark.parametrize(
    "image", ["", "Eunomia", "a b", "x:", "x:a b", "x\ny", "host/Team/x", "http://h/x", "x@sha256:1"]
)
def test_what_is_no_name_of_an_image_is_one_sentence(plan: Deployment, image: str) -> None:
    for option, name in (("--image", "image"), ("--postgres-image", "postgres_image")):
        change: Any = {name: image}
        with pytest.raises(ConfigError, match=f"{option} '{re.escape(image)}': write "):
            replace(plan, **change)


def test_every_value_of_the_chart_is_used_and_none_is_missing(plan: Deployment) -> None:
    files = render(plan, ["helm"])
    used = set(re.findall(r"\.Values\.(\w+)", "".join(files.values())))
    assert used == set(yaml.safe_load(files["helm/eunomia/values.yaml"]))


def test_probes_and_ports_are_those_that_the_server_has(plan: Deployment) -> None:
    found = list(walk(objects(render(plan, ["kubernetes"])["kubernetes/server.yaml"])))
    paths = {one["httpGet"]["path"] for one in found if "httpGet" in one}
    assert paths == {"/v2/health/live", "/v2/health/ready"}
    text = (EXAMPLE.parents[2] / "eunomia" / "serving" / "fronts").rglob("*.py")
    source = "".join(path.read_text() for path in text)
    assert all(path in source for path in paths)


def test_a_network_policy_lets_through_who_must_pass_and_a_drain_is_never_blocked(plan: Deployment) -> None:
    one = replace(plan, replicas=1, traces_port=4318)
    files = render(one, ["kubernetes"])
    server, postgres = (each["spec"] for each in objects(files["kubernetes/network.yaml"]))
    assert server["ingress"] == [{"ports": [{"protocol": "TCP", "port": port} for port in (8000, 8001)]}]
    opens = {(each["protocol"], each["port"]) for rule in server["egress"] for each in rule["ports"]}
    assert {(p, n) for p in ("UDP", "TCP") for n in (53, 5353)} | {("TCP", 5432), ("TCP", 4318)} == opens
    who = postgres["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    pods = objects(files["kubernetes/server.yaml"])
    assert who == pods[4]["spec"]["template"]["metadata"]["labels"]
    assert server["egress"][0]["to"][0]["podSelector"] == postgres["podSelector"]
    assert pods[5]["spec"]["maxUnavailable"] == 1 and "minAvailable" not in pods[5]["spec"]


def test_postgres_is_ended_without_waiting_for_those_that_are_connected(plan: Deployment) -> None:
    """By SIGTERM it waits for them, is killed after 30 s, and recovers as after a crash."""
    files = render(plan)
    assert "\nSTOPSIGNAL SIGINT\n" in files["image/Containerfile.postgres"]
    assert files["kuberay/cluster.yaml"].startswith("# The image needs Ray: ")
    assert "/src[serve,postgres,ray]" in files["kuberay/cluster.yaml"]


def with_weights(folder: Path, name: str, weights: str) -> None:
    """An ONNX file with its weights beside it."""
    onnx = pytest.importorskip("onnx")
    values = onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")
    shape = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
    made = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])], "g", [shape], [made], [values]
    )
    folder.mkdir()
    model = onnx.helper.make_model(graph)
    onnx.save(model, folder / name, save_as_external_data=True, location=weights, size_threshold=0)


def test_weights_beside_a_network_go_into_the_image_or_are_refused(tmp_path: Path) -> None:
    told: list[str] = []
    path, second = stranger(tmp_path), '[[network]]\nname = "two"\nonnx = "{}/n.onnx"\n'
    with_weights(tmp_path / "one", "n.onnx", "n.onnx.data")
    with_weights(tmp_path / "other", "n.onnx", "n.onnx.data")
    with_weights(tmp_path / "odd", "n.onnx", 'a"\nRUN b')
    text = path.read_text().replace("weights/a b.onnx", "one/n.onnx")
    path.write_text(text)
    image = render(deployment(path, tell=told.append), ["image"])["image/Containerfile"]
    assert 'COPY ["models/n.onnx.data", "/opt/eunomia/models/n.onnx.data"]\n' in image
    assert any("one/n.onnx.data to models/n.onnx.data, too" in each for each in told)
    for folder, said in (
        ("other", "and an image has one folder"),
        ("odd", "export it anew, with a name of letters"),
    ):
        path.write_text(text.replace("[[tenant]]", second.format(folder) + "[[tenant]]"))
        with pytest.raises(ConfigError, match=said) as error:
            deployment(path, tell=told.append)
        assert "\n" not in str(error.value)
