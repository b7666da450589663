"""The command: `ptxsan run k.cu --kernel scale --grid 4 --block 256 --arg ...`."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ptxsan.errors import PtxsanError, UsageError

OK, FOUND, USAGE, NO_VERDICT = 0, 1, 2, 3
MOST_DEVICES = 16  # of runtime/layout.py, which is not loaded for --help
_EPILOG = """\
Arguments, one --arg for each parameter of the kernel, in their order (names are for the report):
  --arg x=f32[1000]        an array of normal random numbers (integers: 0 to 99)
  --arg y=out:f32[1000]    memory that nobody has written: the kernel's output
  --arg z=zeros:i32[8,8]   zeros; ones: and iota: (0, 1, 2...) likewise
  --arg w=@weights.npy     an array from a file
  --arg n=1000 --arg a=0.5 numbers, of the parameter's own type
  --arg p=null             a null pointer; p=hex:01ff... the bytes of a struct
Types: f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool.

Exit codes: 0 nothing is wrong, 1 something is (another code: --error-exitcode), 2 the command or
the source is off, 3 the launch could not be executed to its end.

A whole program runs with its own host code when no --grid is given (g++ compiles that):
  ptxsan run program.cu -- arguments of the program
Every launch is executed with every check on; a clean run ends with the program's own exit code.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    program: list[str] = []
    if "--" in given:
        program = given[given.index("--") + 1 :]
        given = given[: given.index("--")]
    options = _parser().parse_args(given)
    try:
        chosen: Callable[[argparse.Namespace, list[str]], int] = options.verb
        return chosen(options, program)
    except PtxsanError as error:
        print(f"ptxsan: {error}", file=sys.stderr)  # noqa: T201
        return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ptxsan", description="Execute CUDA kernels on a CPU and say what is wrong with them."
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser(
        "run", help="execute a kernel, or a whole program, with every check on", epilog=_EPILOG,
        description="Execute a kernel with every check on: bounds, alignment, uninitialised "
        "memory, races and missing fences, barriers, deadlocks, precision.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    run.add_argument("file", type=Path, nargs="+",
                     help=".cu, .ptx, or .py with CuPy, Triton or Numba; a whole program may have "
                     "several .cu and .cpp")  # fmt: skip
    run.add_argument("--kernel", default="", help="its name; scale<float> instantiates a template")
    run.add_argument("--grid", type=_sizes, help="blocks: 4, or 4,2,1")
    run.add_argument("--block", type=_sizes, help="threads: 256, or 16,16")
    run.add_argument("--cluster", type=_sizes, default=(1,), help="blocks of a cluster")
    run.add_argument("--shared", type=int, default=0, metavar="BYTES", help="dynamic shared memory")
    run.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC", help="see below")
    run.add_argument(
        "--arch",
        default="",
        help="compile for it, and take its limits: sm_75, sm_90a, sm_100a... (default: compiled "
        "for sm_80, a whole program for sm_90, or sm_90a where the source needs it; limits of "
        "sm_90)",
    )
    run.add_argument(
        "--flag",
        action="append",
        default=[],
        help="of the compiler: --flag=-DN=8, --flag=-Iinclude, --flag=-std=c++20",
    )
    run.add_argument("--schedules", type=int, default=1, metavar="N",
                     help="orders of blocks, warps and lanes to try: 1 to 32")  # fmt: skip
    run.add_argument("--devices", type=_devices, default=1, metavar="N",
                     help="GPUs that a whole program finds: 1 to 16, whose launches run at "
                     "once")  # fmt: skip
    run.add_argument("--no-debug-build", action="store_true",
                     help="do not compare with the build without optimisation (-G)")  # fmt: skip
    run.add_argument(
        "--strict-order",
        action="store_true",
        help="strong accesses (volatile, relaxed, atomics) that nothing orders, and fences that "
        "are missing, are errors; without it they are notes",
    )
    run.add_argument("--seed", type=int, default=0, help="of the random contents of arrays")
    run.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    run.add_argument("--trace", action="store_true", help="print which lines ran")
    run.add_argument("--json", action="store_true", help="print the report as JSON")
    run.add_argument("--sarif", type=Path, metavar="FILE", help="write the findings as SARIF 2.1.0")
    run.add_argument("--error-exitcode", type=int, default=FOUND, metavar="CODE")
    run.set_defaults(verb=_run)
    listing = verbs.add_parser("kernels", help="list the kernels of a file and their parameters")
    listing.add_argument("file", type=Path)
    listing.add_argument("--arch", default="")
    listing.add_argument("--flag", action="append", default=[])
    listing.set_defaults(verb=_list)
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(one) for one in re.split(r"[,x]", text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}'; expected 4, or 4,2,1") from None


