"""procrastinate's side of `shared`: its app, and a worker when run as a module."""

from __future__ import annotations

import os

import procrastinate

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ.get("BENCH_POSTGRES", ""))
)


@app.task(name="noop")
async def noop(i: int) -> None:
    """Do nothing; a coroutine, which is procrastinate's quickest kind."""


if __name__ == "__main__":
    app.run_worker(concurrency=20, listen_notify=True, delete_jobs="never")
