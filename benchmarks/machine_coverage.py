"""How much of other people's compiled CUDA the PTX machine can execute.

    python benchmarks/machine_coverage.py --ptx FILE... [--triton NAME=WHEEL...]

Bodies: PTX files (benchmarks/coverage_cccl.cu compiled by nvcc with -DPART_BLOCK, _FLOAT, _INT:
CCCL's device and block algorithms) and the Triton kernels of packages, compiled for sm_80 with
signatures guessed from their parameters' names. Counted: instructions that parse and translate,
spellings, entries that translate whole. The block algorithms are also executed, with everything
watched, and their results compared with numpy. To benchmarks/results/machine-coverage-cpu.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, machine

from ptxsan import codegen
from ptxsan.errors import MachineError
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.run import run

_BLOCKS, _THREADS, _ITEMS = 2, 128, 4
_TYPES = {"f32": np.float32, "i32": np.int32, "f64": np.float64, "i64": np.int64}


@contextmanager
def _noting(missing: Counter[str]) -> Iterator[None]:
    """Let translation go on after an instruction that has no meaning, and note its spelling."""
    real: Any = codegen._instruction

    def noting(cx: Any) -> None:
        try:
            real(cx)
        except MachineError as error:
            missing[f"{cx.ins.opcode}: {str(error).partition(': ')[2][-90:]}"] += 1

    codegen._instruction = noting
    try:
        yield
    finally:
        codegen._instruction = real


class Census:
    """Counts of one body."""

    def __init__(self) -> None:
        self.entries = self.whole = self.instructions = self.translated = 0
        self.spellings: set[str] = set()
        self.missing: Counter[str] = Counter()
        self.unparsed: list[str] = []

    def add(self, text: str) -> None:
        """Count the entries of one PTX text."""
        try:
            module = parse(text)
        except MachineError as error:
            self.unparsed.append(str(error)[:160])
            return
        for entry in module.entries:
            self.entries += 1
            self._entry(module, entry)

    def _entry(self, module: Any, entry: str) -> None:
        missing: Counter[str] = Counter()
        try:
            program = build(module, entry)
            with _noting(missing):
                codegen.generate(program, Options())
        except MachineError as error:
            missing[f"whole entry: {error}"[:120]] += 1
            self.instructions += len(module.functions[entry].body)
            self.missing += missing
            return
        self.instructions += len(program.body)
        self.translated += len(program.body) - missing.total()
        self.spellings |= {one.opcode for one in program.body}
        self.whole += not missing
        self.missing += missing

    def result(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        return {
            "entries": self.entries,
            "entries_translated_whole": self.whole,
            "instructions": self.instructions,
            "instructions_translated": self.translated,
            "share": round(self.translated / max(1, self.instructions), 5),
            "spellings": len(self.spellings),
            "missing": dict(self.missing.most_common(20)),
            "not_parsed": self.unparsed,
        }


def _want(name: str, x: Any) -> Any:
    """Return what a kernel of coverage_cccl.cu must leave in y, or None for its first words."""
    tiles = x.reshape(_BLOCKS, -1)
    kept = tiles.reshape(_BLOCKS, _THREADS, _ITEMS)
    match name:
        case "reduce_raking" | "reduce_warps":
            return tiles.sum(1)
        case "scan_raking":
            return tiles.cumsum(1).ravel()
        case "scan_warps":  # loaded and stored striped
            blocked = kept.transpose(0, 2, 1).reshape(_BLOCKS, _ITEMS, _THREADS)
            line = blocked.transpose(0, 2, 1).reshape(_BLOCKS, -1)
            sums = np.cumsum(line, 1) - line
            return sums.reshape(_BLOCKS, _THREADS, _ITEMS)
        case "radix_sort" | "merge_sort":
            return np.sort(tiles, 1).ravel()
        case "differences":
            return np.concatenate([tiles[:, :1], np.diff(tiles, axis=1)], 1).ravel()
        case "exchange":
            return kept.reshape(_BLOCKS, _ITEMS, _THREADS).transpose(0, 2, 1).ravel()
        case "warp_reduce":
            return kept[:, :, 0].reshape(-1, 32).max(1)
        case "warp_sort":
            return np.sort(tiles.reshape(-1, 32 * _ITEMS), 1).ravel()
    raise ValueError(name)


def execute(text: str) -> dict[str, Any]:
    """Execute the block algorithms of a PTX text; return entries, lines and what was found."""
    module, executed, lines, wrong = parse(text), 0, [0, 0], {}
    rng = np.random.default_rng(0)
    known = [entry for entry in module.entries if entry.rpartition("_")[2] in _TYPES]
    for entry in known:
        name, _, type_ = entry.rpartition("_")
        x = rng.integers(-50, 50, _BLOCKS * _THREADS * _ITEMS).astype(_TYPES[type_])
        y = Buffer(name="y", data=np.zeros(x.nbytes, np.uint8))
        given = Buffer(name="x", data=x.view(np.uint8).copy())
        launch = Launch(
            kernel=entry, grid=(_BLOCKS, 1, 1), block=(_THREADS, 1, 1),
            arguments=(Pointer(buffer=given), Pointer(buffer=y)),
        )  # fmt: skip
        report = run(module, launch)
        body = build(module, entry).body
        every = {one.line for one in body}
        lines[0] += len(every)
        lines[1] += len(every & report.statistics.executed_lines)
        if report.inconclusive or report.wrong:
            wrong[entry] = report.inconclusive or report.wrong[0].text
            continue
        want = _want(name, x)
        found = y.data.view(x.dtype)[: want.size]
        if name != "scan_warps" and not np.array_equal(found, want.ravel()):
            wrong[entry] = "differs from numpy"
            continue
        executed += 1
    return {
        "entries": len(known), "executed_right": executed, "wrong": wrong,
        "ptx_lines": lines[0], "ptx_lines_executed": lines[1],
    }  # fmt: skip


def _kernels(package: str) -> Iterator[Any]:
    """Yield every Triton function that a package's modules define."""
    from triton.runtime.jit import JITFunction

    seen: set[str] = set()
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        try:
            module = importlib.import_module(found.name)
        except BaseException:
            continue
        for value in vars(module).values():
            inner = value
            while not isinstance(inner, JITFunction) and hasattr(inner, "fn"):
                inner = inner.fn
            if isinstance(inner, JITFunction) and inner.fn.__module__ == found.name:
                key = f"{inner.fn.__module__}.{inner.fn.__qualname__}"
                if key not in seen:
                    seen.add(key)
                    yield inner


