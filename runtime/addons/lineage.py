"""The part ``openlineage``: events about batches, as the Python client of OpenLineage sends them.

Each batch is a run of the job ``PROGRAM.COMMAND``: it starts, and then completes, fails or is aborted. Its datasets are
named as OpenLineage recommends (https://openlineage.io/docs/spec/naming). The client is configured as its documentation
says, by a file or by variables of the environment.
"""

from __future__ import annotations

import importlib
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..inputs.dialects import split_dialect
from ..job.status import tables_said
from ..kernel.errors import JobError, NothingDiffers, reason, without_keys
from ..kernel.model import Program, Relation
from ..kernel.values import shown
from ..store.extensions import FURTHER
from ..store.manifest import NO_TABLES, Manifest
from ..store.publish import publication_folder
from ..store.request import Batch, Request
from ..system.log import Log
from ..system.places import bare_location, scheme_of

NAMESPACE = "OPENLINEAGE_NAMESPACE"
"""The variable with the namespace of jobs, as other integrations have it."""

PARENT = "OPENLINEAGE_PARENT_ID"
"""The variable with the run that has started this one: its namespace, its job and its ID, with ``/`` in between."""


@dataclass(frozen=True)
class WatchedBatch:
    """A batch that begins: the state, the command and the ID; the last commit, the folder of published changes, and by
    relation the places and feeds whose rows it takes. One that is ``doubtful`` may turn out to change nothing, and is
    then none."""

    root: Path
    command: str
    batch: str
    before: Manifest | None
    publish: str
    sources: Mapping[str, Sequence[str]]
    doubtful: bool


EVENTS_WAITING = 1000
"""At most this many events wait while a server does not answer."""

SECONDS_TO_SEND = 10.0
"""The seconds that a command waits in the end until all events are sent."""


