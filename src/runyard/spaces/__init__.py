"""Workspaces of attempts, and files and folders as a whole."""

from __future__ import annotations

from runyard.spaces.files import read_text, whole_file
from runyard.spaces.folders import OldFolder, Workspaces, old, prune_empty, task_folder
from runyard.spaces.trees import clear_errors, copy_tree, inside, measure, near, remove_tree
from runyard.spaces.walking import DEPTH, Found, OutOfReach, SpaceUsage, read_file, usage, walk

__all__ = [  # noqa: RUF022  grouped: workspaces, paths and folders, cleaning up
    "Workspaces", "task_folder",
    "inside", "near", "whole_file", "copy_tree", "remove_tree", "clear_errors", "walk", "Found",
    "DEPTH", "read_file", "read_text", "usage", "SpaceUsage", "OutOfReach",
    "old", "OldFolder", "prune_empty", "measure",
]  # fmt: skip
