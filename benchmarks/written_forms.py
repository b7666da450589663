"""A problem's reference as other people would have written it: honest forms, and wrong ones.

A form is a set of rewrites of the operations that the reference runs. Those of `HONEST` change how
a number is rounded and nothing else: other formulas of one function, sums in another order,
intermediates in the inputs' 16-bit type. Those of `WRONG` are what kernels are found to do: sums
in 16 bits, an epsilon or a scale that is left out, a mask that is off by one. None of them shares
code with the oracle, whose mutants and programs they are held against.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from gate_trials import load_problem
from torch import Tensor
from torch._decomp import get_decompositions
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.weak import WeakTensorKeyDictionary

from cuassay.formats.execute import load_reference
from cuassay.model.problem import Problem

aten = torch.ops.aten
HALVES = (torch.bfloat16, torch.float16)
LANES = 32
HITS = {"rewrites": 0, "steps": 0}  # operations that forms have changed in this process
_LOG2E = 1.4426950408889634
_LEAST_SCALE = 1e-2  # a smaller number that is added is an epsilon
# Fused operations of torch as the steps that a compiler writes them out in.
_STEPS = get_decompositions(
    [
        aten.gelu, aten.silu, aten.mish, aten.hardswish, aten.hardsigmoid, aten._softmax,
        aten._log_softmax, aten.native_layer_norm, aten.native_group_norm, aten.softplus,
        aten.addmm, aten.log_sigmoid_forward, aten.gelu_backward, aten.silu_backward,
        aten._softmax_backward_data, aten.native_layer_norm_backward, aten.rsub, aten.addcmul,
    ]
)  # fmt: skip


def _mean(x: Tensor, **named: Any) -> Tensor:
    return x.mean(list(range(x.dim())), **named)


def _sum(x: Tensor, **named: Any) -> Tensor:
    return x.sum(list(range(x.dim())), **named)


def _variance(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    dims = [d % x.dim() for d in (dim or range(x.dim()))]
    count = math.prod(x.shape[d] for d in dims)
    squares = (x - x.mean(dims, True)).square().sum(dims, keepdim)
    return squares / (count - (1 if correction is None else int(correction)))


def _variance_and_mean(x: Tensor, dim: Any = None, **named: Any) -> tuple[Tensor, Tensor]:
    dims = [d % x.dim() for d in (dim or range(x.dim()))]
    return _variance(x, dims, **named), x.mean(dims, bool(named.get("keepdim")))


def _cut(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return float32 numbers in a 16-bit type, rounded toward zero."""
    near = x.to(dtype)
    inward = torch.nextafter(near, torch.zeros_like(near))
    return torch.where(near.float().abs() > x.float().abs(), inward, near)