class Lineage:
    """Sends events about the batches of a command, in a thread that no batch waits for. No batch fails because its
    event cannot be sent."""

    def __init__(self, program: Program, log: Log) -> None:
        """Open the client; raise JobError if it is not installed, or not configured."""
        self.program, self.log = program, log
        self.producer = f"urn:flintlog:{program.compiler}"
        try:
            client = client_module("client")
            self.event, self.facets = client_module("client.event_v2"), client_module("client.facet_v2")
        except ImportError as error:
            raise JobError(
                f"--openlineage needs the Python package openlineage-python, and {error.name} is not installed for "
                f"{sys.executable}: run `pip install openlineage-python`"
            ) from error
        try:
            self.client = client.OpenLineageClient()
        except Exception as error:
            raise JobError(f"the client of OpenLineage cannot be configured: {reason(error)}") from error
        if self.client.transport.kind == "console" and not (self.client.config.transport or {}).get("type"):
            raise JobError(
                "--openlineage sends events as the client of OpenLineage is configured, and it is not: set "
                "OPENLINEAGE_URL to the address of a server, or OPENLINEAGE_CONFIG to a file such as openlineage.yml"
            )
        self.parent = self._parent(os.environ.get(PARENT, ""))
        self.batch: WatchedBatch | None = None
        self.run_id, self.begun, self.started = "", "", False
        self.waiting: queue.Queue[Any] = queue.Queue(EVENTS_WAITING)
        self.closing, self.given_up, self.dropped = False, False, 0
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def begin(self, request: Request, before: Manifest | None, batch: Batch) -> None:
        """Report that a batch begins; later, if it may turn out to change nothing."""
        self.batch = watched_batch(request, before, batch)
        self.begun, self.started = now(), False
        self.run_id = str(client_module("client.uuid").generate_new_uuid())
        if not self.batch.doubtful:
            self._start()

    def end(self, manifest: Manifest) -> None:
        """Report that the batch is committed and published."""
        self._finish("COMPLETE", manifest)

    def fail(self, error: BaseException) -> None:
        """Report that the batch was refused, has failed, or was interrupted."""
        if isinstance(error, NothingDiffers):
            # It was none, so nothing was told if that was to be expected.
            if self.started:
                self._finish("ABORT")
            return
        self._finish("FAIL" if isinstance(error, Exception) else "ABORT", error=error)

    def close(self) -> None:
        """Send what is still waiting, as far as there is time. An event that is being sent is waited for."""
        self.closing = True
        try:
            self.waiting.put(None, timeout=SECONDS_TO_SEND)
            self.thread.join(SECONDS_TO_SEND)
        except queue.Full:
            pass
        if self.thread.is_alive():
            self.given_up = True
            self.waiting.put(None)
            self.thread.join()
        if self.dropped:
            self.log.warn(f"OpenLineage does not answer; events about batches that were not sent: {self.dropped}")

    def _send(self) -> None:
        """Send events as they come. In the end, give up after an error: the server may not answer for long."""
        while (event := self.waiting.get()) is not None:
            if self.given_up:
                self.dropped += 1
                continue
            try:
                self.client.emit(event)
            except Exception as error:
                self._warn(error)
                self.given_up = self.closing
        try:
            self.client.close(SECONDS_TO_SEND)
        except Exception as error:
            self._warn(error)

    def _parent(self, given: str) -> Any:
        """Return the facet with the run that has started this one, None if there is none; raise JobError if it is not
        given as it should be."""
        if not given:
            return None
        try:
            namespace, *names, run = given.split("/")
            parent = self.facets.parent_run
            above = (parent.Run(run), parent.Job(namespace, "/".join(names)))
            return self._facet("parent_run", "ParentRunFacet", *above)
        except ValueError as error:
            raise JobError(f"{PARENT} is {shown(given)}; it should be NAMESPACE/JOB/ID, and the ID a UUID") from error

    # Events

    def _start(self) -> None:
        self.started = True
        self._emit("START", self.begun)

    def _finish(self, kind: str, manifest: Manifest | None = None, error: BaseException | None = None) -> None:
        if not self.started:
            self._start()
        self._emit(kind, now(), manifest, error)

    def _emit(
        self, kind: str, moment: str, manifest: Manifest | None = None, error: BaseException | None = None
    ) -> None:
        assert self.batch is not None
        try:
            event = self.event.RunEvent(
                eventType=getattr(self.event.RunState, kind),
                eventTime=moment,
                producer=self.producer,
                run=self.event.Run(self.run_id, dict(self._run_facets(self.batch, manifest, error))),
                job=self.event.Job(
                    os.environ.get(NAMESPACE) or "flintlog",
                    f"{self.program.name.removesuffix('.dl')}.{self.batch.command}",
                    {"jobType": self._facet("job_type_job", "JobTypeJobFacet", "BATCH", "FLINTLOG", "JOB")},
                ),
                inputs=list(self._inputs(self.batch)),
                outputs=list(self._outputs(self.batch, manifest)),
            )
            self.waiting.put_nowait(event)
        except queue.Full:
            self.dropped += 1
        except Exception as failure:
            self._warn(failure)

    def _warn(self, error: Exception) -> None:
        self.log.warn(f"an event about this batch was not sent to OpenLineage: {reason(error)}")

    def _facet(self, module: str, name: str, *values: Any, **named: Any) -> Any:
        return getattr(getattr(self.facets, module), name)(*values, **named, producer=self.producer)

    def _run_facets(
        self, batch: WatchedBatch, manifest: Manifest | None, error: BaseException | None
    ) -> Iterator[tuple[str, Any]]:
        engine = ("processing_engine_run", "ProcessingEngineRunFacet", self.program.compiler, "flintlog")
        yield "processing_engine", self._facet(*engine)
        told = {"batch": batch.batch, "state": without_keys(str(batch.root))}
        if manifest:
            told["commit"] = str(manifest.commit)
        tag = self.facets.tags_run.TagsRunFacetFields
        yield "tags", self._facet("tags_run", "TagsRunFacet", [tag(k, v, "FLINTLOG") for k, v in told.items()])
        if error is not None:
            text = str(error) if isinstance(error, JobError) else type(error).__name__
            said = without_keys(reason(error) if isinstance(error, Exception) and text != str(error) else text)
            yield "errorMessage", self._facet("error_message_run", "ErrorMessageRunFacet", said, "PYTHON")
        if self.parent:
            yield "parent", self.parent

    # Datasets

    def _schema(self, relation: Relation) -> Any:
        field = self.facets.schema_dataset.SchemaDatasetFacetFields
        columns = [field(column.name, column.type) for column in relation.columns]
        return self._facet("schema_dataset", "SchemaDatasetFacet", columns)

    def _inputs(self, batch: WatchedBatch) -> Iterator[Any]:
        for relation in self.program.relations:
            if relation.kind != "input" or relation.name not in batch.sources:
                continue
            for namespace, name in dict.fromkeys(datasets(batch.sources[relation.name])):
                yield self.event.InputDataset(namespace, name, facets={"schema": self._schema(relation)})

    def _outputs(self, batch: WatchedBatch, manifest: Manifest | None) -> Iterator[Any]:
        for relation in self.program.relations:
            if not relation.output or relation.hidden:
                continue
            statistics = {}
            if manifest:
                changed = sum(manifest.counts.get(relation.table, (0, 0)))
                facet = ("output_statistics_output_dataset", "OutputStatisticsOutputDatasetFacet", changed)
                statistics = {"outputStatistics": self._facet(*facet)}
            places = [str(publication_folder(batch.root, batch.publish, relation, "batch").parent)]
            last = manifest or batch.before
            tables = last.tables if last else NO_TABLES
            if relation.name in tables.relations:
                places.append(tables_said(tables)[relation.name])
            for namespace, name in datasets(places):
                facets = {"schema": self._schema(relation)}
                yield self.event.OutputDataset(namespace, name, statistics, facets=facets)


