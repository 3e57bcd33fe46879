"""What administrators change stands in the log, with who did it."""

from __future__ import annotations

from pathlib import Path

import pytest
import tritonclient.grpc

from eunomia.serving.tenants.database import DatabaseDirectory
from eunomia.serving.tenants.grants import Grant
from tests.serving.live import ask, running


def test_every_change_is_logged_once_with_its_author_and_no_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As it was, only policies were: nobody could tell who had deleted a tenant."""
    directory = DatabaseDirectory(f"sqlite:///{tmp_path / 'tenants.db'}")
    directory.put(Grant("root", role="admin"))
    tenant, network = "/v2/eunomia/tenants/acme", "/v2/repository/models/small"
    with running(tmp_path, directory=directory) as server:
        key = directory.issue_key("root")
        caplog.clear()
        assert ask(server, "PUT", tenant, key, {"weight": 2})[0] == 200
        made = ask(server, "POST", f"{tenant}/keys", key)[1]["key"]
        ask(server, "POST", f"{tenant}/keys/rotate", key, {"grace_s": 5})
        ask(server, "DELETE", f"{tenant}/keys", key)
        assert ask(server, "DELETE", tenant, key)[0] == 200
        assert ask(server, "POST", f"{network}/unload", key)[0] == 200
        assert ask(server, "POST", f"{network}/load", key)[0] == 200
        with tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
            client.unload_model("small", headers={"authorization": f"Bearer {key}"})
            client.load_model("small", headers={"authorization": f"Bearer {key}"})
        assert ask(server, "DELETE", "/v2/eunomia/tenants/nobody", key)[0] == 404
        ask(server, "GET", "/v2/eunomia/tenants", key)
    directory.close()
    said = [record.getMessage() for record in caplog.records if "(by " in record.getMessage()]
    networks = ["network 'small' is unloaded (by 'root')", "network 'small' is loaded (by 'root')"]
    assert said == [
        "tenant 'acme' is changed (by 'root')",
        "tenant 'acme' has one more key (by 'root')",
        "tenant 'acme' has a new key, its older ones end after 5 s (by 'root')",
        "tenant 'acme' has 2 keys less (by 'root')",
        "tenant 'acme' is deleted (by 'root')",
        *networks,
        *networks,
    ]
    assert made not in caplog.text and key not in caplog.text
