"""HDFS on this machine, from Maven Central."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flintlog.runtime.system.places import place_of

from golden_tests import maven

HERE = Path(__file__).parent
MANAGER = "org.apache.hadoop.test.MiniDFSClusterManager"


class Cluster:
    """A name node and a data node that keep their files in a folder."""

    def __init__(self, folder: Path) -> None:
        """Start, and wait until they answer."""
        jars = maven.jars(HERE / "hdfs" / "pom.xml", "hdfs")
        folder.mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.pages = free.getsockname()[1]
        details = folder / "details.json"
        command = [maven.java(), "-Xmx512m", f"-Dtest.build.data={folder}/data", "-cp", f"{jars}/*", MANAGER]
        command += ["-format", "-httpport", str(self.pages), "-writeDetails", str(details)]
        with (folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        end = time.monotonic() + 120
        while True:
            assert self.process.poll() is None, (folder / "log.txt").read_text(encoding="utf-8")[-2000:]
            try:
                self.host = f"127.0.0.1:{json.loads(details.read_bytes())['namenode_port']}"
                break
            except (OSError, ValueError):
                assert time.monotonic() < end, "HDFS does not answer"
                time.sleep(0.1)

    def place(self, path: str) -> Path:
        """A place in it."""
        return place_of(f"hdfs://{self.host}{path}")

    def forced(self) -> tuple[int, int]:
        """How many blocks the data node has written, and how often it has forced one to the disk. It counts anew every
        ten seconds."""
        time.sleep(11)
        query = "Hadoop:service=DataNode,name=DataNodeActivity-*"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.pages}/jmx?qry={query}") as answer:
            (counts,) = json.loads(answer.read())["beans"]
        return counts["BlocksWritten"], counts["FsyncCount"]

    def stop(self) -> None:
        """End both."""
        self.process.kill()
        self.process.wait(60)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """HDFS for as long as it is needed."""
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()