def _devices(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_DEVICES:
        raise argparse.ArgumentTypeError(f"'{text}'; expected 1 to {MOST_DEVICES}")
    return int(text)


def _run(options: argparse.Namespace, program: list[str]) -> int:
    if options.grid is None:
        return _run_program(options, program)
    if len(options.file) > 1:
        raise UsageError(f"{len(options.file)} files; expected one, which has the kernel")
    if options.devices > 1:
        raise UsageError(
            "--devices is for a whole program; leave out --grid, or call ptxsan.ranks.check"
        )
    import numpy as np

    from ptxsan import api
    from ptxsan.arguments import parsed
    from ptxsan.options import Options

    rng = np.random.default_rng(options.seed)
    report = api.check(
        options.file[0], options.kernel, grid=options.grid, block=options.block,
        args=dict(parsed(one, rng) for one in options.arg), shared_bytes=options.shared,
        cluster=options.cluster, arch=options.arch, flags=options.flag,
        schedules=api.schedules(options.schedules), debug=not options.no_debug_build,
        options=Options(limit_s=options.limit), strict_order=options.strict_order,
    )  # fmt: skip
    from ptxsan import reporting

    if options.sarif is not None:
        options.sarif.write_text(reporting.sarif(report, str(options.file[0])), encoding="utf-8")
    if options.json:
        print(json.dumps(reporting.document(report), indent=2))  # noqa: T201
    else:
        if options.trace:
            for line in reporting.trace(report):
                print(line)  # noqa: T201
        print(report.text)  # noqa: T201
    if report.wrong:
        return int(options.error_exitcode)
    return NO_VERDICT if report.inconclusive else OK


def _run_program(options: argparse.Namespace, program: list[str]) -> int:
    from ptxsan import api, programs

    parts = [name for name in ("kernel", "block", "arg", "shared") if getattr(options, name)]
    if parts or any(file.suffix != ".cu" for file in options.file):
        raise UsageError(
            "--grid is missing; expected --grid BLOCKS --block THREADS, such as --grid 4 "
            "--block 256 (without --grid, --kernel and --arg a .cu file is a whole program)"
        )
    if options.trace:
        raise UsageError("--trace is for one kernel; give --kernel, --grid and --block")
    wish = programs.Wish(
        paths=options.file, arguments=program, flags=options.flag,
        schedules=api.schedules(options.schedules), launch_limit_s=options.limit,
        limit_s=max(600.0, 10 * options.limit), strict_order=options.strict_order,
        devices=options.devices, arch=options.arch,
    )  # fmt: skip
    report = programs.run_whole(wish)
    if options.sarif is not None:
        options.sarif.write_text(programs.sarif(report, options.file[0]), encoding="utf-8")
    if options.json:
        print(json.dumps(programs.document(report), indent=2))  # noqa: T201
    else:
        print(programs.text(report))  # noqa: T201
    return programs.exit_code(report, found=options.error_exitcode)


def _list(options: argparse.Namespace, program: list[str]) -> int:
    from ptxsan import sources
    from ptxsan.names import plain_name
    from ptxsan.parser import parse

    found = sources.of_file(options.file, arch=options.arch, flags=options.flag)
    module = parse(found.ptx)
    for name in module.entries:
        parameters = module.functions[name].params
        types = ", ".join(
            one.type if one.count == 1 else f"{one.type}[{one.count}]" for one in parameters
        )
        print(f"{plain_name(name)}({types})  {name}")  # noqa: T201
    return OK


if __name__ == "__main__":
    sys.exit(main())
