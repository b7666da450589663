"""Triton kernels whose products lie in tensor memory on sm_100.

Compiled in a process of their own: where Triton's interpreter has run, its compiler is patched.
"""

# mypy: ignore-errors
import json
import sys

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a, b, c, depth, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """C = A B, step by step along K."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), c.dtype.element_ty)
    for k in range(0, depth, K):
        x = tl.load(a + rows[:, None] * depth + k + inner[None, :])
        y = tl.load(b + (k + inner[:, None]) * N + columns[None, :])
        total = tl.dot(x, y, total, out_dtype=c.dtype.element_ty)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def attention(q, k, v, c, length, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Attention: the second product has a factor that threads made."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(q + rows[:, None] * K + inner[None, :])
    total = tl.zeros((M, K), tl.float32)
    top, weight = tl.full((M,), -1e30, tl.float32), tl.zeros((M,), tl.float32)
    for n in range(0, length, N):
        y = tl.load(k + (n + columns[None, :]) * K + inner[:, None])
        scores = tl.dot(x, y)
        new = tl.maximum(top, tl.max(scores, 1))
        p, shrink = tl.exp(scores - new[:, None]), tl.exp(top - new)
        weight = weight * shrink + tl.sum(p, 1)
        z = tl.load(v + (n + columns[:, None]) * K + inner[None, :])
        total = tl.dot(p.to(tl.float16), z, total * shrink[:, None])
        top = new
    tl.store(c + rows[:, None] * K + inner[None, :], total / weight[:, None])


def compiled(name, types, constants):
    """Return a kernel's PTX for sm_100, its name there and its bytes of shared memory."""
    kernel = {"product": product, "attention": attention}[name]
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if name in types},
    )
    target = GPUTarget("cuda", 100, 32)
    made = triton.compile(source, target=target, options={"num_warps": 4, "num_stages": 3})
    return {"ptx": made.asm["ptx"], "name": made.metadata.name, "shared": made.metadata.shared}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(compiled(*json.loads(sys.argv[1]))))
