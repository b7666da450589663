"""Bytecode of packages that have none: one process of a candidate compiles them, the others read.

No process of a candidate writes where packages lie. Where an installer or an image left bytecode
out, each of them would compile all that the candidate imports, which takes seconds a process.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import cuassay


def keep_bytecode(folder: Path) -> None:
    """Keep bytecode of modules that have none below `folder`, from now on in this process.

    For the moment in which a candidate is loaded: what lies there any of its processes may have
    written. The candidate's own sources, in `folder/src`, have no bytecode at all: what runs is
    always the text that is judged. Modules of cuassay never come from there.
    """
    importer: Any = importlib.import_module("_frozen_importlib_external")
    usual, kept = importlib.util.cache_from_source, f"{folder}{os.sep}bytecode"
    sources = f"{folder}{os.sep}src{os.sep}"
    ours = f"{Path(cuassay.__file__).parent}{os.sep}"

    def place(path: str, debug_override: None = None, *, optimization: Any = None) -> str:
        if path.startswith(sources):
            raise NotImplementedError  # which the importer takes for: no bytecode
        found = usual(path, debug_override, optimization=optimization)
        return found if path.startswith(ours) or os.path.exists(found) else kept + found

    importer.cache_from_source = place
    sys.dont_write_bytecode = False
