"""What kernels of TritonBench are to compute, written here: their files hold no reference.

A problem is found by the name of the kernel's file. Sizes and dtypes are those that the file's own
test or its comments allow: where they state a limit, so does the problem.
"""

from __future__ import annotations

import math
from typing import Annotated

import torch
from torch.nn import functional

from cuassay.formats.native.declaration import problem, tensor
from cuassay.model.domain import Index, IntegerRange, Probability

_Flat = Annotated[torch.Tensor, tensor("float32", "n")]
_FlatOut = Annotated[torch.Tensor, tensor("float32", "n", name="made")]
_Rows = Annotated[torch.Tensor, tensor("float32", "rows", "columns")]
_RowsOut = Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="made")]
_HalfRows = Annotated[torch.Tensor, tensor("float16", "rows", "columns")]
_HalfRowsOut = Annotated[torch.Tensor, tensor("float16", "rows", "columns", name="made")]
_HalfWeight = Annotated[torch.Tensor, tensor("float16", "columns")]

_flat = problem(axes={"n": (1, 1 << 24)}, workloads=({"n": 1024}, {"n": 8192}))
_rows = problem(
    axes={"rows": (1, 65_536), "columns": (1, 16_384)},
    workloads=({"rows": 128, "columns": 512}, {"rows": 64, "columns": 4096}),
)


@_flat
def add_example(x: _Flat, y: _Flat) -> _FlatOut:
    """The sum of two vectors."""
    return x + y


vector_addition_custom = add_example


@_flat
def cosine_compute(a: _Flat) -> _FlatOut:
    """The cosine of each element."""
    return torch.cos(a)


@_flat
def sin_kernel(x: _Flat) -> _FlatOut:
    """The sine of each element."""
    return torch.sin(x)


@_flat
def relu_strided_buffer(x: _Flat) -> _FlatOut:
    """The positive part of each element."""
    return torch.relu(x)


@_flat
def isfinite_kernel(x: _Flat) -> Annotated[torch.Tensor, tensor("bool", "n", name="made")]:
    """Which elements are finite."""
    return torch.isfinite(x)


