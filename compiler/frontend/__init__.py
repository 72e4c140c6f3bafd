"""The frontend: parses program files into the syntax tree of :mod:`..ir.syntax`."""

from ..dialects import Load
from .files import NotIncluded
from .reader import folder_loader, included_files, is_below, outside, read_program

__all__ = ["Load", "NotIncluded", "folder_loader", "included_files", "is_below", "outside", "read_program"]
