"""Known memory bugs and operators of Model2Kernel as pairs of a problem and a candidate.

    python benchmarks/model2kernel.py CHECKOUT FOLDER
    PYTHONPATH=src:packages/ptxsan/src python benchmarks/proofs.py decide FOLDER/pairs.jsonl ROWS

CHECKOUT is a checkout of github.com/Model2Kernel/Model2Kernel, which has no licence: nothing of
it is kept here, and what is written to FOLDER holds its sources. Its own JSON files say which
tensors an operator takes, as functions of the batch (`b`, at most 1,000) and of the sequence (`s`,
at most 2,000,000); the host code is the operators' own. Where JSON has a number that was only
observed (a cache's blocks, a slot), `_CASES` states what callers may pass.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BATCH, _SEQUENCE = 1000, 2_000_000
_BUGS, _INPUTS, _SOURCES = "exp/coverage", "exp/vllm/input", "data/vllm/csrc"
_BLOCKS = ("reduce", "load", "store", "scan")
# CUB of CUDA 13 has them no more; the sources are of CUDA 12.
_CUB_OF_12 = """namespace cub {
struct Max { template <class T> __host__ __device__ T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
struct Min { template <class T> __host__ __device__ T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
struct Sum { template <class T> __host__ __device__ T operator()(const T& a, const T& b) const { return a + b; } };
}"""  # noqa: E501
ELEMENTS = 1 << 32  # tensors stay below: 8 GiB of 16-bit numbers


@dataclass(frozen=True, kw_only=True)
class Case:
    """One operator: its source and what the JSON does not say, by the number of the argument.

    `index` bounds integers: below an expression of axes; `unique` are those of them that callers
    never repeat, `offsets` sorted ones from 0 to an expression. `axes` are axes beside `b` and `s`,
    and `sizes` the numbers of the JSON's shapes that they stand for. `shapes` replace shapes,
    `values` constants. `without` are sizes that kernels are compiled for beside those of the call.
    `like` is the operator whose JSON has the arguments, where its own is empty.
    """

    source: str
    function: str = ""
    entry: int = 0
    like: str = ""
    without: tuple[str, ...] = ()
    index: Mapping[int, str] = field(default_factory=dict)
    unique: tuple[int, ...] = ()
    offsets: Mapping[int, str] = field(default_factory=dict)
    axes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    sizes: Mapping[int | str, str] = field(default_factory=dict)
    shapes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    dtypes: Mapping[int, str] = field(default_factory=dict)
    values: Mapping[int, Any] = field(default_factory=dict)


_CACHE = {"n": (1, 64_000)}  # the blocks of a paged cache
# Of paged attention: heads of other than 128 numbers, blocks of other than 16 tokens.
_PAGED = (
    r"^    case (?!128:)\d+:\n +LAUNCH_\w+\((?:T, )?\d+[^\n]*\);\n +break;\n",
    r"^    case (?!16:)\d+: +\\\n +CALL_\w+\(T, (?:CACHE_T, )?\d+[^\n]*\); +\\\n +break; +\\\n",
)
# Each token has a slot of its own, so there are as many.
_BLOCKS_OF_64, _SLOTS_OF_64 = "n+s*b//64", "64*(n+s*b//64)"
_SLOTS = {"n": (1, 1000)}  # states beside those of the sequences that are batched
_BUG_CASES: Mapping[str, Case] = {
    "68": Case(source="attention_kernels.cu", index={5: "1024"}, without=_PAGED),
    "1295": Case(source="gemm_kernels.cu"),
    "1514-1": Case(source="attention_kernels.cu", axes=_CACHE, sizes={64_000: "n"},
                   index={4: "32", 6: "n", 7: "s+1"}, without=_PAGED),
    "1514-2": Case(source="cache_kernels.cu"),
    "1841": Case(source="pos_encoding_kernels.cu", index={0: "8192"}),
    "2164": Case(source="pos_encoding_kernels.cu", index={0: "s"}),
    "5169": Case(source="punica/punica_ops.cu", index={3: "1"}, without=(
        r"^ +f\(in_T, out_T, W_T, narrow, (?!512\))\d+\) \\\n",
        r"^ +f\(in_T, out_T, W_T, (?!64,)\d+, narrow\) \\\n",
    )),
    "6649": Case(source="quantization/fp8/common.cu"),
    "6798": Case(source="gptq_marlin.cu", without=(
        r"^ +(?:GPTQ|AWQ)_CALL_IF\(8, .*\n", r"^ +AWQ_CALL_IF\(4, .*\n",
    )),
    "9391": Case(source="quantization/compressed_tensors/int8_quant_kernels.cu"),
    "9425": Case(source="quantization/fp8/common.cu"),
    # One sequence: of several, offsets make empty ones as well, which nobody passes.
    "9838": Case(source="causal_conv1d.cu", axes={"b": (1, 1)}, offsets={4: "s*b"},
                 index={5: "2048"}, unique=(5,)),
    "10928": Case(source="causal_conv1d.cu"),
    "12413": Case(source="moe/moe_align_sum_kernels.cu"),
    "18245": Case(source="ops.cu"),
}  # fmt: skip
_ACTIVATION, _CACHES = "activation_kernels.cu", "cache_kernels.cu"
_FP8, _INT8 = "quantization/fp8/common.cu", "quantization/compressed_tensors/int8_quant_kernels.cu"
_OPERATOR_CASES: Mapping[str, Case] = {
    **{
        name: Case(source=_ACTIVATION)
        for name in (
            "silu_and_mul", "mul_and_silu", "gelu_and_mul", "gelu_tanh_and_mul",
            "fatrelu_and_mul", "gelu_new", "gelu_fast", "gelu_quick",
        )
    },
    "rms_norm": Case(source="layernorm_kernels.cu"),
    "fused_add_rms_norm": Case(source="layernorm_kernels.cu"),
    "rotary_embedding": Case(source="pos_encoding_kernels.cu", index={0: "4096"}),
    "advance_step_flashattn": Case(source="prepare_inputs/advance_step.cu", index={6: "s+2"},
                                   shapes={8: ("b", "(s+1)//2048+1")}),
    "permute_cols": Case(source="permute_cols.cu", index={1: "5120"}),
    "reshape_and_cache": Case(
        source=_CACHES, axes=_CACHE, sizes={10: _BLOCKS_OF_64}, index={4: _SLOTS_OF_64}, unique=(4,)
    ),
    "reshape_and_cache_flash": Case(
        source=_CACHES, function="reshape_and_cache_flash", like="reshape_and_cache", axes=_CACHE,
        shapes=dict.fromkeys((2, 3), (_BLOCKS_OF_64, "64", "32", "128")),
        index={4: _SLOTS_OF_64}, unique=(4,),
    ),
    "concat_and_cache_mla": Case(
        source=_CACHES, axes=_CACHE, sizes={10: _BLOCKS_OF_64}, index={3: _SLOTS_OF_64}, unique=(3,)
    ),
    "gather_cache": Case(
        source=_CACHES, axes={"n": (1, 64_000), "u": (1, 4096)}, sizes={30: "n"},
        shapes={1: ("64*u", "576"), 2: ("1", "u")}, index={2: "n", 5: "1"}, offsets={3: "64*u"},
    ),
    "static_scaled_fp8_quant": Case(source=_FP8, shapes={0: ("s*b", "4096")}),
    "dynamic_scaled_fp8_quant": Case(source=_FP8, shapes={0: ("s*b", "4096")}),
    "dynamic_per_token_scaled_fp8_quant": Case(
        source=_FP8, shapes={0: ("s*b", "6144"), 2: ("s*b", "1")}
    ),
    "static_scaled_int8_quant": Case(source=_INT8),
    "dynamic_scaled_int8_quant": Case(source=_INT8),
    "moe_sum": Case(source="moe/moe_align_sum_kernels.cu", shapes={0: ("s*b", "4", "2048")}),
    "moe_align_block_size": Case(source="moe/moe_align_sum_kernels.cu", index={0: "64"},
                                 shapes={4: ("(6*s*b+960)//16",)}),
    "sgl_moe_align_block_size": Case(source="moe/moe_align_sum_kernels.cu", index={0: "256"}),
    # A token's number is below 4*s*b or, of a row that only fills a block, that; each expert has
    # blocks of 16 rows of its own.
    "moe_wna16_gemm": Case(
        source="moe/moe_wna16.cu", axes={"n": (1, 1_000_000)}, shapes={6: ("16*n",), 7: ("n",)},
        index={6: "4*s*b+1", 7: "60", 8: "16*n+1"}, values={10: 16, 11: 128, 12: 256},
    ),
    "topk_softmax": Case(source="moe/topk_softmax_kernels.cu"),
    "awq_dequantize": Case(source="quantization/awq/gemm_kernels.cu"),
    "awq_gemm": Case(source="quantization/awq/gemm_kernels.cu", shapes={0: ("s*b", "4096")}),
    "gptq_gemm": Case(source="quantization/gptq/q_gemm.cu"),
    "aqlm_dequant": Case(source="quantization/aqlm/gemm_kernels.cu"),
    # Callers multiply no more than six rows by it.
    "aqlm_gemm": Case(source="quantization/aqlm/gemm_kernels.cu", axes={"m": (1, 6)},
                      sizes={"u0": "m"}),
    "merge_attn_states": Case(
        source="attention/merge_attn_states.cu",
        shapes=dict.fromkeys((0, 2, 4), ("s*b", "16", "128"))
        | dict.fromkeys((3, 5), ("16", "s*b")),
        dtypes={3: "float32", 5: "float32"},  # the JSON's mock made all tensors float16
    ),
    "causal_conv1d_fwd": Case(
        source="mamba/causal_conv1d/causal_conv1d.cu", shapes={3: ("b+n", "8448", "3")},
        axes=_SLOTS, offsets={4: "s*b"}, index={5: "b+n"}, unique=(5,),
    ),
    "causal_conv1d_update": Case(
        source="mamba/causal_conv1d/causal_conv1d.cu", shapes={1: ("b+n", "8448", "3")},
        axes=_SLOTS, index={6: "b+n"}, unique=(6,),
    ),
    "paged_attention_v1": Case(
        source="attention/paged_attention_v1.cu", axes=_CACHE, sizes={30: "n"},
        shapes={6: ("b", "s//16+1")}, index={6: "n", 7: "s+2"}, without=_PAGED,
    ),
    "selective_scan_fwd": Case(
        source="mamba/mamba_ssm/selective_scan_fwd.cu", shapes={12: ("b+n", "4096", "64")},
        axes=_SLOTS, offsets={9: "s*b"}, index={10: "b+n"}, unique=(10,),
    ),
    "get_cutlass_moe_mm_data": Case(
        source="quantization/cutlass_w8a8/moe/moe_data.cu",
        function="get_cutlass_moe_mm_data_caller", index={0: "8"},
    ),
    "paged_attention_v2": Case(
        source="attention/paged_attention_v2.cu", axes=_CACHE, sizes={150: "n"},
        shapes=dict.fromkeys((1, 2), ("b", "32", "s//512+1"))
        | {3: ("b", "32", "s//512+1", "128"), 9: ("b", "s//16+1")},
        index={9: "n", 10: "s+2"}, without=_PAGED,
    ),
    "allspark_w8a16_gemm": Case(source="quantization/gptq_allspark/allspark_qgemm_w8a16.cu"),
}  # fmt: skip


def pairs(checkout: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Write problems and candidates; yield what `benchmarks/proofs.py` reads, with refusals."""
    for name, case in _BUG_CASES.items():
        base = checkout / _BUGS / name
        yield _pair("model2kernel-bugs", name, base, base / "input.json", case, folder)
    for file in sorted((checkout / _INPUTS).glob("*.json")):
        found = _OPERATOR_CASES.get(file.stem)
        kind = "model2kernel-operators"
        if found is None:
            yield {"set": kind, "name": file.stem, "refused": "not brought in"}
            continue
        yield _pair(kind, file.stem, checkout / _SOURCES, file, found, folder)


def _pair(
    kind: str, name: str, base: Path, inputs: Path, case: Case, folder: Path
) -> dict[str, Any]:
    row: dict[str, Any] = {"set": kind, "name": name}
    try:
        if case.like:
            inputs = inputs.with_name(f"{case.like}.json")
        entry = _entry(inputs.read_text(encoding="utf-8"), case.entry)
        function = case.function or entry["cuda_function"]
        source = _flat(base / case.source, (base, (base / case.source).parent))
        for pattern in case.without:
            source = re.sub(pattern, "", source, flags=re.M)
        heads = re.findall(
            rf"^((?:void|torch::Tensor|at::Tensor)\s+{function}\s*\([^;{{]*?\))\s*\{{",
            _plain(source), re.M | re.S,
        )  # fmt: skip
        head = heads[-1]
        target = folder / kind / name
        target.mkdir(parents=True, exist_ok=True)
        problem, candidate, stated = _texts(function, head, source, entry["args"], case)
    except (OSError, ValueError, LookupError) as error:
        return {**row, "refused": f"not brought in: {type(error).__name__}: {str(error)[:200]}"}
    (target / "problem.py").write_text(problem, encoding="utf-8")
    (target / "problem.cuassay.toml").write_text(stated, encoding="utf-8")
    (target / "kernel.py").write_text(candidate, encoding="utf-8")
    return {
        **row, "problem": str(target / "problem.py"), "path": str(target / "kernel.py"),
        "elements": ELEMENTS,
    }  # fmt: skip


def _entry(text: str, number: int) -> Any:
    """Return a call of a JSON file, of which one ends in the middle."""
    try:
        return json.loads(text)[number]
    except json.JSONDecodeError:
        return json.JSONDecoder().raw_decode(text, text.index("{"))[0]


def _texts(
    function: str, head: str, source: str, arguments: list[Any], case: Case
) -> tuple[str, str, str]:
    """Return a problem and a candidate as Python, and the domains beside the problem."""
    parameters: list[str] = []
    names: list[str] = []
    passed: list[str] = []
    stated: list[str] = []
    for number, one in enumerate(arguments):
        name = f"a{number}"
        if one["type"] == "list" and one["dtype"] == "int" and one["minV"] == one["maxV"]:
            passed.append(repr([one["minV"]] * one["shape"][0]))
            continue
        if one["type"] == "torch.Tensor":
            shape = case.shapes.get(number) or tuple(
                _expression(case.sizes.get(each, each)) for each in one["shape"]
            )
            if "0" in shape:  # a tensor without elements says that there is none
                passed.append(f"torch.empty({[int(each) for each in shape]}, dtype={one['dtype']})")
                continue
            dtype = case.dtypes.get(number) or str(one["dtype"]).removeprefix("torch.")
            domain = _domain(dtype, number, case, one)
            updated = "" if names else ", updated=True"
            dims = "".join(f", {each!r}" if not each.isdigit() else f", {each}" for each in shape)
            parameters.append(
                f"{name}: Annotated[torch.Tensor, tensor({dtype!r}{dims}{domain}{updated})]"
            )
            names.append(name)
            passed.append(name)
            continue
        value = case.values.get(number, one.get("value"))
        if isinstance(value, str) and value not in ("None", "auto"):
            parameters.append(f"{name}: Annotated[int, scalar('int64', low=0, high={1 << 40})]")
            stated.append(f'domains.{name} = {{ kind = "size_of", axis = "{_expression(value)}" }}')
            passed.append(name)
        else:
            passed.append(repr(None if value == "None" else value))
    axes = {"b": (1, _BATCH), "s": (1, _SEQUENCE), **case.axes}
    text = ", ".join(parameters)
    used = {name: bounds for name, bounds in axes.items() if re.search(rf"\b{name}\b", text)}
    listed = {name: low for name, (low, _) in used.items()}
    problem = "\n".join(
        [
            "from typing import Annotated", "import torch",
            "from cuassay import problem, scalar, tensor",
            "from cuassay.model.domain import Index, IntegerRange, Offsets", "",
            f"@problem(axes={used!r}, workloads=[{listed!r}])",
            f"def {function}({text}) -> None:", f"    {names[0]}.copy_({names[0]}.clone())", "",
        ]
    )  # fmt: skip
    plain = ", ".join(one.partition(":")[0] for one in parameters)
    declared = re.sub(r"=\s*std::nullopt", "", head) + ";"
    candidate = "\n".join(
        [
            "import torch", "from torch.utils.cpp_extension import load_inline",
            f"SOURCE = {source!r}", f"HEAD = {declared!r}",
            f"made = load_inline(name='m2k7_{function}', cpp_sources=[HEAD], "
            f"cuda_sources=[SOURCE], functions=[{function!r}])", "",
            f"def {function}({plain}):", f"    made.{function}({', '.join(passed)})", "",
        ]
    )  # fmt: skip
    return problem, candidate, "\n".join((*stated, ""))


def _domain(dtype: str, number: int, case: Case, one: Mapping[str, Any]) -> str:
    if number in case.offsets:
        return f", domain=Offsets(axis={case.offsets[number]!r})"
    if number in case.index:
        unique = ", unique=True" if number in case.unique else ""
        return f", domain=Index(axis={case.index[number]!r}{unique})"
    if dtype.startswith(("int", "uint")):
        bits = min(int(dtype.strip("uint")), 48)  # no generator draws all of 64 bits
        low, high = (
            (0, (1 << bits) - 1) if dtype[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        )
        least, most = one.get("minV"), one.get("maxV")
        if isinstance(least, int) and isinstance(most, int) and bits > 8:
            low, high = least, most
        return f", domain=IntegerRange(low={low}, high={high})"
    return ""


def _expression(value: Any) -> str:
    """Return a shape of the JSON as an expression of axes."""
    text = re.sub(r"\b(\d+)\.0\b", r"\1", str(value)).replace("+-", "-")
    text = re.sub("(?<!/)/(?!/)", "//", text)
    text = re.sub(r"(?<![\w.])1\*", "", text)
    if re.search(r"\bu\d", text):
        raise ValueError(f"a size that the JSON does not say: {value}")
    return text


def _plain(text: str) -> str:
    """Return a source without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def _flat(path: Path, folders: tuple[Path, ...], above: tuple[Path, ...] = ()) -> str:
    """Return a source with its own headers in it: a candidate is one file.

    Each header is there as often as it is included, and is read once. Of CUB it includes what
    kernels call: the rest is for the host, which NVRTC does not read.
    """
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        inside = [
            (one / found[1]).resolve()
            for one in (path.parent, *folders)
            if found and (one / found[1]).is_file()
        ]
        if inside and inside[0] not in above:
            text = _flat(inside[0], folders, (*above, inside[0]))
            lines += _once(str(inside[0]), text)
        elif re.match(r"\s*#\s*include\s+<cub/", line):
            blocks = [f"#include <cub/block/block_{word}.cuh>" for word in _BLOCKS]
            lines += _once("cub", "\n".join((*blocks, _CUB_OF_12)))
        elif "THC/THCAtomics.cuh" in line:  # what torch 1.10 called it
            lines.append("#include <ATen/cuda/Atomic.cuh>")
        elif not inside and not re.match(r"\s*#\s*pragma\s+once", line):
            lines.append(line)
    return "\n".join(lines)


def _once(name: str, text: str) -> list[str]:
    guard = f"READ_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return [f"#ifndef {guard}", f"#define {guard}", text, "#endif"]


def main() -> None:
    """Write pairs of all bugs and operators."""
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(pairs(checkout, folder.resolve()))
    lines = [json.dumps(row) for row in rows]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for row in rows:
        print(row["set"], row["name"], row.get("refused", ""))


if __name__ == "__main__":
    main()
