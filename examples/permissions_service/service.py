"""A service that answers who may do what, from permissions that ``flintlog.open`` keeps exact in one SQLite file.

``PERMISSIONS=permissions.db uvicorn service:app`` starts it. A view belongs to the thread that opened it, so there are
three: the event loop answers checks from its own, since a search takes less time than a switch to another thread; a
second thread applies batches; a third answers what takes longer. Readers and the writer do not wait for each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import flintlog
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

PROGRAM = Path(__file__).with_name("permissions.dl")

CHECK = """
SELECT (SELECT max(number) FROM _commits),
       EXISTS (SELECT 1 FROM allowed WHERE person = ? AND action = ? AND item = ?)
"""
"""One statement, so that the answer is that of the commit."""

T = TypeVar("T")

Answer = dict[str, Any]


class ViewThread:
    """A thread with a view of its own."""

    def __init__(self, path: str) -> None:
        """Start the thread and open the view."""
        self.executor = ThreadPoolExecutor(1)
        self.view = self.executor.submit(flintlog.open, PROGRAM, path).result()

    async def run(self, work: Callable[[flintlog.View], T]) -> T:
        """Return what ``work`` returns for the view, called in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work, self.view)

    def close(self) -> None:
        """Finish the work at hand, close the view and end the thread."""
        self.executor.submit(self.view.close).result()
        self.executor.shutdown()


here: flintlog.View
writer: ViewThread
reader: ViewThread


@contextlib.asynccontextmanager
async def views(_: FastAPI) -> AsyncIterator[None]:
    """Open the views and close them at the end. The first one makes the file."""
    global here, writer, reader
    path = os.environ.get("PERMISSIONS", "permissions.db")
    with (
        flintlog.open(PROGRAM, path) as here,
        contextlib.closing(ViewThread(path)) as writer,
        contextlib.closing(ViewThread(path)) as reader,
    ):
        yield


app = FastAPI(title="Permissions", lifespan=views)


@app.exception_handler(flintlog.JobError)
async def refuse(_: Request, error: flintlog.JobError) -> JSONResponse:
    """Return the message of a request that is refused, or of one that may be sent again later."""
    return JSONResponse({"detail": str(error)}, 503 if isinstance(error, flintlog.Passing) else 400)


@app.get("/check")
async def check(person: str, action: str, item: str) -> Answer:
    """Return whether a person may do something, and as of which commit."""
    [(commit, there)] = here.sql(CHECK, (person, action, item))
    return {"allowed": bool(there), "commit": commit}


@app.get("/allowed")
async def allowed(person: str) -> Answer:
    """Return what a person may do."""
    query = "SELECT action, item FROM allowed WHERE person = ? ORDER BY action, item"
    return {"allowed": await reader.run(lambda view: view.sql(query, (person,)))}


@app.put("/batches/{batch:path}")
async def apply(batch: str, changes: dict[str, list[list[Any]]]) -> Answer:
    """Apply a batch, and return its commit and what it grants and revokes once it is durable. A batch whose ID is there
    changes nothing."""

    def work(view: flintlog.View) -> Answer:
        changed = view.apply(changes, batch=batch).get("allowed")
        [(commit,)] = view.sql("SELECT number FROM _commits WHERE batch = ?", (batch,))
        granted, revoked = (changed.inserted.to_list(), changed.deleted.to_list()) if changed else ([], [])
        return {"commit": commit, "granted": granted, "revoked": revoked}

    return await writer.run(work)


@app.get("/changes")
async def changes(since: int) -> Answer:
    """Return what the commits behind one have granted (+) and revoked (-), and the commit to ask for next."""

    def work(view: flintlog.View) -> Answer:
        last = view.commit
        found = [
            (commit, op, *row)
            for commit, relation, op, row in view.changes(since)
            if relation == "allowed" and commit <= last
        ]
        return {"changes": found, "commit": last}

    return await reader.run(work)


@app.get("/explain")
async def explain(person: str, action: str, item: str) -> Answer:
    """Return a proof that a person may do something, or which rules lack what."""
    constants = ", ".join(map(json.dumps, (person, action, item)))
    return await reader.run(lambda view: view.explain(f"allowed({constants})"))
