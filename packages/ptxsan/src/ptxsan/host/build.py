"""A CUDA translation unit to a shared library for the host and PTX for the machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ptxsan.errors import CompileError, UsageError
from ptxsan.host.device import DeviceCode, compile_device
from ptxsan.host.expand import Source, asks_for_nvrtc, expand
from ptxsan.host.split import Rename, Split, split
from ptxsan.host.tokens import tokenize
from ptxsan.nvrtc import cub_headers, include_folders

NATIVE = Path(__file__).parent / "native"
_TIMEOUT_S = 900.0
_FUNCTIONS, _VARIABLES = "tTwWiu", "dDbBrRvVuGgsS"
ANCHOR = "cuda_host_anchor"
_CONCURRENT = frozenset({
    "cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority",
    "cuda_host_per_thread", "cudaMallocHost", "cudaHostAlloc", "cudaMallocManaged",
    "cudaHostRegister", "cudaGraphLaunch", "cudaLaunchKernelExC", "cudaMallocAsync",
    "cudaFreeAsync",
})  # fmt: skip
# Where a compiler links libstdc++ as an archive, every library keeps its copy to itself: of facets
# of locales, which a process has once, a program would get those of another copy, and fail.
_OWN_ARCHIVES = "-Wl,--exclude-libs,ALL"
# A library that needs the runtime takes the one that is loaded, wherever that lies. Its symbols
# carry its name as a version: NVIDIA's runtime, which a torch for CUDA loads for the whole process,
# has functions of the same names and would be called in their place.
_RUNTIME_FLAGS = (
    "-O1", "-std=c++17", "-fPIC", "-shared", "-w", "-Wl,--default-symver", "-Wl,-Bsymbolic",
    _OWN_ARCHIVES,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a unit is compiled.

    `prelude` is included first in the host's text, as a file for which a precompiled header may
    lie beside; `first` are include folders before all others, where headers stand in for the
    toolkit's; `defines`, `folders` and `host_flags`, `device_flags` are the program's own.
    Device code is compiled for `arch` (sm_100a), else for sm_90, or sm_90a where it needs that.
    `expanded` are macros that headers define which are not the program's own, and that say what
    its functions are. `rename` rewords tokens of the host's text; `device_prelude` is text before
    the device's where that names one of `device_words`, `device_headers` are headers that it may
    include.
    """

    arch: str = ""
    prelude: Path = NATIVE / "cuda_host.h"
    first: tuple[Path, ...] = ()
    system: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    host_flags: tuple[str, ...] = ()
    device_flags: tuple[str, ...] = ()
    rename: Rename | None = None
    device_prelude: str = ""
    device_words: frozenset[str] = frozenset()
    device_headers: Mapping[str, str] | None = None
    compiler: str = "g++"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A unit's object file and its PTX (empty where it defines no kernel).

    `names` say what symbols of the object are called in the PTX.
    """

    object: Path
    ptx: str
    names: Mapping[str, str]


def find_compiler() -> str:
    """Return the C++ compiler: $CXX or g++. Raises UsageError where there is none."""
    wanted = os.environ.get("CXX") or "g++"
    if shutil.which(wanted) is None:
        raise UsageError(f"the C++ compiler '{wanted}' was not found: install g++ or set CXX")
    return wanted


def compile_unit(path: Path, folder: Path, options: Options) -> Compiled:
    """Compile a .cu file; what is made lies in `folder`. Raises CompileError with the log."""
    folder.mkdir(parents=True, exist_ok=True)
    system = (*options.system, *map(Path, include_folders()))
    source = Source(
        path=path, folders=options.folders, defines=(*options.defines, *options.expanded),
        system=system, compiler=options.compiler,
    )  # fmt: skip
    host_text = expand(source, folder / "host", arch="")
    # The host may have to know the device's functions by name, as with libraries of templates,
    # which have a form for NVRTC; and bodies that are `__host__ __device__` in name may be the
    # device's alone in fact.
    library = asks_for_nvrtc(folder / "host")
    ways = [(True, False), (True, True), (False, False)]  # both, declared
    target = folder / f"{path.name}.o"
    parted = _host_code(host_text, sorted(ways, key=lambda way: way[1] != library), path, target,
                        options, system)  # fmt: skip
    if not parted.kernels:
        return Compiled(object=target, ptx="", names={})
    # The functions that an object file defines, by their C++ names.
    symbols = _demangled([name for _, _, kind, name in _table(target) if kind in _FUNCTIONS])
    kernels = {
        name: expression
        for name, plain in symbols.items()
        if (expression := _called(plain)).split("<", 1)[0] in parted.kernels
    }
    wanted = tuple(dict.fromkeys(one for one in kernels.values() if one.endswith(">")))
    try:
        found = _device_code(source, folder / "device", options, wanted, nvrtc=library)
    except CompileError as first:
        if not library:
            raise
        try:
            found = _device_code(source, folder / "nvcc", options, wanted, nvrtc=False)
        except CompileError:
            raise first from None
    names = {name: found.names.get(one, name) for name, one in kernels.items()}
    names = _matched(names, kernels, found.ptx)
    # NVRTC takes a name for one in the current folder.
    ptx = found.ptx.replace(f'"{Path.cwd() / path.name}"', f'"{path}"')
    return Compiled(object=target, ptx=ptx, names=names)


def _host_code(
    text: str, ways: Sequence[tuple[bool, bool]], path: Path, target: Path, options: Options,
    system: Sequence[Path],
) -> Split:  # fmt: skip
    """Compile the host's part in the first way that compiles. Raises the first way's error."""
    first: CompileError | None = None
    tried: set[str] = set()
    for both, declared in ways:
        parted = split(text, rename=options.rename, both=both, declared=declared)
        if parted.host in tried:
            continue
        tried.add(parted.host)
        try:
            _compile_host(parted, path, target, options, system)
        except CompileError as error:
            first = first or error
        else:
            return parted
    assert first is not None
    raise first


def _device_code(
    source: Source, scratch: Path, options: Options, wanted: tuple[str, ...], *, nvrtc: bool
) -> DeviceCode:
    device = split(expand(source, scratch, arch=options.arch or "sm_90", nvrtc=nvrtc))
    texts = (device.device, *wanted) if options.device_words else ()
    words = {token.text for token in tokenize(" ".join(texts))}
    prelude = options.device_prelude if words & options.device_words else ""
    return compile_device(
        device.device, wanted, doubtful=device.doubtful, name=source.path.name,
        arch=options.arch, flags=options.device_flags, prelude=prelude,
        headers=options.device_headers,
    )  # fmt: skip


_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


def _matched(names: Mapping[str, str], kernels: Mapping[str, str], ptx: str) -> dict[str, str]:
    """Return the names with those that the PTX lacks replaced by its kernel of that expression.

    Kernels of internal linkage, and those that take a type which has another name on the device,
    are mangled differently.
    """
    entries = _ENTRY.findall(ptx)
    if all(name in entries for name in names.values()):
        return dict(names)
    plain = _demangled(entries)
    by_expression: dict[str, list[str]] = {}
    for entry in entries:
        expression = _called(plain[entry])
        by_expression.setdefault(expression, []).append(entry)
    found = {}
    for symbol, name in names.items():
        others = by_expression.get(kernels[symbol], [])
        found[symbol] = name if name in entries or len(others) != 1 else others[0]
    return found


def _compile_host(
    parted: Split, path: Path, target: Path, options: Options, system: Sequence[Path]
) -> None:
    unit = target.with_suffix(".cpp")
    unit.write_text(parted.host, encoding="utf-8")
    command = [options.compiler, "-x", "c++", "-fPIC", "-w", "-fno-strict-aliasing"]
    if parted.declared:  # nvcc takes names that change their meaning in a class
        command += ["-fpermissive", "-DCUDA_HOST_DECLARED"]
    command += [*host_options(options, system), "-include", str(options.prelude)]
    if parted.cub:  # its templates give one name two meanings, which g++ 12 refuses
        headers = target.with_suffix(".cub")
        for name, text in cub_headers().items():
            (headers / name).parent.mkdir(parents=True, exist_ok=True)
            (headers / name).write_text(text, encoding="utf-8")
        command += [f"-I{headers}", "-include", str(NATIVE / "cub_host.h"), "-fpermissive"]
    command += [f"-iquote{path.parent}", *(f"-I{one}" for one in options.folders)]
    command += [*(f"-D{one}" for one in options.defines), "-c", str(unit), "-o", str(target)]
    run_compiler(command, f"{path.name} does not compile for the host", {str(unit): path.name})


def host_options(options: Options, system: Sequence[Path]) -> list[str]:
    """Return what a precompiled header and the units that use it have in common."""
    own = options.host_flags
    standard = [] if any(flag.startswith("-std") for flag in own) else ["-std=c++20"]
    folders = [f"-I{one}" for one in (*options.first, NATIVE)]
    folders += [part for one in system for part in ("-isystem", str(one))]
    return ["-O0", *standard, *own, *folders]


def run_compiler(command: Sequence[str], what: str, shown: Mapping[str, str] | None = None) -> None:
    """Run a compiler or linker. Raises CompileError with its log, paths shown as in `shown`."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise CompileError(what, f"the compiler took more than {_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        log = (done.stdout + done.stderr).decode(errors="replace")
        for path, name in (shown or {}).items():
            log = log.replace(path, name)
        raise CompileError(what, log)


def shared_runtime(compiler: str) -> Path:
    """Return the CUDA runtime's library that all programs of this user share, made if need be."""
    from ptxsan.home import runtime_dir

    sources = [file for file in sorted(NATIVE.iterdir()) if file.is_file()]
    texts = [" ".join((compiler, *_RUNTIME_FLAGS)).encode(), *(one.read_bytes() for one in sources)]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()[:20]
    return runtime_library(runtime_dir() / f"host-{digest}", compiler=compiler)


def runtime_library(folder: Path, *, compiler: str = "g++") -> Path:
    """Return the CUDA runtime's library, compiled into `folder` unless it lies there."""
    library = folder / "libcuda_host.so"
    if not library.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".libcuda_host.{uuid.uuid4().hex}"  # others may be at it as well
        command = [compiler, *_RUNTIME_FLAGS, f"-Wl,-soname,{library.name}"]
        command += [f"-I{one}" for one in include_folders()]
        command += [*map(str, sorted(NATIVE.glob("*.cpp"))), "-o", str(draft)]
        run_compiler(command, "the CUDA runtime for the host does not compile")
        draft.replace(library)
    return library


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A library of host code: what the machine has to know of its symbols.

    `functions` and `variables` are (offset from the anchor, bytes, name, module); `module` numbers
    `modules`, the PTX texts. Names are those in the PTX. `is_concurrent`: it makes streams or
    memory that the host and the device share, so that something may run at once.
    """

    library: str
    is_concurrent: bool
    modules: tuple[str, ...]
    functions: tuple[tuple[int, int, str, int], ...]
    variables: tuple[tuple[int, int, str, int], ...]

    @staticmethod
    def read(library: Path) -> Linked:
        """Return what `link` wrote beside a library."""
        document = json.loads(_beside(library).read_text(encoding="utf-8"))
        rows = {
            key: tuple((int(a), int(b), str(c), int(d)) for a, b, c, d in document[key])
            for key in ("functions", "variables")
        }
        return Linked(
            library=str(library), is_concurrent=bool(document["is_concurrent"]),
            modules=tuple(map(str, document["modules"])), **rows,
        )  # fmt: skip


def _beside(library: Path) -> Path:
    return library.with_suffix(".ptx.json")


def link(
    units: Sequence[Compiled],
    library: Path,
    *,
    runtime: Path,
    objects: Sequence[Path] = (),
    flags: Sequence[str] = (),
    compiler: str = "g++",
) -> Linked:
    """Link units and other objects into a shared library. Raises CompileError with the log."""
    anchor = library.with_suffix(".anchor.cpp")
    anchor.write_text(f'extern "C" __attribute__((visibility("default"))) char {ANCHOR} = 0;\n')
    draft = library.with_suffix(".draft")
    command = [compiler, "-shared", "-fPIC", "-w", "-Wl,-Bsymbolic", _OWN_ARCHIVES]
    command += [*(str(unit.object) for unit in units), *map(str, objects), str(anchor)]
    command += [str(runtime), f"-Wl,-rpath,{runtime.parent}", *flags, "-o", str(draft)]
    run_compiler(command, "the program does not link")
    modules = tuple(dict.fromkeys(unit.ptx for unit in units if unit.ptx))
    owners = {
        symbol: (name, modules.index(unit.ptx))
        for unit in units
        for symbol, name in unit.names.items()
    }
    # Name and module of the device's variables by the symbols of the host's. Those of
    # internal linkage are mangled differently, and several units may have one of a name:
    # they are in the order of the units, in which the linker lays them down.
    known: dict[str, list[tuple[str, int]]] = {}
    for unit in units:
        if not unit.ptx:
            continue
        names = _demangled(_VARIABLE.findall(unit.ptx))
        symbols = [symbol for _, _, kind, symbol in _table(unit.object) if kind in _VARIABLES]
        by_plain = {_INTERNAL.sub("", plain): name for name, plain in names.items()}
        for symbol, plain in _demangled(symbols).items():
            name = symbol if symbol in names else by_plain.get(_INTERNAL.sub("", plain))
            if name is not None:
                known.setdefault(symbol, []).append((name, modules.index(unit.ptx)))
    functions, variables, origin = [], [], 0
    for offset, size, kind, symbol in sorted(_table(draft)):
        if symbol == ANCHOR:
            origin = offset
        elif symbol in owners and kind in _FUNCTIONS:
            functions.append((offset, size, *owners[symbol]))
        elif kind in _VARIABLES and size and known.get(symbol):
            variables.append((offset, size, *known[symbol].pop(0)))
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", str(draft)],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=True,
    )  # fmt: skip
    wanted = {
        line.split()[-1].partition("@")[0] for line in done.stdout.splitlines() if line.strip()
    }
    linked = Linked(
        library=str(library),
        is_concurrent=not _CONCURRENT.isdisjoint(wanted),
        modules=modules,
        functions=tuple((offset - origin, size, name, m) for offset, size, name, m in functions),
        variables=tuple((offset - origin, size, name, m) for offset, size, name, m in variables),
    )
    _beside(library).write_text(json.dumps(asdict(linked)), encoding="utf-8")
    draft.replace(library)
    return linked


_VARIABLE = re.compile(
    r"^\s*(?:\.(?:visible|weak|extern|common)\s+)*\.(?:global|const)\b[^;={\n]*?([\w$]+)\s*[\[;=]",
    re.MULTILINE,
)
_INTERNAL = re.compile(r"\b_INTERNAL_\w+::|\(anonymous namespace\)::")


def _table(binary: Path) -> list[tuple[int, int, str, str]]:
    """Return offset, bytes, kind and name of the symbols that a binary defines (nm's format)."""
    done = subprocess.run(
        ["nm", "--defined-only", "-S", str(binary)],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=True,
    )  # fmt: skip
    rows = []
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) == 4:
            rows.append((int(words[0], 16), int(words[1], 16), words[2], words[3]))
    return rows


def _demangled(names: Sequence[str]) -> dict[str, str]:
    done = subprocess.run(  # -r: names of libraries of templates nest deeper than its limit
        ["c++filt", "-r"], input="\n".join(names), capture_output=True, text=True,
        timeout=_TIMEOUT_S, check=True,
    )  # fmt: skip
    return dict(zip(names, done.stdout.splitlines(), strict=True))


def _called(plain: str) -> str:
    """Return `ns::scale<float, 4>` of `void ns::scale<float, 4>(float*, int)`."""
    text = plain.replace("(anonymous namespace)::", "")
    end, start = len(text), 0
    opened: list[str] = []
    for place, letter in enumerate(text):
        if letter == "(" and not opened and place:
            end = place
            break
        if letter in "<([":
            opened.append(letter)
        elif letter in ")]" or (letter == ">" and opened and opened[-1] == "<"):
            # A `>` in parentheses compares, and that of `->` does neither.
            if opened and text[place - 1 : place + 1] != "->":
                opened.pop()
        elif letter == " " and not opened:
            start = place + 1
    return _FUNCTION_ARGUMENT.sub(lambda found: _called(found["function"]), text[start:end])


# `&(float ns::silu<float>(float const&))`: a function among the template's arguments.
_FUNCTION_ARGUMENT = re.compile(r"&\((?P<function>[^()]*\([^()]*\))\)")
