"""A Spark standalone cluster on this machine: a master and workers, each a JVM, from the installed PySpark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyspark

from golden_tests.faults.runner import family, kill_family

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
LONGEST_START = 60.0


class Cluster:
    """A running cluster; every worker has one core. ``folder`` gets logs and the workers' files."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        """Start it, and wait until all workers have registered."""
        self.folder = folder
        folder.mkdir(parents=True)
        self.environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            started = self._start("master", "Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.url = self._said("master", r"Starting Spark master at (spark://\S+)", started)
            self.workers = [self._start_worker(number) for number in range(workers)]
            for number, worker in enumerate(self.workers):
                self._said(f"worker-{number}", "Successfully registered with master", worker)
        except BaseException:
            self.stop()
            raise

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        size = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
        place = ("--host", "127.0.0.1", "--work-dir", str(self.folder / f"work-{number}"))
        return self._start(f"worker-{number}", "worker.Worker", *size, *place, self.url)

    def _start(self, name: str, class_name: str, *arguments: str) -> subprocess.Popen[bytes]:
        full = f"org.apache.spark.deploy.{class_name if '.' in class_name else f'master.{class_name}'}"
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                [SPARK_CLASS, full, *arguments], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def log(self, name: str) -> Path:
        """What a process has said."""
        return self.folder / f"{name}.log"

    def _said(self, name: str, pattern: str, process: subprocess.Popen[bytes]) -> str:
        """Wait until a process says something; returns the first group of the pattern, or all of it."""
        end = time.monotonic() + LONGEST_START
        while time.monotonic() < end:
            found = re.search(pattern, self.log(name).read_text(encoding="utf-8"))
            if found:
                return found[1] if found.groups() else found[0]
            assert process.poll() is None, self.log(name).read_text(encoding="utf-8")[-2000:]
            time.sleep(0.1)
        raise AssertionError(f"{name} does not start: {self.log(name).read_text(encoding='utf-8')[-2000:]}")

    def worker_of(self, pid: int) -> subprocess.Popen[bytes]:
        """The worker that a process runs under."""
        parents = {parent.pid for parent in psutil.Process(pid).parents()}
        return next(worker for worker in self.workers if worker.pid in parents)

    def kill(self, worker: subprocess.Popen[bytes]) -> int:
        """Kill a worker, its executors and their Python processes at once; returns how many processes these were."""
        members = len(family(worker.pid))
        kill_family(worker.pid)
        worker.wait()
        return members

    def stop(self) -> None:
        """End everything."""
        for process in self.processes:
            if process.poll() is None:
                kill_family(process.pid)
                process.wait()
