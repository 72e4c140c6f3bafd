"""Readers: one grammar per dialect, all of them making the same syntax."""

from .reader import Load, NotIncluded, folder_loader, is_below, outside, read_program

__all__ = ["Load", "NotIncluded", "folder_loader", "is_below", "outside", "read_program"]
