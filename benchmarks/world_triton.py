"""What is judged of libraries in Triton: the name, the problem, and one expression over its inputs."""

from __future__ import annotations

from collections.abc import Iterator

from world_kernels import ALL, HALVES, Adapter

from cuassay.catalog import registry

# name | problem | what is imported | expression. Inputs that a kernel overwrites are copied first.
_LIGER = """
swiglu | swiglu | liger_kernel.ops.swiglu swiglu_forward | swiglu_forward(gate, up)[2]
swiglu_backward | swiglu_backward | liger_kernel.ops.swiglu swiglu_backward | swiglu_backward(gate.clone(), up.clone(), grad_output)
geglu | geglu | liger_kernel.ops.geglu geglu_forward | geglu_forward(gate, up)[2]
geglu_backward | geglu_backward | liger_kernel.ops.geglu geglu_backward | geglu_backward(gate.clone(), up.clone(), grad_output)
relu_squared | world:relu_squared | liger_kernel.ops.relu_squared relu_squared_forward | relu_squared_forward(x)
rms_norm_llama | rmsnorm | liger_kernel.ops.rms_norm rms_norm_forward | rms_norm_forward(x, weight, eps, 0.0, "llama", None)[0]
rms_norm_gemma | world:rmsnorm_from_zero | liger_kernel.ops.rms_norm rms_norm_forward | rms_norm_forward(x, weight, eps, 1.0, "gemma", None)[0]
rms_norm_plain | world:rmsnorm_plain | liger_kernel.ops.rms_norm rms_norm_forward | rms_norm_forward(x, None, eps, 0.0, "llama", None)[0]
add_rms_norm_llama | fused_add_rmsnorm | liger_kernel.ops.fused_add_rms_norm fused_add_rms_norm_forward | fused_add_rms_norm_forward(x, residual, weight, eps, 0.0, "llama")[:2]
softmax | world:softmax | liger_kernel.ops.softmax _softmax_forward | _softmax_forward(x)[0]
group_norm | groupnorm | liger_kernel.ops.group_norm group_norm_forward | group_norm_forward(x, x.shape[1], 32, weight, bias, eps)[0]
layer_norm | layernorm | liger_kernel.ops.layer_norm layer_norm_forward | layer_norm_forward(x, weight, bias, eps)[0]
llama4_rope | rope_interleaved | liger_kernel.ops.llama4_rope llama4_rope_forward | tuple(t[0] for t in llama4_rope_forward(q[None], k[None], torch.complex(cos, sin)[position_ids]))
"""
_CONCH = """
silu_and_mul | swiglu | conch.ops.activation.silu_and_mul silu_and_mul | silu_and_mul(torch.cat((gate, up), dim=-1))
gelu_tanh_and_mul | geglu | conch.ops.activation.gelu_tanh_and_mul gelu_tanh_and_mul | gelu_tanh_and_mul(torch.cat((gate, up), dim=-1))
rms_norm | rmsnorm | conch.ops.normalization.rms_norm rms_norm | rms_norm(x, weight, eps)
fused_add_rms_norm | fused_add_rmsnorm | conch.ops.normalization.rms_norm fused_add_rms_norm | fused_add_rms_norm(x.clone(), residual.clone(), weight, eps)
gemma_rms_norm | world:rmsnorm_from_zero | conch.ops.normalization.gemma_rms_norm gemma_rms_norm | gemma_rms_norm(x.clone(), weight, eps)
rotary_embedding | rope_neox | conch.ops.embedding.rotary_embedding rotary_embedding | tuple(t.view(len(q), -1, q.shape[-1]) for t in rotary_embedding(position_ids, q.flatten(1).clone(), k.flatten(1).clone(), q.shape[-1], torch.cat((cos, sin), dim=-1).to(q.dtype)))
"""
_FLA = """
l2norm | world:l2norm | fla.modules.norm.l2norm l2norm_fwd | l2norm_fwd(x, eps)[0]
swish | world:silu | fla.modules.activations.ops swish_fwd | swish_fwd(x)
sigmoid | world:sigmoid | fla.modules.activations.ops sigmoid_fwd | sigmoid_fwd(x)
rms_norm | rmsnorm | fla.modules.norm.layernorm rms_norm | rms_norm(x, weight, None, eps=eps)
layer_norm | layernorm | fla.modules.norm.layernorm layer_norm | layer_norm(x, weight, bias, eps=eps)
rotary_embedding | rope_neox | fla.modules.rotary.ops rotary_embedding | tuple(rotary_embedding(t[None], cos[position_ids].to(t.dtype), sin[position_ids].to(t.dtype))[0] for t in (q, k))
rotary_embedding_pairs | rope_interleaved | fla.modules.rotary.ops rotary_embedding | tuple(rotary_embedding(t[None], cos[position_ids].to(t.dtype), sin[position_ids].to(t.dtype), interleaved=True)[0] for t in (q, k))
"""
_GEMS = """
gelu | world:gelu | flag_gems | flag_gems.gelu(x)
gelu_tanh | world:gelu_tanh | flag_gems | flag_gems.gelu(x, approximate="tanh")
silu | world:silu | flag_gems | flag_gems.silu(x)
relu | world:relu | flag_gems | flag_gems.relu(x)
sigmoid | world:sigmoid | flag_gems | flag_gems.sigmoid(x)
tanh | world:tanh | flag_gems | flag_gems.tanh(x)
relu6 | world:relu6 | flag_gems | flag_gems.relu6(x)
silu_and_mul | swiglu | flag_gems | flag_gems.silu_and_mul(gate, up)
gelu_and_mul | geglu | flag_gems | flag_gems.gelu_and_mul(gate, up, approximate="tanh")
rms_norm | rmsnorm | flag_gems | flag_gems.rms_norm(x, x.shape[-1:], weight, eps)
fused_add_rms_norm | fused_add_rmsnorm | flag_gems | flag_gems.fused_add_rms_norm(x.clone(), residual.clone(), x.shape[-1:], weight, eps)
layer_norm | layernorm | flag_gems | flag_gems.layer_norm(x, x.shape[-1:], weight, bias, eps)[0]
mm | gemm | flag_gems | flag_gems.mm(a, b)
bmm | batched_gemm | flag_gems | flag_gems.bmm(a, b)
softmax | world:softmax | flag_gems | flag_gems.softmax(x, -1)
exp | world:exp | flag_gems | flag_gems.exp(x)
add | world:add | flag_gems | flag_gems.add(x, other)
sum | world:row_sum | flag_gems | flag_gems.sum_dim(x, [-1])
hardswish | world:hardswish | flag_gems | flag_gems.hardswish_(x.clone())
log_softmax | world:log_shares | flag_gems | flag_gems.log_softmax(logits, -1)
"""
# Definitions that are taken from files: Triton's tutorials, examples of Helion.
_TUTORIALS = """
softmax | world:softmax | 02-fused-softmax softmax | softmax(x)
add | world:add | 01-vector-add add | add(x, other)
layer_norm | layernorm | 05-layer-norm LayerNorm | LayerNorm.apply(x, x.shape[-1:], weight, bias, eps)
matmul | gemm | 03-matrix-multiplication matmul | matmul(a, b)
"""
_HELION = """
rms_norm | rmsnorm | rms_norm rms_norm_fwd | rms_norm_fwd(x, weight, eps)[0]
layer_norm | layernorm | layer_norm layer_norm_fwd | layer_norm_fwd(x, [x.shape[-1]], weight, bias, eps)[0]
welford | layernorm | welford welford | welford(weight, bias, x, eps)
softmax | world:softmax | softmax softmax | softmax(x)
softmax_decomposed | world:softmax | softmax softmax_decomposed | softmax_decomposed(x)
softmax_two_pass | world:softmax | softmax softmax_two_pass | softmax_two_pass(x)
swiglu | swiglu | swiglu _swiglu_fwd | _swiglu_fwd(gate, up)
geglu | geglu | geglu _geglu | _geglu(gate, up)
matmul | gemm | matmul matmul | matmul(a, b)
bmm | batched_gemm | bmm bmm | bmm(a, b)
exp | world:exp | exp exp_fwd | exp_fwd(x)
add | world:add | add add | add(x, other)
sum | world:row_sum | sum sum_kernel | sum_kernel(x)
"""
_EXAMPLES = {"triton_tutorials": _TUTORIALS, "helion_examples": _HELION}
# Helion searches for a configuration for minutes unless it is told not to.
_UNTUNED = {"helion_examples": 'import os\n\nos.environ["HELION_AUTOTUNE_EFFORT"] = "none"\n\n'}
_TEXT = """
import torch
{imports}


def run({given}):
    with torch.no_grad():
        return {expression}
"""
_WIDE_ONLY = ("world:log_shares",)  # problems whose inputs are float32 whatever the working dtype


