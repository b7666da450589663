"""A Triton kernel that assumes something of its stride."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def kernel(x, rows, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.assume(stride % BLOCK == 0)
    tl.assume(row < rows)
    at = row * stride + tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at))
