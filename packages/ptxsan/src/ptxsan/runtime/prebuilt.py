"""The runtime as native object code that a wheel carries, so that nobody waits for numba.

    python -m ptxsan.runtime.prebuilt [FILE.zip]     compile all of it (a minute or two)

A file holds an ELF object for each exported function, made from numba's optimised LLVM IR for a
common processor, and a manifest that says for which sources, numba, LLVM, Python and processor.
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
from ptxsan.runtime import warming
from ptxsan.runtime.native import cache_folder, declared, exported

_MANIFEST = "manifest.json"
# What most processors of ten years have; numba would use all that this one has.
_PROCESSORS = {"x86_64": ("x86-64-v3", ("avx2", "fma", "bmi2")), "aarch64": ("generic", ())}
_ALIVE: list[Any] = []
HELPERS = (
    "ptxsan.runtime.memory",
    "ptxsan.runtime.copies",
    "ptxsan.runtime.order",
    "ptxsan.runtime.reports",
    "ptxsan.runtime.prints",
    "ptxsan.runtime.scheduler",
    "ptxsan.runtime.collectives",
    "ptxsan.runtime.floats",
    "ptxsan.runtime.shadow",
    "ptxsan.runtime.matrix",
    "ptxsan.runtime.exchange",
    "ptxsan.runtime.descriptors",
    "ptxsan.runtime.proxies",
    "ptxsan.runtime.mbarriers",
    "ptxsan.runtime.bulk_issue",
    "ptxsan.runtime.clusters",
    "ptxsan.runtime.deferred",
    "ptxsan.runtime.value_issue",
    "ptxsan.runtime.tile_issue",
    "ptxsan.runtime.heap",
    "ptxsan.runtime.textures",
)
# Only runs in the algebra need these: nobody else waits for their compilation.
ALGEBRA = ("ptxsan.runtime.algebra", "ptxsan.runtime.algebra_matrix")


@cache
def load_algebra() -> None:
    """Import what runs in the algebra need."""
    for name in ALGEBRA:
        importlib.import_module(name)


@cache
def load_helpers() -> None:
    """Import every module that exports functions to kernels."""
    for name in HELPERS:
        importlib.import_module(name)


def tag() -> str:
    """Return what a file is made for: processor, Python, numba, LLVM, digest of the sources."""
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"{platform.machine()}-{python}-{numba.__version__}-{version}-{cache_folder().name}"


def places() -> tuple[Path, ...]:
    """Return where a file may lie: in the package, or in the folder of the runtime."""
    name = f"{tag()}.zip"
    return Path(__file__).with_name("prebuilt") / name, home.runtime_dir() / name


@cache
def _opened() -> tuple[zipfile.ZipFile, dict[str, str]] | None:
    """Return the file and its manifest; None where there is none for this processor."""
    if platform.machine() not in _PROCESSORS or os.environ.get("PTXSAN_PREBUILT") == "off":
        return None
    features = llvm.get_host_cpu_features()
    if not all(features.get(one) for one in _PROCESSORS[platform.machine()][1]):
        return None
    for place in places():
        with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile):
            file = zipfile.ZipFile(io.BytesIO(place.read_bytes()))  # forked processes read it too
            manifest = json.loads(file.read(_MANIFEST))
            if manifest["tag"] == tag():
                return file, dict(manifest["symbols"])
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
    file, symbols = found
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(file.read(f"{name}.o")))
    engine.finalize_object()
    _ALIVE.append(engine)
    return int(engine.get_function_address(symbols[name]))


@cache
def _prepare() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    numba.core.registry.cpu_target.target_context.refresh()  # names numba's helpers to LLVM


def _engine() -> Any:
    _prepare()
    target = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)


def build(place: Path) -> None:
    """Compile the whole runtime into a file. Raises RuntimeError where it does not load."""
    load_helpers()
    load_algebra()
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ptxsan-") as folder:

        def compiled(name: str) -> None:
            signature, function = declared(name)
            made: Any = numba.cfunc(signature, error_model="numpy")(function)
            machine_code = _object(made.inspect_llvm())
            (Path(folder) / f"{name}.o").write_bytes(machine_code)
            (Path(folder) / f"{name}.symbol").write_text(made.native_name)

        names = exported()
        warming.together(names, compiled, count=warming.processes())
        draft = place.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as file:
            symbols_ = {one: (Path(folder) / f"{one}.symbol").read_text() for one in names}
            file.writestr(_MANIFEST, json.dumps({"tag": tag(), "symbols": symbols_}))
            for name in names:
                file.write(Path(folder) / f"{name}.o", f"{name}.o")
    tried = subprocess.run(
        [sys.executable, "-m", "ptxsan.runtime.prebuilt", "--try", str(draft)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if tried.returncode != 0:
        draft.unlink()
        raise RuntimeError(f"the prebuilt runtime does not load: {tried.stderr[-2000:]}")
    draft.replace(place)


def _object(text: str) -> bytes:
    """Return IR as machine code of the common processor."""
    _prepare()
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=_PROCESSORS[platform.machine()][0], opt=3, codemodel="jitdefault", jit=True,
        reloc="default",
    )  # fmt: skip
    return bytes(machine.emit_object(module))


def _try(place: Path) -> None:
    """Load every function of a file; LLVM ends the process where one does not load."""
    with zipfile.ZipFile(place) as file:
        for name, symbol in json.loads(file.read(_MANIFEST))["symbols"].items():
            engine = _engine()
            engine.add_object_file(llvm.ObjectFileRef.from_data(file.read(f"{name}.o")))
            engine.finalize_object()
            if not engine.get_function_address(symbol):
                raise SystemExit(f"'{name}' has no address")
            _ALIVE.append(engine)


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