def watched_batch(request: Request, before: Manifest | None, batch: Batch) -> WatchedBatch:
    """Return a batch with the rows in given places, and in those of its feeds that have moved on."""
    given_sources = batch.sources or {}
    sources = {name: [place for place in places if isinstance(place, str)] for name, places in given_sources.items()}
    moved = {}
    for name, record in (batch.feeds or {}).items():
        if record.position and (before is None or before.feeds.get(name) != record):
            moved[name] = [*sources.get(name, ()), record.source]
    doubtful = bool(moved) and not given_sources and all(places[-1].startswith("table:") for places in moved.values())
    return WatchedBatch(request.root, batch.command, batch.id, before, request.publish, {**sources, **moved}, doubtful)


def client_module(name: str) -> Any:
    """Return a module of the client; raise ImportError if it is not installed."""
    return importlib.import_module(f"openlineage.{name}")


def now() -> str:
    """Return the present moment as events have it."""
    return datetime.now(UTC).isoformat()


def datasets(sources: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield the namespaces and names of sources: places of files, or feeds. DataFrames have no names."""
    for source in sources:
        if isinstance(source, str):
            kind, separator, place = source.partition(":")
            yield NAMED_KINDS[kind](place) if separator and kind in NAMED_KINDS else named_place(source)


def named_place(place: str) -> tuple[str, str]:
    """Return the namespace and the name of a file or folder."""
    place = bare_location(split_dialect(place)[0])
    if scheme_of(place) in ("", "file"):
        return "file", str(Path(re.sub(r"^file:(//)?(?=/)", "", place)).absolute())
    authority, _, path = re.sub(r"^[^:]+://", "", place).partition("/")
    return f"{scheme_of(place)}://{authority}", path.rstrip("/") or "/"


def named_table(place: str) -> tuple[str, str]:
    """Return the namespace and the name of an Iceberg table: its catalog is a namespace."""
    catalog, _, table = place.partition("/")
    return f"iceberg://{catalog}", table


def named_topic(place: str) -> tuple[str, str]:
    """Return the namespace and the name of a topic of Kafka."""
    broker, _, topic = place.removeprefix("//").partition("/")
    return f"kafka://{broker}", topic.partition("?")[0]


NAMED_KINDS: Mapping[str, Callable[[str], tuple[str, str]]] = {
    "delta": named_place,
    "files": named_place,
    "iceberg": named_table,
    "kafka-debezium": named_topic,
    "stream": lambda query: ("spark-stream", query),
    "table": lambda name: ("spark", name),
}
"""The functions that name the tables of feeds, by their kinds."""

FURTHER.update(lineage=Lineage)
