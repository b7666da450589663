"""The runtime as native object code that a wheel carries, so that nobody waits for numba.

    python -m ptxsan.runtime.prebuilt [FILE.zip]     compile all of it (half a minute of two cores)

A file holds ELF objects, each with the exports of some modules and all that they call
(linking.py), and a manifest that says for which sources, numba, LLVM, Python and processor.
What does not match is not loaded: then numba compiles, as it does without a file. Loading runs in
MCJIT, as kernels do; it is tried in a process of its own before a file is kept, since LLVM ends
the process where a symbol is missing.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba

from ptxsan import home
from ptxsan.runtime import linking, warming
from ptxsan.runtime.native import cache_folder, declared, exported

_MANIFEST = "manifest.json"
_ALIVE: list[Any] = []  # kernels hold addresses of functions, whatever file is read later
# What most processors of ten years have; numba would use all that this one has.
_PROCESSORS = {"x86_64": ("x86-64-v3", ("avx2", "fma", "bmi2")), "aarch64": ("generic", ())}
# The modules that export functions to kernels, in pieces that share next to nothing: each is one
# object and compiles on its own processor. What takes longest stands first.
_PIECES = {
    "memory": (
        "memory",
        "copies",
        "mbarriers",
        "bulk_issue",
        "clusters",
        "value_issue",
        "launch_control",
        "tile_issue",
    ),
    "matrix": ("matrix", "sparse"),
    "tensor": ("tensor_memory", "tensor_products"),
    "threads": ("scheduler", "order", "deferred", "reports", "prints", "proxies", "heap"),
    "values": ("floats", "shadow", "exchange", "collectives", "descriptors", "textures"),
    "algebra": ("algebra", "algebra_matrix"),
}


@cache
def load_algebra() -> None:
    """Import what runs in the algebra need: nobody else waits for its compilation."""
    _load("algebra")


@cache
def load_helpers() -> None:
    """Import every other module that exports functions to kernels."""
    for piece in _PIECES:
        if piece != "algebra":
            _load(piece)


def _load(piece: str) -> None:
    for name in _PIECES[piece]:
        importlib.import_module(f"ptxsan.runtime.{name}")


def tag() -> str:
    """Return what a file is made for: processor, Python, numba, LLVM, digest of the sources."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{platform.machine()}-{python}-{numba.__version__}-{version}-{cache_folder().name}"


def places() -> tuple[Path, ...]:
    """Return where a file may lie: in the package, or in the folder of the runtime."""
    name = f"{tag()}.zip"
    return Path(__file__).with_name("prebuilt") / name, home.runtime_dir() / name


def _may_be() -> bool:
    """Whether a file may be used here: this processor is a common one, and nobody forbids it."""
    if platform.machine() not in _PROCESSORS or os.environ.get("PTXSAN_PREBUILT") == "off":
        return False
    features = llvm.get_host_cpu_features()
    return all(features.get(one) for one in _PROCESSORS[platform.machine()][1])


@cache
def _opened() -> tuple[zipfile.ZipFile, dict[str, tuple[str, str]]] | None:
    """Return the file, with the object and symbol of each function; None where none fits."""
    if not _may_be():
        return None
    for place in places():
        with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):
            file = zipfile.ZipFile(io.BytesIO(place.read_bytes()))  # forked processes read it too
            manifest = json.loads(file.read(_MANIFEST))
            if manifest["tag"] == tag():
                return file, {
                    name: (piece, symbol)
                    for piece, symbols in manifest["pieces"].items()
                    for name, symbol in symbols.items()
                }
    return None


def names() -> tuple[str, ...]:
    """Return the functions that a file for this processor has; none where there is no file."""
    found = _opened()
    return () if found is None else tuple(found[1])


@cache
def address(name: str) -> int | None:
    """Return the address of an exported function; None where no file has it."""
    found = _opened()
    if found is None or name not in found[1]:
        return None
    piece, symbol = found[1][name]
    return int(_loaded(piece).get_function_address(symbol))


@cache
def _loaded(piece: str) -> Any:
    """Return the engine that holds an object of the file."""
    found = _opened()
    assert found is not None
    return _engine(found[0].read(f"{piece}.o"))


@cache
def _prepare() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    numba.core.registry.cpu_target.target_context.refresh()  # names numba's helpers to LLVM


def _engine(code: bytes) -> Any:
    _prepare()
    target = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _ALIVE.append(engine)
    return engine


def make() -> None:
    """Build a file in the folder of the runtime, in other processes; none where that fails.

    Processes are forked: call it where that is safe.
    """
    place = places()[1]
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
    if _may_be() and os.access(place.parent, os.W_OK):
        warming.apart(lambda: build(place))
    for kept in (_opened, _loaded, address):
        kept.cache_clear()


def build(place: Path) -> None:
    """Compile the whole runtime into a file, in a process that is for nothing else (linking.py).

    Raises RuntimeError where it does not load.
    """
    load_helpers()
    load_algebra()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ptxsan-") as folder:

        def compiled(piece: str) -> None:
            modules = [f"ptxsan.runtime.{name}" for name in _PIECES[piece]]
            names = [one for one in exported() if declared(one)[1].__module__ in modules]
            code, symbols = linking.object_of(names, _PROCESSORS[platform.machine()][0])
            (Path(folder) / f"{piece}.o").write_bytes(code)
            (Path(folder) / f"{piece}.json").write_text(json.dumps(symbols))

        warming.together(tuple(_PIECES), compiled, count=warming.processes())
        draft = place.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as file:
            pieces = {
                one: json.loads((Path(folder) / f"{one}.json").read_text()) for one in _PIECES
            }
            for piece in _PIECES:
                file.write(Path(folder) / f"{piece}.o", f"{piece}.o")
            file.writestr(_MANIFEST, json.dumps({"tag": tag(), "pieces": pieces}))
    tried = subprocess.run(
        [sys.executable, "-P", "-m", "ptxsan.runtime.prebuilt", "--try", str(draft)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if tried.returncode != 0:
        draft.unlink()
        raise RuntimeError(f"the prebuilt runtime does not load: {tried.stderr[-2000:]}")
    draft.replace(place)


def _try(place: Path) -> None:
    """Load every function of a file; LLVM ends the process where one does not load."""
    with zipfile.ZipFile(place) as file:
        for piece, symbols in json.loads(file.read(_MANIFEST))["pieces"].items():
            engine = _engine(file.read(f"{piece}.o"))
            for name, symbol in symbols.items():
                if not engine.get_function_address(symbol):
                    raise SystemExit(f"'{name}' has no address")


def _main(arguments: list[str]) -> None:
    """Build a file that fits, unless there is one; with a path build it there anew."""
    match arguments:
        case ["--try", place]:
            _try(Path(place))
        case [place]:
            build(Path(place))
        case _:
            if _opened() is None:
                build(places()[1])


if __name__ == "__main__":
    _main(sys.argv[1:])
