"""A built extension as a module."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from pathlib import Path


def import_library(name: str, library: Path) -> types.ModuleType:
    """Import a shared library as the module `name`. Raises ImportError where it does not load."""
    import torch  # noqa: F401  (the libraries that the module links must be loaded before it)

    from cuassay.build.cuda.host_lines import HOST_LINES
    from cuassay.build.recording.ledger import LEDGER

    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    spec = importlib.util.spec_from_file_location(name, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    LEDGER.follow(library)
    HOST_LINES.follow(library)
    return module
