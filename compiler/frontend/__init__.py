"""Readers: one grammar per dialect, all of them making the same syntax."""

from .reader import Load, folder_loader, read_program

__all__ = ["Load", "folder_loader", "read_program"]
