"""Repaired reductions and scans of Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cuassay.build.interpreter import numerics


def methods(module: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield (class, name, method) for every repaired method of ReduceOps and ScanOps."""
    language = module.tl

    def total(self: Any, value: Any) -> Any:
        summed = numerics.tree_sum(value.handle.data, self.axis, keep_dims=self.keep_dims)
        return self.to_tensor(summed, value.dtype)

    def min_max(self: Any, value: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        value = value[0] if isinstance(value, tuple) else value
        data = numerics.widen(value.handle.data)
        options = {"axis": self.axis, "keepdims": self.keep_dims}
        found = []
        if val_reduce_op is not None:
            # np.nanmax warns on blocks of NaN; fmax gives the same values silently
            quiet = {np.nanmax: np.fmax.reduce, np.nanmin: np.fmin.reduce}
            extreme = quiet.get(val_reduce_op, val_reduce_op)(data, **options)
            found.append(self.to_tensor(np.asarray(extreme), value.dtype))
        if idx_reduce_op is not None:
            # The index of the extreme number, leftmost first; all-NaN blocks give 0.
            largest = idx_reduce_op in (np.argmax, np.nanargmax)
            if data.dtype.kind == "f":
                data = np.where(np.isnan(data), -np.inf if largest else np.inf, data)
            found.append(
                self.to_tensor(
                    np.asarray((np.argmax if largest else np.argmin)(data, **options)),
                    language.int32,
                )
            )
        return tuple(found) if len(found) > 1 else found[0]

    def scan(operation: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, value: Any) -> Any:
            data = value.handle.data
            narrow = data.dtype in numerics.NARROW or data.dtype == np.float16
            output = (
                numerics.running(operation, data, self.axis)
                if narrow
                else whole(data, axis=self.axis, dtype=data.dtype)
            )
            return [self.to_tensor(output, dtype=value.dtype)]

        return run

    yield module.ReduceOps, "sum", total
    yield module.ReduceOps, "min_max", min_max
    yield module.ReduceOps, "to_tensor", _to_tensor(module)
    yield module.ScanOps, "to_tensor", _to_tensor(module)
    yield module.ScanOps, "cumsum", scan(np.add, np.cumsum)
    yield module.ScanOps, "cumprod", scan(np.multiply, np.cumprod)


def _to_tensor(module: Any) -> Callable[..., Any]:
    def to_tensor(self: Any, value: Any, dtype: Any) -> Any:
        wanted = module._get_np_dtype(dtype)
        data = np.asarray(value)
        kind = module.tl.block_type(dtype, list(data.shape)) if data.shape else dtype
        data = numerics.convert(data.reshape(data.shape or (1,)), wanted)
        return module.tl.core.tensor(module.TensorHandle(data, dtype.scalar), kind)

    return to_tensor
