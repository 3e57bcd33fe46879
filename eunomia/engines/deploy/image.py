"""Images of the server and of its database, from Debian packages."""

from __future__ import annotations

from eunomia.engines.deploy.plan import CACHE, HOME, MODELS, Deployment, Files

POSTGRES_SH = """\
#!/bin/sh
# Starts PostgreSQL in $PGDATA; a new one gets the user "eunomia" with $POSTGRES_PASSWORD.
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    umask 077
    printf '%s' "$POSTGRES_PASSWORD" >"${TMPDIR:-/tmp}/password"
    "$bin/initdb" -D "$PGDATA" -U eunomia -A scram-sha-256 --pwfile="${TMPDIR:-/tmp}/password"
    rm "${TMPDIR:-/tmp}/password"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
fi
exec "$bin/postgres" -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories="${TMPDIR:-/tmp}" "$@"
"""

# Both packages write the same folder: the usual one goes, and the other is laid down again.
ORT_GPU = """ "onnxruntime-gpu[cuda,cudnn]>=1.21" \\
    && /opt/eunomia/bin/pip uninstall -y onnxruntime \\
    && /opt/eunomia/bin/pip install --no-cache-dir --no-deps --force-reinstall "onnxruntime-gpu>=1.21" \\
    && ls -d /opt/eunomia/lib/python3*/site-packages/nvidia/*/lib >/opt/eunomia/libraries"""
FIND_LIBRARIES = "RUN cp /opt/eunomia/libraries /etc/ld.so.conf.d/eunomia.conf && ldconfig\n"


def render(plan: Deployment) -> Files:
    """``image/``: build the first from a checkout of Eunomia, the second from ``image/`` itself."""
    models = "".join(f'COPY ["{path}", "{MODELS}/{name}"]\n' for name, path in plan.models.items())
    cuda, find = (ORT_GPU, FIND_LIBRARIES) if plan.cuda else ("", "")
    return {
        "image/Containerfile": f"""\
# podman build -t localhost/eunomia:latest -f image/Containerfile CHECKOUT
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
RUN python3 -m venv /opt/eunomia
COPY . /src
RUN /opt/eunomia/bin/pip install --no-cache-dir "/src[{",".join(plan.extras)}]"{cuda}

FROM debian:bookworm-slim
RUN apt-get update \\
    && apt-get install -y --no-install-recommends python3 ca-certificates locales \\
    && localedef -i en_US -f UTF-8 en_US.UTF-8 \\
    && rm -rf /var/lib/apt/lists/* \\
    && useradd --uid 10001 --no-create-home --home-dir {HOME} eunomia \\
    && install -d -o eunomia -g eunomia {HOME} {CACHE} {MODELS}
COPY --from=build /opt/eunomia /opt/eunomia
{find}{models}ENV PATH=/opt/eunomia/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME={CACHE}
WORKDIR {HOME}
USER 10001
EXPOSE 8000 8001
CMD ["eunomia", "serve", "server.toml"]
""",
        "image/Containerfile.postgres": """\
# podman build -t localhost/eunomia-postgres:latest -f image/Containerfile.postgres image
FROM debian:bookworm-slim
RUN apt-get update \\
    && apt-get install -y --no-install-recommends postgresql \\
    && rm -rf /var/lib/apt/lists/* /var/lib/postgresql \\
    && useradd --uid 10002 --no-create-home --home-dir /var/lib/postgresql database \\
    && install -d -o database -g database /var/lib/postgresql
COPY postgres.sh /usr/local/bin/postgres.sh
ENV PGDATA=/var/lib/postgresql/data
USER 10002
EXPOSE 5432
# SIGTERM would wait for every server to leave
STOPSIGNAL SIGINT
CMD ["sh", "/usr/local/bin/postgres.sh"]
""",
        "image/postgres.sh": POSTGRES_SH,
        "image/server.toml": plan.server_toml,
    }
