"""A broker of Kafka on this machine, from Maven Central."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from golden_tests import maven

HERE = Path(__file__).parent
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{inner}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{inner}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Broker:
    """A broker in a folder; it can be stopped, and started again with what it had."""

    def __init__(self, folder: Path) -> None:
        """Format the folder and start."""
        self.folder = folder
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            other.bind(("127.0.0.1", 0))
            self.port, inner = one.getsockname()[1], other.getsockname()[1]
        folder.mkdir(parents=True)
        self.settings = folder / "server.properties"
        self.settings.write_text(SETTINGS.format(port=self.port, inner=inner, folder=folder), encoding="utf-8")
        self.process: subprocess.Popen[bytes] | None = None
        done = subprocess.run(
            self.java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self.settings)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.start()

    @property
    def hosts(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def java(self, *arguments: str) -> list[str]:
        """A command of Kafka."""
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return [
            maven.java(),
            "-Xmx256m",
            quiet,
            "-cp",
            f"{maven.jars(HERE / 'broker' / 'pom.xml', 'kafka')}/*",
            *arguments,
        ]

    def start(self, seconds: float = 60.0) -> None:
        """Start, and wait until it answers."""
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(self.java("kafka.Kafka", str(self.settings)), stdout=log, stderr=log)
        end = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, (self.folder / "log.txt").read_text(encoding="utf-8")[-2000:]
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < end, "the broker does not answer"
                time.sleep(0.1)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the broker; what it was sent stays."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker for as long as it is needed."""
    broker = Broker(folder)
    try:
        yield broker
    finally:
        broker.stop()
