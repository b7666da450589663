"""What torch asks of sizes is answered without sympy, in the thread that asked for it alone."""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import torch
from torch.fx.experimental import symbolic_shapes

from cuassay import without_sympy
from cuassay.dispatch_modes import without_memory

_LOADED = (
    "import sys, torch\n"
    "from cuassay.dispatch_modes import without_memory\n"
    "x = torch.empty(3, 4)\n"
    "index = torch.zeros(3, dtype=torch.long)\n"
    "f = torch.nn.functional\n"
    "def run():\n"
    "    y = torch.cat((x, x), -1).to(torch.bfloat16).cos() * 2.0 + 1\n"
    "    z = f.silu(f.layer_norm(x, (4,))).softmax(-1) @ x.t()\n"
    "    w = torch.where(x > 0, x, 0.0).sum(-1, keepdim=True) / x.pow(2).mean().rsqrt()\n"
    "    return y, z, w, x[index].cumsum(0), x.topk(2)[0], f.rms_norm(x, (4,)), x.chunk(2, -1)[1]\n"
    "print([tuple(t.shape) for t in without_memory(run)])\n"
    "print([name for name in ('sympy', 'torch._dynamo') if name in sys.modules])\n"
)


def test_sizes_of_common_operations_load_neither_sympy_nor_the_compiler() -> None:
    """Two seconds of imports before the first truth, four where nothing was ever compiled."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=False
    )
    shapes = [(3, 8), (3, 3), (3, 1), (3, 4), (3, 2), (3, 4), (3, 2)]
    assert done.stdout.splitlines() == [str(shapes), "[]"], done.stderr


def test_no_function_is_called_that_loads_sympy_itself() -> None:
    """One such call in a check had all sides of a trial wait 0.4 s."""
    source = Path(without_sympy.__file__).parent
    calls = [path for path in source.rglob("*.py") if "torch.unravel_index(" in path.read_text()]
    assert not calls, "use cuassay.oracle.compare.groups.unravel"


def test_stand_ins_answer_as_torch_does() -> None:
    known = without_sympy._OF_SYMBOLS
    for flag in (True, False):
        for name in ("guard_or_false", "guard_or_true", "statically_known_true", "expect_true"):
            assert known[name](flag) is getattr(symbolic_shapes, name)(flag)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            assert known["guard_size_oblivious"](flag) is symbolic_shapes.guard_size_oblivious(flag)
        for other in (True, False):
            for name in ("sym_and", "sym_or"):
                assert known[name](flag, other, flag) == getattr(symbolic_shapes, name)(
                    flag, other, flag
                )
    pairs: list[tuple[object, object]] = [
        (3, 3),
        (3, 4),
        ((1, 2), [1, 2]),
        ((1, 2), (1, 3)),
        ((1,), (1, 2)),
    ]
    for left, right in pairs:
        assert known["sym_eq"](left, right) == symbolic_shapes.sym_eq(left, right)
    alike = "is_nested_int has_guarding_hint guarding_hint_or_throw has_hint hint_int guard_int"
    alike += " size_hint is_concrete_int is_symbolic guard_scalar"
    for name in alike.split():  # other versions of torch have others of these
        if hasattr(symbolic_shapes, name):
            assert known[name](7) == getattr(symbolic_shapes, name)(7), name
    assert not symbolic_shapes.free_unbacked_symbols(7)
    assert not known["free_unbacked_symbols"](7)


def test_what_is_not_known_of_numbers_is_asked_of_the_module() -> None:
    stand_in = without_sympy._STAND_INS["torch.fx.experimental.symbolic_shapes"]
    assert stand_in.ShapeEnv is symbolic_shapes.ShapeEnv


def test_other_threads_import_as_usual_and_nothing_is_left_behind() -> None:
    usual = builtins.__import__
    found: list[object] = []

    def other() -> None:
        code = "import sympy\nfound.append(sympy)"
        exec(code, {"__name__": "torch._refs", "found": found})  # as a function of torch would

    with without_sympy.sizes_are_numbers():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with without_sympy.sizes_are_numbers():
            assert builtins.__import__ is not usual
        here = importlib.import_module("sympy")  # for this module, which is none of torch's
        assert found == [here]
    assert builtins.__import__ is usual
    assert without_memory(lambda: (torch.empty(2, 3) * 2).sum(-1)).shape == (2,)