def _given(problem: str) -> str:
    if problem.startswith("world:"):
        import world_problems

        found = world_problems.get(problem.removeprefix("world:"), "bfloat16")
    else:
        found = registry.get(problem)
    return ", ".join(one.name for one in found.inputs)


def _adapters() -> Iterator[Adapter]:
    tables = {"liger": _LIGER, "conch": _CONCH, "fla": _FLA, "flag_gems": _GEMS}
    for package, table in tables.items():
        for line in table.strip().splitlines():
            name, problem, imported, expression = (cell.strip() for cell in line.split(" | "))
            module, _, names = imported.partition(" ")
            imports = f"from {module} import {names}" if names else f"import {module}"
            dtypes = ("float32",) if problem in _WIDE_ONLY else ALL
            yield Adapter(
                name=name,
                problem=problem,
                package=package,
                text=_TEXT.format(imports=imports, given=_given(problem), expression=expression),
                dtypes=HALVES if problem in ("rope_neox",) else dtypes,
            )


def _examples() -> Iterator[Adapter]:
    for package, table in _EXAMPLES.items():
        for line in table.strip().splitlines():
            name, problem, source, expression = (cell.strip() for cell in line.split(" | "))
            module, named = source.split()
            text = _TEXT.format(imports="", given=_given(problem), expression=expression)
            yield Adapter(
                name=name,
                problem=problem,
                package=package,
                needs=(f"{package}.{module}:{named}",),
                before=_UNTUNED.get(package, ""),
                text=text,
                # The tutorial's product is float16 whatever goes into it.
                dtypes=("float16",) if name == "matmul" and "tutorials" in package else ALL,
            )


ADAPTERS = (*_adapters(), *_examples())
