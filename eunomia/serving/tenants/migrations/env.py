"""What Alembic runs: the steps, in the transaction of whoever asked."""

from alembic import context

from eunomia.serving.tenants.tables import METADATA

connection = context.config.attributes.get("connection")
if connection is None:
    raise RuntimeError("run migrations through eunomia.serving.tenants.connection.migrate")
context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