def _older(steps: Callable[..., Any]) -> Callable[..., Any]:
    """Return the steps of an overload that says whether a variance is unbiased."""

    def run(x: Tensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
        return steps(x, dim, correction=int(unbiased), keepdim=keepdim)

    return run


_STEPS |= {
    aten.mean.default: _mean,
    aten.sum.default: _sum,
    aten.var.correction: _variance,
    aten.var.dim: _older(_variance),
    aten.var_mean.correction: _variance_and_mean,
    aten.var_mean.dim: _older(_variance_and_mean),
}
# What models call whole and store the result of: norms, softmax, a layer with its offset.
_WHOLE = (
    aten.native_layer_norm.default, aten.native_group_norm.default, aten.addmm.default,
    aten.native_layer_norm_backward.default, aten._softmax.default, aten._log_softmax.default,
    aten._softmax_backward_data.default, aten.softplus.default,
    aten.log_sigmoid_forward.default, aten.var.correction, aten.var.dim,
    aten.var_mean.correction, aten.var_mean.dim,
)  # fmt: skip
_PRODUCTS = (aten.mm.default, aten.bmm.default)
_SUMS = (aten.sum.dim_IntList, aten.mean.dim)
_ADDS = (aten.add.Tensor, aten.clamp_min.default)
_SCALES = (aten.mul.Tensor, aten.div.Tensor, aten.mul.Scalar, aten.div.Scalar)
# A rewrite, an operation in float32, and its other formula.
_FORMULAS: tuple[tuple[str, Any, Callable[..., Tensor]], ...] = (
    ("reciprocal", aten.div.Tensor, lambda a, b: a * (1.0 / b)),
    ("exp2", aten.exp.default, lambda a: torch.exp2(a * _LOG2E)),
    ("half_exp", aten.exp.default, lambda a: torch.exp(a.half()).float()),
    ("root", aten.rsqrt.default, lambda a: 1.0 / torch.sqrt(a)),
    ("root", aten.sigmoid.default, lambda a: 1.0 / (1.0 + torch.exp(-a))),
)
_REDUCTIONS = (
    "amax",
    "sum",
    "mean",
    "var",
    "var_mean",
    "logsumexp",
    "cumsum",
    "linalg_vector_norm",
)
_LESS = {
    aten.le: aten.lt,
    aten.lt: aten.le,
    aten.ge: aten.gt,
    aten.gt: aten.ge,
}
HONEST = {
    "written_out": "fused operations as their steps",
    "reciprocal": "a quotient as a product with 1 / b",
    "exp2": "an exponential as a power of two",
    "root": "1 / sqrt for rsqrt, and a sigmoid from its exponential",
    "lanes": "sums in 32 lanes, then across them; products split in four",
    "shuffled": "sums in a random order",
    "folded": "(x - m) s as x s - m s",
    "fma": "a product and a sum with one rounding",
    "stored": "every elementwise result in the inputs' 16-bit type",
    "stored_some": "half of them",
    "sides": "float32 tensors that meet 16-bit ones cast to their type",
}
IN_16_BITS = ("stored", "stored_some", "sides")  # what needs the policy `mixed`
WRONG = {
    "sums_in_16_bits": "sums and products kept in 16 bits",
    "no_epsilon": "a small number is not added",
    "no_scale": "a product with a number is left out",
    "off_by_one": "a comparison of integers counts its bound the other way",
    "half_exp": "exponentials in float16",
    "last_dropped": "sums without their last term",
    "tail_dropped": "sums without what a tile of 32 leaves over",
    "no_maximum": "a softmax that subtracts no maximum",
    "statistic_in_16_bits": "the result of a sum rounded to 16 bits",
    "truncated": "results cut to 16 bits in place of rounded",
}


class Rewritten(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operations in another form."""

    def __init__(self, rewrites: Sequence[str], low: torch.dtype, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rewrites, self._low, self._random = frozenset(rewrites), low, random.Random(seed)
        self._derived = WeakTensorKeyDictionary()  # tensors that follow from 16-bit ones
        self._factors = WeakTensorKeyDictionary()  # of products and differences
        self._summed = WeakTensorKeyDictionary()  # sums, and what follows from them alone
        self._whole = 0  # operations around this one that store their result alone

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operation, in its other form where a rewrite has one."""
        named = dict(kwargs or {})
        if func in _STEPS and args[0].dim():
            self._whole += func in _WHOLE
            with self:
                made = _STEPS[func](*args, **named)
            self._whole -= func in _WHOLE
            if made is not NotImplemented:
                HITS["steps"] += 1
                if func in _WHOLE:
                    return tree_map_only(Tensor, lambda one: self._noted(func, args, one), made)
                return made
        args = self._cast(func, args)
        found = self._other(func, args, named)
        if found is None:
            found = func(*args, **named)
        else:
            HITS["rewrites"] += 1
        return self._noted(func, args, found)

    def _cast(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return operands of which float32 ones that meet 16-bit ones are cast to their type.

        A sum stays in float32, and so does what makes one: decays that are added up are far off in
        16 bits.
        """
        meets = torch.Tag.pointwise in func.tags or func in _PRODUCTS
        tensors = [one for one in args if isinstance(one, Tensor)]
        if "sides" not in self._rewrites or not meets or not any(map(self._is_low, tensors)):
            return args
        HITS["rewrites"] += len(tensors) > 1
        return tuple(
            one.to(self._low).to(one.dtype)
            if isinstance(one, Tensor)
            and one.dtype is torch.float32
            and not (self._is_low(one) or self._summed.get(one))
            else one
            for one in args
        )

    def _is_low(self, one: Tensor) -> bool:
        return one.dtype in HALVES or bool(self._derived.get(one))

    def _other(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what another form of an operation gives; None where there is none."""
        first = args[0] if args else None
        if not isinstance(first, Tensor):
            return None
        if first.dtype not in (torch.float32, *HALVES):
            return None if first.is_floating_point() else self._of_integers(func, args, named)
        if func in _PRODUCTS:
            return self._product(func, first, args[1])
        for name, operation, form in _FORMULAS:
            if name in self._rewrites and func is operation and first.dtype is torch.float32:
                return form(*args)
        if func in _SUMS and first.dtype is torch.float32 and not named.get("dtype"):
            return self._sum(func, args, named)
        if func is aten.mul.Tensor and isinstance(args[1], Tensor) and "folded" in self._rewrites:
            return self._fold(first, args[1])
        if func in (aten.add.Tensor, aten.sub.Tensor) and "fma" in self._rewrites:
            return None if named.get("alpha") else self._fused(func, first, args[1])
        return self._left_out(func, args, named)

    def _left_out(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what a wrong form gives that leaves a number out."""
        rewrites, second = self._rewrites, args[1] if len(args) > 1 else None
        is_number = isinstance(second, int | float) and not isinstance(second, bool)
        if "no_epsilon" in rewrites and func in _ADDS and is_number and 0 < second < _LEAST_SCALE:
            return args[0].clone()
        if "no_scale" in rewrites and func in _SCALES and is_number and abs(second) != 1:
            return args[0].clone()
        if "truncated" in rewrites and func is aten._to_copy.default:
            return _cut(args[0], named["dtype"]) if named.get("dtype") in HALVES else None
        if "no_maximum" in rewrites and func is aten.amax.default:
            return torch.zeros_like(func(*args, **named))
        return None

    def _of_integers(self, func: Any, args: tuple[Any, ...], named: Any) -> Any:
        if "off_by_one" not in self._rewrites:
            return None
        if func.overloadpacket in _LESS:
            overload = getattr(_LESS[func.overloadpacket], func._overloadname)
            return overload(*args, **named)
        if func in (aten.tril.default, aten.triu.default):
            return func(args[0], (args[1] if len(args) > 1 else 0) + 1)
        return None

    def _terms(self, x: Tensor, dim: int) -> Tensor:
        """Return the terms of a sum along a dimension, last, those that are left out gone."""
        x = x.movedim(dim, -1)
        if "last_dropped" in self._rewrites and x.shape[-1] > 1:
            return x[..., :-1]
        if "tail_dropped" in self._rewrites and x.shape[-1] > LANES:
            return x[..., : x.shape[-1] // LANES * LANES]
        return x

    def _sum(self, func: Any, args: tuple[Any, ...], named: Any) -> Any:
        x, dims = args[0], list(args[1]) if len(args) > 1 and args[1] is not None else []
        keep = bool(args[2]) if len(args) > 2 else bool(named.get("keepdim"))
        ways = {"lanes", "shuffled", "sums_in_16_bits", "last_dropped", "tail_dropped"}
        ways |= {"statistic_in_16_bits"}
        if not ways & self._rewrites or not x.dim():
            return None
        dims = sorted(d % x.dim() for d in (dims or range(x.dim())))
        count = math.prod(x.shape[d] for d in dims)
        if count < 2:
            return None
        flat = x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))
        total = self._total(self._terms(flat, -1))
        if func is aten.mean.dim:
            total = total / count
        if "statistic_in_16_bits" in self._rewrites:
            total = total.to(self._low).float()
        for d in dims if keep else ():
            total = total.unsqueeze(d)
        return total

    def _total(self, terms: Tensor) -> Tensor:
        if "shuffled" in self._rewrites:
            order = torch.randperm(
                terms.shape[-1],
                generator=torch.Generator().manual_seed(self._random.getrandbits(32)),
            )
            return terms[..., order].contiguous().sum(-1)
        pad = -terms.shape[-1] % LANES
        lanes = torch.nn.functional.pad(terms, (0, pad)).unflatten(-1, (-1, LANES))
        if "lanes" in self._rewrites:
            return lanes.cumsum(-2)[..., -1, :].contiguous().sum(-1)
        if "sums_in_16_bits" in self._rewrites:
            total = torch.zeros_like(lanes[..., 0, :])
            for row in lanes.unbind(-2):
                total = (total + row).to(self._low).float()
            while total.shape[-1] > 1:
                half = total.shape[-1] // 2
                total = (total[..., :half] + total[..., half:]).to(self._low).float()
            return total[..., 0]
        return terms.sum(-1)

    def _product(self, func: Any, a: Tensor, b: Tensor) -> Any:
        length, rewrites = a.shape[-1], self._rewrites
        if "last_dropped" in rewrites and length > 1:
            return func(a[..., :-1].contiguous(), b[..., :-1, :].contiguous())
        if "tail_dropped" in rewrites and length > LANES:
            kept = length // LANES * LANES
            return func(a[..., :kept].contiguous(), b[..., :kept, :].contiguous())
        if "sums_in_16_bits" in rewrites or ("lanes" in rewrites and length > 3):
            step = 16 if "sums_in_16_bits" in rewrites else -(-length // 4)
            total: Tensor | None = None
            for at in range(0, length, step):
                part = func(
                    a[..., at : at + step].float().contiguous(),
                    b[..., at : at + step, :].float().contiguous(),
                )
                total = part if total is None else total + part
                if "sums_in_16_bits" in rewrites:
                    total = total.to(self._low).float()
            return None if total is None else total.to(a.dtype)
        return None

    def _fold(self, a: Tensor, b: Tensor) -> Any:
        for one, other in ((a, b), (b, a)):
            known = self._factors.get(one)
            if known is not None and known[0] == "sub" and isinstance(known[2], Tensor):
                return known[1] * other - known[2] * other
        return None

    def _fused(self, func: Any, a: Tensor, b: Any) -> Any:
        known = self._factors.get(a)
        if known is not None and known[0] == "mul":
            rest = b.double() if isinstance(b, Tensor) else b
            return func(known[1].double() * known[2], rest).float()
        return None

    def _noted(self, func: Any, args: tuple[Any, ...], found: Any) -> Any:
        """Round what is stored in 16 bits, and remember what a result is made of."""
        if not isinstance(found, Tensor) or not found.is_floating_point():
            return found
        tensors = [one for one in args if isinstance(one, Tensor) and one.is_floating_point()]
        name = func.overloadpacket.__name__
        known = len(args) == 2 and isinstance(args[0], Tensor) and found.dtype is torch.float32
        if known and name in ("mul", "sub") and args[0].dtype is torch.float32:
            self._factors[found] = (name, *args)
        if name in _REDUCTIONS:
            self._summed[found] = True
            return found
        if not any(map(self._is_low, tensors)):
            if any(map(self._summed.get, tensors)):
                self._summed[found] = True
            return found
        computed = torch.Tag.pointwise in func.tags or func in _PRODUCTS or func in _WHOLE
        computed = computed and name not in ("_to_copy", "clone", "neg", "abs", "where")
        if computed and found.dtype is torch.float32 and not self._whole:
            whole = "stored" in self._rewrites
            if whole or ("stored_some" in self._rewrites and self._random.random() < 0.5):
                stored = found.to(self._low).float()
                # Who stores float16 keeps in float32 what is beyond its range.
                if bool((stored.isfinite() | ~found.isfinite()).all()):
                    HITS["rewrites"] += 1
                    found = stored
        self._derived[found] = True
        return found


def low_type(problem: Problem) -> torch.dtype:
    """Return the 16-bit type that a kernel of a problem would store: its inputs', or bfloat16."""
    names = [getattr(getattr(one, "dtype", None), "value", "") for one in problem.inputs]
    return torch.float16 if "float16" in names else torch.bfloat16


def formed(name: str, dtype: str, rewrites: Sequence[str], seed: int) -> Callable[..., Any]:
    """Return a problem's reference in another form, as a candidate's function."""
    problem = load_problem(name, dtype)
    call, low = load_reference(problem).call, low_type(problem)

    def run(*values: Any) -> Any:
        with sdpa_kernel(SDPBackend.MATH), Rewritten(rewrites, low, seed):
            return call(*values)

    return run
