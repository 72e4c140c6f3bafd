"""Read files that are compressed with zstd."""

from __future__ import annotations

import io
from typing import Any


class CompressedDamage(OSError):
    """A compressed file that cannot be decompressed to its end."""


class Decompressed(io.RawIOBase):
    """The bytes that a file compressed with zstd contains; it can have several frames."""

    def __init__(self, content: Any) -> None:
        """Take the opened file, which is closed with this one."""
        import pyarrow as pa

        super().__init__()
        self._content, self._damage = content, (OSError, pa.ArrowException)
        self._stream = pa.CompressedInputStream(pa.PythonFile(content, "r"), "zstd")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer and return their number; raise CompressedDamage if the file is damaged."""
        try:
            found: bytes = self._stream.read(len(buffer))
        except self._damage as error:
            raise CompressedDamage(str(error)) from error
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._content.close()
        super().close()