@problem(
    axes={"weights": (1, 4096), "times": (1, 4096), "n": "weights*times"},
    workloads=({"weights": 64, "times": 128},),
)
def fused_activation(
    x: Annotated[torch.Tensor, tensor("float32", "n", updated=True)],
    bias: Annotated[torch.Tensor, tensor("float32", "weights")],
    y: Annotated[torch.Tensor, tensor("float32", "n")],
) -> None:
    """In place: the sigmoid of x + y / 2 + bias, which repeats."""
    x.copy_(torch.sigmoid(x + 0.5 * y + bias.repeat(x.numel() // bias.numel())))


@_rows
def softmax_triton1(x: _Rows) -> _RowsOut:
    """Soft-max of each row."""
    return torch.softmax(x, dim=-1)


triton_softmax = softmax_optimize = softmax_triton1


@_rows
def softmax_triton3(x: _HalfRows) -> _HalfRowsOut:
    """Soft-max of each row."""
    return torch.softmax(x, dim=-1)


@_rows
def log_softmax(x: _Rows) -> _RowsOut:
    """The logarithm of the soft-max of each row."""
    return torch.log_softmax(x, dim=-1)


@problem(
    axes={"heads": (1, 256), "rows": (1, 4096), "columns": (1, 4096)},
    workloads=({"heads": 2, "rows": 64, "columns": 64},),
)
def ksoftmax_triton(
    x: Annotated[torch.Tensor, tensor("float32", "heads", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("float32", "heads", "rows", "columns", name="made")]:
    """Soft-max over the last axis."""
    return torch.softmax(x, dim=-1)


@_rows
def square_matrix(x: _Rows) -> _RowsOut:
    """The square of each element."""
    return x * x


@_rows
def l2_norm_triton1(x: _Rows) -> _RowsOut:
    """Each row over its length, with an epsilon of 1e-6 beside the sum of squares."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


@problem(
    axes={"batch": (1, 64), "rows": (1, 4096), "columns": (1, 8192)},
    workloads=({"batch": 2, "rows": 4, "columns": 1024},),
)
def rmsnorm_triton(
    x: Annotated[torch.Tensor, tensor("float16", "batch", "rows", "columns")],
    weight: _HalfWeight,
) -> Annotated[torch.Tensor, tensor("float16", "batch", "rows", "columns", name="made")]:
    """RMS norm with an epsilon of 1e-6."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * scale * weight.float()).half()


@_rows
def rmsnorm_fused_llama(x: _HalfRows, weight: _HalfWeight) -> _HalfRowsOut:
    """RMS norm with an epsilon of 1e-5."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    return (wide * scale * weight.float()).half()


@_rows
def fast_rms_layernorm(
    x: _Rows, weight: Annotated[torch.Tensor, tensor("float32", "columns")]
) -> _RowsOut:
    """RMS norm with an epsilon of 1e-5."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight


@problem(
    axes={"rows": (1, 65_536), "columns": (1, 16_384)},
    workloads=({"rows": 64, "columns": 4096}, {"rows": 32, "columns": 2048}),
)
def layer_norm_welfold(
    weight: Annotated[torch.Tensor, tensor("bfloat16", "columns")],
    bias: Annotated[torch.Tensor, tensor("bfloat16", "columns")],
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns")],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="made")]:
    """Layer norm with an epsilon of 1e-5."""
    wide = x.float()
    made = functional.layer_norm(wide, (x.shape[-1],), weight.float(), bias.float(), 1e-5)
    return made.bfloat16()


@problem(axes={"a": (1, 64), "b": (1, 512), "c": (1, 512)}, workloads=({"a": 4, "b": 32, "c": 48},))
def mean_reduction(
    x: Annotated[torch.Tensor, tensor("float32", "a", "b", "c")],
) -> Annotated[torch.Tensor, tensor("float32", "a", "c", name="made")]:
    """The mean over the second axis."""
    return x.mean(1)


@_rows
def matrix_vector_multip(
    matrix: _Rows, vector: Annotated[torch.Tensor, tensor("float32", "columns")]
) -> Annotated[torch.Tensor, tensor("float32", "rows", name="made")]:
    """The product of a matrix and a vector."""
    return matrix @ vector


@problem(
    axes={"m": (1, 4096), "n": (1, 4096), "k": (1, 4096)},
    workloads=({"m": 128, "n": 128, "k": 64},),
    precision="tf32",
)
def matmul_triton2(
    a: Annotated[torch.Tensor, tensor("float32", "m", "k")],
    b: Annotated[torch.Tensor, tensor("float32", "k", "n")],
) -> Annotated[torch.Tensor, tensor("float32", "m", "n", name="c")]:
    """The product of two matrices, in TF32 as Triton has it."""
    return a @ b


@problem(
    axes={"m": (1, 4096), "n": (1, 4096), "k": (1, 4096)},
    workloads=({"m": 256, "n": 256, "k": 128},),
)
def triton_matmul(
    a: Annotated[torch.Tensor, tensor("float16", "m", "k")],
    b: Annotated[torch.Tensor, tensor("float16", "k", "n")],
) -> Annotated[torch.Tensor, tensor("float16", "m", "n", name="c")]:
    """The product of two matrices."""
    return a @ b


@_rows
def swiglu_triton(a: _Rows, b: _Rows) -> _RowsOut:
    """silu(a) * b."""
    return functional.silu(a) * b


@problem(
    axes={"rows": (1, 65_536), "columns": (1, 16_384)}, workloads=({"rows": 128, "columns": 256},)
)
def swiglu_backward(
    xy: Annotated[torch.Tensor, tensor("float32", "rows", "2*columns")], dout: _Rows
) -> Annotated[torch.Tensor, tensor("float32", "rows", "2*columns", name="dxy")]:
    """The gradient of silu(x) * y, where x and y are the halves of each row."""
    x, y = xy.chunk(2, dim=-1)
    s = torch.sigmoid(x)
    return torch.cat((s * (1 + x * (1 - s)) * y * dout, x * s * dout), dim=-1)


@problem(
    axes={"batch": (1, 16), "heads": (1, 32), "length": (1, 4096), "size": (1, 512)},
    workloads=({"batch": 2, "heads": 4, "length": 128, "size": 64},),
)
def reversed_cumsum(
    s: Annotated[torch.Tensor, tensor("float32", "batch", "heads", "length", "size")],
) -> Annotated[torch.Tensor, tensor("float32", "batch", "heads", "length", "size", name="z")]:
    """The sum of what follows, and the element, along the third axis."""
    return s.flip(2).cumsum(2).flip(2)


@problem(
    axes={"batch": (1, 16), "heads": (1, 32), "length": (1, 16_384)},
    workloads=({"batch": 2, "heads": 4, "length": 128},),
)
def chunk_cumsum_kernel(
    s: Annotated[torch.Tensor, tensor("float32", "batch", "heads", "length")],
) -> Annotated[torch.Tensor, tensor("float32", "batch", "heads", "length", name="z")]:
    """The sum of what precedes, and the element, along the last axis."""
    return s.cumsum(-1)


@_rows
def rowwise_quantization_triton(
    x: _Rows,
) -> tuple[
    Annotated[torch.Tensor, tensor("int8", "rows", "columns", name="codes")],
    Annotated[torch.Tensor, tensor("float16", "rows", name="largest")],
]:
    """Each row as codes from -127 to 127 of its largest absolute value."""
    largest = x.abs().amax(-1)
    return torch.round(127.0 * (x / largest[:, None])).to(torch.int8), largest.half()


@_flat
def quantize_global(
    x: _Flat,
) -> tuple[
    Annotated[torch.Tensor, tensor("int8", "n", name="codes")],
    Annotated[torch.Tensor, tensor("float32", 1, name="largest")],
]:
    """Codes from -127 to 127 of the largest absolute value."""
    largest = x.abs().max().unsqueeze(0)
    return torch.round(127.0 * (x * (1.0 / largest))).to(torch.int8), largest


@_rows
def quant_transpose_kernel(
    x: _Rows,
) -> tuple[
    Annotated[torch.Tensor, tensor("int8", "columns", "rows", name="codes")],
    Annotated[torch.Tensor, tensor("float32", 1, name="largest")],
]:
    """Codes from -127 to 127 of the largest absolute value, transposed."""
    largest = x.abs().max().unsqueeze(0)
    return torch.round(127.0 * (x * (1.0 / largest))).to(torch.int8).T.contiguous(), largest


@_rows
def dequantize_rowwise(
    codes: Annotated[
        torch.Tensor, tensor("int8", "rows", "columns", domain=IntegerRange(low=-127, high=127))
    ],
    largest: Annotated[torch.Tensor, tensor("float32", "rows")],
) -> _HalfRowsOut:
    """What codes from -127 to 127 of each row's largest absolute value stand for."""
    return (largest[:, None] * codes * (1.0 / 127)).half()


@problem(
    axes={"tokens": (1, 65_536), "vocabulary": (1, 65_536), "size": (1, 4096)},
    workloads=({"tokens": 128, "vocabulary": 1000, "size": 512},),
)
def embedding_triton_kernel(
    ids: Annotated[torch.Tensor, tensor("int32", "tokens", domain=Index(axis="vocabulary"))],
    weight: Annotated[torch.Tensor, tensor("float32", "vocabulary", "size")],
) -> Annotated[torch.Tensor, tensor("float32", "tokens", "size", name="made")]:
    """The rows of a table that tokens name."""
    return weight[ids.long()]


@problem(
    axes={"rows": (1, 4096), "columns": (1, 16_384)}, workloads=({"rows": 64, "columns": 1000},)
)
def kldiv_ops(
    predicted: _Rows,
    target: Annotated[
        torch.Tensor, tensor("float32", "rows", "columns", domain=Probability(axis=-1))
    ],
) -> Annotated[torch.Tensor, tensor("float32", name="loss")]:
    """The divergence of targets from predicted logarithms, by batch; epsilon 1e-10."""
    terms = target * (torch.log(target.clamp_min(1e-10)) - predicted)
    return terms.sum() / predicted.shape[0]


@problem(
    axes={"batch": (1, 8), "heads": (1, 32), "length": (1, 2048), "half": (1, 128)},
    workloads=({"batch": 2, "heads": 4, "length": 16, "half": 32},),
)
def rope_embedding(
    q: Annotated[torch.Tensor, tensor("float32", "batch", "heads", "length", "2*half")],
    cos: Annotated[torch.Tensor, tensor("float32", "length", "half")],
    sin: Annotated[torch.Tensor, tensor("float32", "length", "half")],
) -> Annotated[torch.Tensor, tensor("float32", "batch", "heads", "length", "2*half", name="made")]:
    """Rotary position embedding, by halves."""
    first, second = q.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


@problem(
    axes={"batch": (1, 8), "heads": (1, 32), "length": (1, 2048), "half": (1, 128)},
    workloads=({"batch": 2, "heads": 4, "length": 128, "half": 32},),
)
def rotary_transform(
    x: Annotated[torch.Tensor, tensor("float32", "batch", "length", "heads", "2*half")],
    cos: Annotated[torch.Tensor, tensor("float32", "length", "half")],
    sin: Annotated[torch.Tensor, tensor("float32", "length", "half")],
) -> Annotated[torch.Tensor, tensor("float32", "batch", "length", "heads", "2*half", name="made")]:
    """Rotary position embedding, by halves."""
    first, second = x.chunk(2, dim=-1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1)


@_rows
def triton_argmax(x: _Rows) -> Annotated[torch.Tensor, tensor("int64", "rows", name="index")]:
    """Where the largest element of each row is."""
    return x.argmax(-1)


@problem(
    axes={
        "batch": (1, 16), "channels": (1, 64), "height": (3, 128), "width": (3, 128),
        "out_channels": (1, 128),
    },
    workloads=({"batch": 1, "channels": 3, "height": 32, "width": 32, "out_channels": 16},),
)  # fmt: skip
def triton_conv2d_fwd(
    x: Annotated[torch.Tensor, tensor("float32", "batch", "channels", "height", "width")],
    weight: Annotated[torch.Tensor, tensor("float32", "out_channels", "channels", 3, 3)],
) -> Annotated[
    torch.Tensor, tensor("float32", "batch", "out_channels", "height-2", "width-2", name="made")
]:
    """A convolution of 3 x 3."""
    return functional.conv2d(x, weight)


@problem(
    axes={"heads": (1, 64), "length": (1, 4096), "size": 64},
    workloads=({"heads": 2, "length": 256},),
)
def int8_quantization(
    k: Annotated[torch.Tensor, tensor("float32", "heads", "length", "size")],
) -> tuple[
    Annotated[torch.Tensor, tensor("int8", "heads", "length", "size", name="codes")],
    Annotated[torch.Tensor, tensor("float32", "heads", "(length+63)//64", 1, name="scale")],
]:
    """Blocks of 64 rows as codes from -127 to 127 of each block's largest absolute value."""
    heads, length, size = k.shape
    blocks = math.ceil(length / 64)
    padded = functional.pad(k, (0, 0, 0, blocks * 64 - length)).view(heads, blocks, 64, size)
    scale = padded.abs().amax((2, 3)) / 127.0
    codes = padded / scale[:, :, None, None]
    codes = torch.trunc(codes + torch.where(codes >= 0, 0.5, -0.5)).to(torch.int8)
    return codes.view(heads, -1, size)[:, :length].contiguous(), scale[..., None]


@problem(
    axes={"batch": (1, 8), "length": (1, 64), "size": (1, 256)},
    workloads=({"batch": 2, "length": 4, "size": 64},),
)
def bmm_chunk_fwd(
    a: Annotated[torch.Tensor, tensor("float16", "batch", "32*length", "size")],
    b: Annotated[torch.Tensor, tensor("float16", "batch", "32*length", "size")],
) -> Annotated[torch.Tensor, tensor("float16", "batch", "length", 32, 32, name="made")]:
    """The products of rows with rows, in chunks of 32 rows."""
    batch, length, size = a.shape
    left, right = (x.reshape(batch, length // 32, 32, size) for x in (a, b))
    return left @ right.transpose(-1, -2)