def _guess(function: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Return a signature and constants, guessed from the names of a kernel's parameters."""
    signature: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for one in function.params:
        low = one.name.lower()
        if one.is_constexpr:
            signature[one.name] = "constexpr"
            constants[one.name] = _constant(low)
        elif (
            "stride" in low
            or low.startswith(("n_", "num", "batch", "seq"))
            or low in ("m", "n", "k")
        ):
            signature[one.name] = "i32"
        elif any(
            sign in low for sign in ("eps", "scale", "alpha", "beta", "prob", "offset", "softcap")
        ):
            signature[one.name] = "fp32" if "ptr" not in low else "*fp32"
        elif "ptr" in low or len(low) <= 3 or low in ("out", "input", "output"):
            signature[one.name] = (
                "*i64" if any(s in low for s in ("ids", "idx", "target")) else "*fp32"
            )
        else:
            signature[one.name] = "i32"
    return signature, constants


def _constant(low: str) -> Any:
    if any(sign in low for sign in ("block", "tile", "size", "_n", "_m", "_k", "dim", "bs")):
        return 32
    if any(sign in low for sign in ("dtype", "type")):
        import triton.language as tl

        return tl.float32
    if low.startswith(("is_", "has_", "use_", "with_")):
        return False
    return 16


def _compiled(function: Any) -> str:
    """Return the PTX of a Triton function for sm_80."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, constants = _guess(function)
    places = {(function.arg_names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=function, signature=signature, constexprs=places)
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": 4})
    return str(made.asm["ptx"])


def triton_body(package: str, most: int, keep: Callable[[dict[str, Any]], None]) -> None:
    """Take the census of a package's Triton kernels; `keep` gets it after each of them."""
    from cuassay.build.machine.triton_kernels import _stop_at_ptx

    _stop_at_ptx(importlib.import_module("triton.backends.nvidia.compiler").CUDABackend)
    census, tried, reasons = Census(), 0, Counter[str]()
    for function in _kernels(package):
        if tried >= most:
            break
        tried += 1
        try:
            text = _compiled(function)
        except BaseException as error:
            reasons[type(error).__name__] += 1
            continue
        before = census.whole
        census.add(text)
        print(function.fn.__qualname__, "whole" if census.whole > before else "NOT WHOLE")
        keep(census.result() | {"functions": tried, "not_compiled": dict(reasons)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ptx", nargs="*", type=Path, default=[])
    parser.add_argument("--triton", nargs="*", default=[], metavar="NAME=WHEEL")
    parser.add_argument("--most", type=int, default=400)
    arguments = parser.parse_args()
    out = RESULTS / "machine-coverage-cpu.json"
    found = json.loads(out.read_text()) if out.exists() else {"bodies": {}}
    found["machine"] = machine()
    for file in arguments.ptx:
        census, text = Census(), file.read_text()
        census.add(text)
        found["bodies"][file.stem] = census.result()
        if "scan_raking_f32" in text:
            found["bodies"][file.stem]["executed"] = execute(text)
        print(file.stem, json.dumps(found["bodies"][file.stem], indent=1), flush=True)
        out.write_text(json.dumps(found, indent=1) + "\n")
    for one in arguments.triton:
        name, _, wheel = one.partition("=")
        sys.path.insert(0, wheel)

        def keep(result: dict[str, Any], name: str = name, wheel: str = wheel) -> None:
            found["bodies"][name] = result | {"from": Path(wheel).name}
            out.write_text(json.dumps(found, indent=1) + "\n")

        triton_body(name, arguments.most, keep)
        print(name, json.dumps(found["bodies"].get(name), indent=1), flush=True)


if __name__ == "__main__":
    main()
