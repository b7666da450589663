"""Import users' Python files as real modules: references and native problems, never candidates."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from cuassay.errors import CuassayError, ReferenceError_


def import_file(path: Path) -> ModuleType:
    """Return the module of `path`, importing it at most once for each content of the file.

    A file of an importable package is imported under its own dotted name. Exceptions of the
    module's own code come back as ReferenceError_ naming the line; CuassayErrors pass.
    """
    path = path.absolute()
    loaded = _already_loaded(path)
    if loaded is not None:
        return loaded
    # The dotted name of a file inside a package whose parent is on sys.path.
    parts = [path.stem] if path.stem != "__init__" else []
    folder = path.parent
    if not (folder / "__init__.py").is_file():
        dotted = None
    else:
        while (folder / "__init__.py").is_file():
            parts.insert(0, folder.name)
            folder = folder.parent
        on_path = any(entry and Path(entry).absolute() == folder for entry in sys.path)
        dotted = ".".join(parts) if on_path and all(part.isidentifier() for part in parts) else None
    try:
        if dotted is not None:
            return importlib.import_module(dotted)
        data = path.read_bytes()
        name = _PREFIX + hashlib.sha256(str(path).encode() + b"\0" + data).hexdigest()[:24]
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ReferenceError_(f"{path} cannot be imported: expected a file that ends in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and pickling look a module up by name
        try:
            # Compiled here: the loader's bytecode cache is keyed by time and could be stale.
            exec(compile(data, str(path), "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        return module
    except CuassayError:
        raise
    except (Exception, SystemExit) as failure:
        raise ReferenceError_(
            f"{path} cannot be imported: {describe_failure(failure, path)}; correct it, then try "
            "again"
        ) from failure


def _already_loaded(path: Path) -> ModuleType | None:
    """Return an importable module of `path`; files imported by path go by content instead."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(path.name):
            continue  # of thousands, hardly one is left to make a Path of
        if name != "__main__" and not name.startswith(_PREFIX) and Path(file) == path:
            return module
    return None


_PREFIX = "_cuassay_file_"


def describe_failure(failure: BaseException, path: Path) -> str:
    """Return exception type, message and the last line of `path` that it passed through."""
    kind, text = type(failure).__name__, str(failure).strip() or "no message"
    if isinstance(failure, SyntaxError):
        return f"{kind}: {failure.msg} (line {failure.lineno})"
    line, trace = None, failure.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{kind}: {text}" + (f" (line {line})" if line is not None else "")
