"""Record the calls of a function or module in a running program, as inputs for a problem.

`recording("package.module:function", "folder")` is a context manager; `cuassay loop capture` runs a
whole program under it. Tensors are copied before the call, since the call may change them, and
kept as safetensors; numbers are kept as numbers; nothing is pickled.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import logging
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cuassay.errors import UnknownNameError, UsageError

LIST = "calls.jsonl"
_LOG = logging.getLogger("cuassay")
_MOST_BYTES = 2**30  # of one call


class CallRecorder:
    """Keeps calls below a folder: at most `calls`, those with new shapes first.

    Half of the places are held for shapes that were not seen yet. Safe to call from any thread.
    """

    def __init__(self, folder: Path, *, calls: int) -> None:
        self.folder, self._left = folder, calls
        self._repeats = calls - calls // 2
        self._seen: set[object] = set()
        self._lock = threading.Lock()
        self.kept = 0
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, target: str, arguments: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Keep one call where there is room for it; a failure costs the call, not the program."""
        signature = tuple(
            (
                name,
                str(getattr(value, "dtype", type(value).__name__)),
                tuple(getattr(value, "shape", ())),
            )
            for name, value in arguments.items()
        )
        with self._lock:
            new = signature not in self._seen
            if not self._left or not (new or self._repeats):
                return
            self._seen.add(signature)
            self._left -= 1
            self._repeats -= not new
        try:
            self._write(target, arguments, state)
        except Exception as error:
            _LOG.warning(
                "a call of %s was not recorded: %s: %s", target, type(error).__name__, error
            )

    def _write(self, target: str, arguments: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        from safetensors.torch import save_file

        tensors: dict[str, Any] = {}
        listed = [_entry(name, value, "argument", tensors) for name, value in arguments.items()]
        listed += [_entry(name, value, "state", tensors) for name, value in state.items()]
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        if size > _MOST_BYTES:
            raise ValueError(f"its tensors hold {size} bytes, at most {_MOST_BYTES} are kept")
        name = f"call-{os.getpid()}-{secrets.token_hex(4)}.safetensors"
        temporary = self.folder / f".{name}"
        save_file(tensors, temporary)
        temporary.replace(self.folder / name)
        line = {"schema": "cuassay/recorded/1", "target": target, "file": name, "arguments": listed}
        data = (json.dumps(line) + "\n").encode()
        with self._lock:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self.folder / LIST, flags, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
            self.kept += 1


@contextlib.contextmanager
def recording(target: str, folder: str | Path, *, calls: int = 8) -> Iterator[CallRecorder]:
    """Record calls of `MODULE:NAME` while the block runs; NAME may be dotted.

    A class of torch.nn.Module records its instances' forward calls, with their parameters,
    buffers and numbers. Names that other modules imported before stay as they were: enter the
    block before they are imported. Raises UsageError or UnknownNameError for the target.
    """
    owner, name, found = _located(target)
    recorder = CallRecorder(Path(folder).expanduser().absolute(), calls=calls)
    if inspect.isclass(found):
        if not callable(getattr(found, "forward", None)):
            raise UsageError(f"'{target}' is a class without forward; name one of its methods")
        owner, name, found = found, "forward", found.forward  # type: ignore[attr-defined]
    is_method = inspect.isclass(owner)
    try:
        signature = inspect.signature(found)
    except ValueError:
        raise UsageError(f"'{target}' tells no parameters; wrap it in a Python function") from None

    @functools.wraps(found)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        with contextlib.suppress(TypeError):  # the call itself says what is wrong with it
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            given = dict(bound.arguments)
            own = given.pop(next(iter(given)), None) if is_method and given else None
            recorder.keep(target, given, _state(own))
        return found(*arguments, **options)

    setattr(owner, name, wrapped)
    try:
        yield recorder
    finally:
        setattr(owner, name, found)


def _located(target: str) -> tuple[Any, str, Any]:
    """Return the owner, the attribute and the object of a target."""
    module_name, colon, path = target.partition(":")
    if not colon or not path:
        raise UsageError(f"'{target}' names no function; expected MODULE:NAME, such as pkg.ops:rms")
    try:
        owner: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(f"module '{module_name}' cannot be imported: {error}") from None
    *parts, name = path.split(".")
    for part in (*parts, name):
        if not hasattr(owner, part):
            raise UnknownNameError(
                f"name in {target.partition(':')[0]}",
                part,
                [name for name in dir(owner) if not name.startswith("_")],
            )
        if part != name or part in parts:
            owner = getattr(owner, part)
    found = inspect.getattr_static(owner, name)
    if not (callable(found) or inspect.isclass(found)):
        raise UsageError(f"'{target}' is a {type(found).__name__}, expected a function or a module")
    return owner, name, found


def _state(module: Any) -> dict[str, Any]:
    """Return the tensors and numbers of a module, by their names with _ for dots."""
    if not hasattr(module, "named_parameters"):
        return {}
    found = {n: v for n, v in vars(module).items() if isinstance(v, bool | int | float)}
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        found[name.replace(".", "_")] = value
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _entry(name: str, value: Any, kind: str, tensors: dict[str, Any]) -> dict[str, Any]:
    """Return what is written of an argument; its tensor goes to `tensors`."""
    if hasattr(value, "detach") and hasattr(value, "element_size"):
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"name": name, "kind": kind, "key": name}
    if value is None or isinstance(value, bool | int | float):
        return {"name": name, "kind": kind, "value": value}
    return {"name": name, "kind": kind, "value": None, "was": type(value).__name__}
