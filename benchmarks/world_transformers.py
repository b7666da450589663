"""What is judged of transformers: names of its modules, the problem each solves, and adapters.

Each distinct code is judged once: 129 models have Llama's RMSNorm, word for word.
"""

from __future__ import annotations

from collections.abc import Iterator

from world_kernels import ALL, Adapter

PARAMETERS = '''
from types import SimpleNamespace

import torch
from torch import nn


def with_parameters(module, **values):
    """Give a module the problem's tensors as its parameters."""
    for name, value in values.items():
        *path, last = name.split("__")
        owner = module
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, nn.Parameter(value, requires_grad=False))
    return module.eval()
'''
_NORM = """

def run({given}):
    with torch.no_grad():
        return with_parameters({norm}({made}){set})({called})
"""
STATISTIC = "a row's statistic is kept in 16 bits: all of the row errs by up to 0.4 %"
_ROWS = "x, weight, eps"
# norm of a model | problem | arguments | how it is made | how it is called
_NORMS = """
llama LlamaRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
olmo2 Olmo2RMSNorm | rmsnorm | x.shape[-1], eps=eps | x
flex_olmo FlexOlmoRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
idefics2 Idefics2RMSNorm | rmsnorm | x.shape[-1], eps=eps | x
gemma3n Gemma3nRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
t5 T5LayerNorm | rmsnorm | x.shape[-1], eps=eps | x
idefics IdeficsRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
helium HeliumRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
moshi MoshiRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
nemotron_h NemotronHRMSNorm | rmsnorm | x.shape[-1], eps=eps | x
cpmant CpmAntLayerNorm | rmsnorm | SimpleNamespace(eps=eps, hidden_size=x.shape[-1]) | x
gemma2 Gemma2RMSNorm | world:rmsnorm_from_zero | x.shape[-1], eps=eps | x
qwen3_5 Qwen3_5RMSNorm | world:rmsnorm_from_zero | x.shape[-1], eps=eps | x
cohere CohereLayerNorm | world:layernorm_unshifted | x.shape[-1], eps=eps | x
qwen3_next Qwen3NextRMSNormGated | world:rmsnorm_gated | x.shape[-1], eps=eps | x, gate
kimi_linear KimiLinearRMSNormGated | world:rmsnorm_gated_sigmoid | x.shape[-1], eps=eps | x, gate
mamba2 MambaRMSNormGated | world:rmsnorm_of_gated | x.shape[-1], x.shape[-1], eps=eps | x, gate
falcon_h1 FalconH1RMSNormGated | world:rmsnorm_gated | x.shape[-1], eps=eps, n_groups=1 | x, gate
"""
_UNWEIGHTED = """
nanochat NanoChatRMSNorm | eps=eps
deepseek_v4 DeepseekV4UnweightedRMSNorm | eps=eps
inkling2 Inkling2UnweightedRMSNorm | eps=eps
falcon_mamba FalconMambaWeightlessRMSNorm | x.shape[-1], eps=eps
"""
_SHIFTED = """
deberta.modeling_deberta DebertaLayerNorm | layernorm | x.shape[-1], eps=eps
esm.modeling_esmfold EsmFoldLayerNorm | layernorm | x.shape[-1], eps=eps
esmfold2.modeling_esmfold2 EsmFold2LayerNorm | layernorm | x.shape[-1], eps=eps
esmc.modeling_esmc EsmcLayerNorm | layernorm | x.shape[-1], eps=eps
convnext.modeling_convnext ConvNextLayerNorm | layernorm | x.shape[-1], eps=eps
"""
_CHANNELS = 'x.shape[1], eps=eps, data_format="channels_first"'
# problem | activations under their names in ACT2FN
_ACTIVATIONS = {
    "gelu": "gelu gelu_python",
    "gelu_tanh": "gelu_new gelu_fast gelu_accurate gelu_pytorch_tanh gelu_python_tanh",
    "gelu_clipped": "gelu_10",
    "quick_gelu": "quick_gelu",
    "silu": "silu swish",
    "mish": "mish",
    "relu": "relu",
    "relu_squared": "relu2",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu",
    "hardswish": "hardswish",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "laplace": "laplace",
    "sqrt_softplus": "sqrtsoftplus",
}
_ACTIVATION = """

def run(x):
    return ACT2FN[{name!r}](x)
"""
_GATED = """

def run(gate, up):
    return ACT2FN[{name!r}](gate) * up
"""
_ROPE = """

def run(q, k, cos, sin, position_ids):
    cos, sin = (torch.cat((t, t), -1)[position_ids]{cast}[None] for t in (cos, sin))
    q, k = (t.transpose(0, 1)[None] for t in (q, k))
    q, k = {call}
    return tuple(t[0].transpose(0, 1).contiguous() for t in (q, k))
"""
# Some models make their tables in the model's type, others keep them in float32.
_CAST, _WIDE = ".to(q.dtype)", ""
# model | problem | how tables come | call
_ROPES = (
    ("llama", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("olmo", "rope_neox", _WIDE, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("modernbert", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("gpt_neox", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("phi3", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("nemotron", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("dinov3_vit", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos[:, None], sin[:, None])"),
    ("hunyuan_vl", "rope_neox", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    (
        "gemma3n",
        "rope_neox",
        _CAST,
        "(apply_rotary_pos_emb(q, cos, sin), apply_rotary_pos_emb(k, cos, sin))",
    ),
    ("glm", "rope_interleaved", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("ernie4_5", "rope_interleaved", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
    ("helium", "rope_interleaved", _CAST, "apply_rotary_pos_emb(q, k, cos, sin)"),
)
_ROPE_HALVES = """

def run(q, k, cos, sin, position_ids):
    cos, sin = (t[position_ids].to(q.dtype)[None] for t in (cos, sin))
    q, k = (t.transpose(0, 1)[None] for t in (q, k))
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    return tuple(t[0].transpose(0, 1).contiguous() for t in (q, k))
"""
_ROPE_COHERE = """

def run(q, k, cos, sin, position_ids):
    cos, sin = (t[position_ids].repeat_interleave(2, -1).to(q.dtype)[None] for t in (cos, sin))
    q, k = (t.transpose(0, 1)[None] for t in (q, k))
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    return tuple(t[0].transpose(0, 1).contiguous() for t in (q, k))
"""
_ROPE_GPTJ = """

def run(q, k, cos, sin, position_ids):
    cos, sin = (t[position_ids].to(q.dtype)[None] for t in (cos, sin))
    return tuple(apply_rotary_pos_emb(t[None], sin, cos)[0] for t in (q, k))
"""
_ROPE_COMPLEX = """

def run(q, k, cos, sin, position_ids):
    turns = torch.complex(cos, sin)[position_ids][None]
    q, k = apply_rotary_emb(q[None], k[None], turns)
    return q[0], k[0]
"""
_ROPE_DEINTERLEAVED = """

def run(q, k, cos, sin, position_ids):
    cos, sin = (torch.cat((t, t), -1)[position_ids].to(q.dtype)[None] for t in (cos, sin))
    q, k = (t.transpose(0, 1)[None] for t in (q, k))
    turned = apply_rotary_pos_emb_interleave(q, k, cos, sin)
    # It leaves pairs apart, as two halves; the problem wants them side by side.
    halves = (t[0].transpose(0, 1).chunk(2, dim=-1) for t in turned)
    return tuple(torch.stack(pair, dim=-1).flatten(-2) for pair in halves)
"""
_ROPE_VISION = """

def run(q, k, cos, sin, position_ids):
    cos, sin = (torch.cat((t, t), -1)[position_ids] for t in (cos, sin))
    return apply_rotary_pos_emb_vision(q, k, cos, sin)
"""
_TABLES = """

def run(position_ids, like):
    dim = like.shape[-1]
    settings = SimpleNamespace(
        max_position_embeddings=32768, hidden_size=dim, num_attention_heads=1, head_dim=dim,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        standardize_rope_params=lambda: None,
    )
    rotary = LlamaRotaryEmbedding(settings).to(like.device)
    cos, sin = rotary(like, position_ids[None])
    return cos[0], sin[0]
"""
_CAUSAL = """

def run(q, k, v, scale{more}):
    module = SimpleNamespace(
        num_key_value_groups=q.shape[1] // k.shape[1], training=False, is_causal=False,
        config=SimpleNamespace(_attn_implementation="eager"),
    )
    queries, keys = q.shape[2], k.shape[2]
    last = torch.arange(queries, device=q.device)[:, None] + keys - queries
    places = torch.arange(keys, device=q.device)
    seen = {seen}
    mask = torch.where(seen, 0.0, torch.finfo(q.dtype).min).to(q.dtype)[None, None]
    output = {call}[0]
    return output.transpose(1, 2).contiguous()
"""
_FULL = """

def run(q, k, v, scale):
    module = SimpleNamespace(num_key_value_groups=1, training=False, is_causal=False, scale=scale)
    return {call}[0].transpose(1, 2).contiguous()
"""
_SINKS = """

def run(q, k, v, sinks, scale):
    module = SimpleNamespace(num_key_value_groups=1, training=False, sinks=sinks)
    y, _ = eager_attention_forward(module, q, k, v, None, scaling=scale)
    return y.transpose(1, 2).contiguous()
"""
_SDPA_BIASED = """

def run(q, k, v, bias):
    module = SimpleNamespace(training=False, is_causal=False)
    y, _ = sdpa_attention_forward(module, q, k, v, bias[None], scaling=1.0)
    return y.transpose(1, 2).contiguous()
"""
_T5 = """

def run(q, k, v, bias):
    module = SimpleNamespace(num_key_value_groups=1, training=False)
    mask = bias[None].expand(len(q), -1, -1, -1)
    y, _ = eager_attention_forward(module, q, k, v, mask, scaling=1.0)
    return y.transpose(1, 2).contiguous()
"""
_MLP_GATED = """

def run(x, gate, up, down):
    settings = SimpleNamespace(
        hidden_size=x.shape[-1], intermediate_size=gate.shape[0], mlp_bias=False, {settings}
    )
    made = with_parameters(
        {mlp}(settings), gate_proj__weight=gate, up_proj__weight=up, down_proj__weight=down
    )
    with torch.no_grad():
        return made(x[None])[0]
"""
_GATED_MLPS = """
llama LlamaMLP | mlp_swiglu | hidden_act="silu"
qwen2 Qwen2MLP | mlp_swiglu | hidden_act="silu"
gemma GemmaMLP | mlp_geglu | hidden_act="gelu_pytorch_tanh"
gemma2 Gemma2MLP | mlp_geglu | hidden_activation="gelu_pytorch_tanh"
t5gemma T5GemmaMLP | mlp_geglu | hidden_activation="gelu_pytorch_tanh", dropout_rate=0.0
"""
_MLP_FUSED = """

def run(x, gate, up, down):
    settings = SimpleNamespace(
        hidden_size=x.shape[-1], intermediate_size=gate.shape[0], hidden_act="silu"
    )
    made = with_parameters(
        {mlp}(settings), gate_up_proj__weight=torch.cat((gate, up)), down_proj__weight=down
    )
    with torch.no_grad():
        return made(x[None])[0]
"""
_MLP = """

def run(x, w1, b1, w2, b2):
    settings = SimpleNamespace(hidden_size=x.shape[-1], intermediate_size=w1.shape[0], {settings})
    made = with_parameters({mlp}({made}), {set})
    with torch.no_grad():
        return made(x[None])[0]
"""
_FC = "fc1__weight=w1, fc1__bias=b1, fc2__weight=w2, fc2__bias=b2"
_CONV1D = (
    "c_fc__weight=w1.T.contiguous(), c_fc__bias=b1, c_proj__weight=w2.T.contiguous(), "
    "c_proj__bias=b2"
)
_IN_OUT = "fc_in__weight=w1, fc_in__bias=b1, fc_out__weight=w2, fc_out__bias=b2"
_DENSE = (
    "dense_h_to_4h__weight=w1, dense_h_to_4h__bias=b1, dense_4h_to_h__weight=w2, "
    "dense_4h_to_h__bias=b2"
)
# module | problem | settings | how it is made | parameters
_MLPS = (
    ("clip", "CLIPMLP", "quick_gelu", 'hidden_act="quick_gelu"', "settings", _FC),
    ("clip", "CLIPMLP", "gelu", 'hidden_act="gelu"', "settings", _FC),
    ("siglip", "SiglipMLP", "gelu_tanh", 'hidden_act="gelu_pytorch_tanh"', "settings", _FC),
    ("phi", "PhiMLP", "gelu_tanh", 'hidden_act="gelu_new"', "settings", _FC),
    (
        "gpt2",
        "GPT2MLP",
        "gelu_tanh",
        'activation_function="gelu_new", resid_pdrop=0.0',
        "w1.shape[0], settings",
        _CONV1D,
    ),
    (
        "gptj",
        "GPTJMLP",
        "gelu_tanh",
        'n_embd=x.shape[-1], activation_function="gelu_new", resid_pdrop=0.0',
        "w1.shape[0], settings",
        _IN_OUT,
    ),
    ("gpt_neox", "GPTNeoXMLP", "gelu", 'hidden_act="gelu"', "settings", _DENSE),
    (
        "detr",
        "DetrMLP",
        "relu",
        'activation_function="relu", activation_dropout=0.0, dropout=0.0',
        "settings, x.shape[-1], w1.shape[0]",
        _FC,
    ),
)
_MLP_RELU2 = """

def run(x, w1, w2):
    settings = SimpleNamespace(
        hidden_size=x.shape[-1], intermediate_size=w1.shape[0], mlp_bias=False, hidden_act="relu2"
    )
    made = with_parameters({mlp}(settings), up_proj__weight=w1, down_proj__weight=w2)
    with torch.no_grad():
        return made(x[None])[0]
"""
_ROUTER = """

def run(x, router):
    settings = SimpleNamespace(
        num_experts_per_tok=4, num_local_experts=16, num_experts=16, hidden_size=x.shape[-1],
        norm_topk_prob={normalized},
    )
    made = with_parameters({router}(settings), weight=router)
    with torch.no_grad():
        return made(x)[1:]
"""
# router | problem | whether its weights are normalized
_ROUTERS = """
mixtral MixtralTopKRouter | route_normalized | True
jamba JambaTopKRouter | route_plain | False
qwen2_moe Qwen2MoeTopKRouter | route_plain | False
olmoe OlmoeTopKRouter | route_plain | False
granitemoe GraniteMoeTopKRouter | route_chosen | True
gpt_oss GptOssTopKRouter | route_chosen | True
"""
_EXPERTS = """

def run(x, chosen, weights, gate_up, down):
    settings = SimpleNamespace(
        num_local_experts=8, num_experts=8, hidden_size=x.shape[-1], hidden_act="silu",
        intermediate_size=down.shape[-1], moe_intermediate_size=down.shape[-1],
    )
    made = with_parameters({experts}(settings), gate_up_proj=gate_up, down_proj=down)
    with torch.no_grad():
        return made(x, chosen, weights)
"""
_WARPS = (
    ("TemperatureLogitsWarper", "warp_temperature", "logits, temperature", "temperature"),
    ("TopKLogitsWarper", "warp_top_k", "logits", "50"),
    ("MinPLogitsWarper", "warp_min_p", "logits", "0.05"),
    ("EpsilonLogitsWarper", "warp_epsilon", "logits", "1e-3"),
    ("LogitNormalization", "log_shares", "logits", ""),
)
_WARP = """

def run({given}):
    return {warp}({made})(None, logits)
"""
_MODELING = "transformers.models.{0}.modeling_{0}:{1}"


def _of(model: str, *names: str) -> tuple[str, ...]:
    return tuple(_MODELING.format(model, name) for name in names)


def table(text: str) -> Iterator[list[str]]:
    """Yield the cells of each line of a table."""
    for line in text.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


def _adapter(
    name: str,
    problem: str,
    needs: tuple[str, ...],
    text: str,
    dtypes: tuple[str, ...] = ALL,
    rejected_in_16_bits: str = "",
) -> Adapter:
    return Adapter(
        name=name,
        problem=problem,
        package="transformers",
        needs=needs,
        text=PARAMETERS + text,
        dtypes=dtypes,
        rejected_in_16_bits=rejected_in_16_bits,
    )


def _norms() -> Iterator[Adapter]:
    for named, problem, made, called in table(_NORMS):
        model, norm = named.split()
        given = "x, gate, weight, eps" if "gate" in called else _ROWS
        text = _NORM.format(given=given, norm=norm, made=made, set=", weight=weight", called=called)
        yield _adapter(norm, problem, _of(model, norm), text)
    for named, made in table(_UNWEIGHTED):
        model, norm = named.split()
        text = _NORM.format(given="x, eps", norm=norm, made=made, set="", called="x")
        refused = STATISTIC if norm.startswith("DeepseekV4") else ""
        needs = _of(model, norm)
        yield _adapter(norm, "world:rmsnorm_plain", needs, text, rejected_in_16_bits=refused)
    images = ["convnext.modeling_convnext ConvNextLayerNorm", "world:layernorm_channels", _CHANNELS]
    for named, problem, made in (*table(_SHIFTED), images):
        module, norm = named.split()
        name = f"{norm}{'_channels' if 'channels' in problem else ''}"
        given, both = "x, weight, bias, eps", ", weight=weight, bias=bias"
        if norm == "EsmFold2LayerNorm":  # its parameters are float32 whatever goes through it
            both = ", weight=weight.float(), bias=bias.float()"
        text = _NORM.format(given=given, norm=norm, made=made, set=both, called="x")
        yield _adapter(name, problem, (f"transformers.models.{module}:{norm}",), text)
    text = "\n\ndef run(x, eps):\n    return l2norm(x, dim=-1, eps=eps)\n"
    needs = _of("qwen3_next", "l2norm")
    yield _adapter("qwen3_next_l2norm", "world:l2norm", needs, text, rejected_in_16_bits=STATISTIC)


def _activations() -> Iterator[Adapter]:
    needs = ("transformers.activations:ACT2FN",)
    for problem, names in _ACTIVATIONS.items():
        for name in names.split():
            text = _ACTIVATION.format(name=name)
            yield _adapter(f"act_{name}", f"world:{problem}", needs, text)
    for name in ("gelu_new", "gelu_fast", "gelu_pytorch_tanh"):
        yield _adapter(f"{name}_gated", "geglu", needs, _GATED.format(name=name))
    yield _adapter("silu_gated", "swiglu", needs, _GATED.format(name="silu"))


def _ropes() -> Iterator[Adapter]:
    for model, problem, cast, call in _ROPES:
        needs = _of(model, "apply_rotary_pos_emb")
        text = _ROPE.format(cast=cast, call=call)
        yield _adapter(f"rotary_{model}", problem, needs, text)
    other = (
        ("gpt_oss", "rope_neox", "apply_rotary_pos_emb", _ROPE_HALVES),
        ("cohere", "rope_interleaved", "apply_rotary_pos_emb", _ROPE_COHERE),
        ("gptj", "rope_interleaved", "apply_rotary_pos_emb", _ROPE_GPTJ),
        ("llama4", "rope_interleaved", "apply_rotary_emb", _ROPE_COMPLEX),
        (
            "deepseek_v3",
            "rope_interleaved",
            "apply_rotary_pos_emb_interleave",
            _ROPE_DEINTERLEAVED,
        ),
        ("qwen2_vl", "rope_neox", "apply_rotary_pos_emb_vision", _ROPE_VISION),
    )
    for model, problem, name, text in other:
        yield _adapter(f"rotary_{model}", problem, _of(model, name), text)
    yield _adapter(
        "LlamaRotaryEmbedding", "world:rope_tables", _of("llama", "LlamaRotaryEmbedding"), _TABLES
    )


def _attention() -> Iterator[Adapter]:
    eager = "eager_attention_forward(module, q, k, v, mask, {0})"
    text = _CAUSAL.format(seen="places <= last", call=eager.format("scaling=scale"), more="")
    needs = _of("llama", "eager_attention_forward")
    yield _adapter("attention_llama", "attention", needs, text)
    sdpa = "transformers.integrations.sdpa_attention:sdpa_attention_forward"
    call = "sdpa_attention_forward(module, q, k, v, mask, scaling=scale)"
    text = _CAUSAL.format(seen="places <= last", call=call, more="")
    yield _adapter("attention_sdpa", "attention", (sdpa,), text)
    text = _CAUSAL.format(
        seen="(places <= last) & (places > last - window)",
        call=eager.format("scaling=scale, softcap=cap"),
        more=", cap, window",
    )
    needs = _of("gemma2", "eager_attention_forward")
    yield _adapter("attention_gemma2", "attention_window_softcap", needs, text)
    for model in ("bert", "clip", "vit", "gpt2"):
        call = "eager_attention_forward(module, q, k, v, None, scaling=scale)"
        text = _FULL.format(call=call)
        needs = _of(model, "eager_attention_forward")
        yield _adapter(f"attention_{model}", "world:attention_full", needs, text)
    call = "sdpa_attention_forward(module, q, k, v, None, scaling=scale)"
    text = _FULL.format(call=call)
    yield _adapter("attention_sdpa_full", "world:attention_full", (sdpa,), text)
    needs = _of("gpt_oss", "eager_attention_forward")
    yield _adapter("attention_gpt_oss", "world:attention_sinks", needs, _SINKS)
    yield _adapter("attention_sdpa_biased", "world:attention_biased", (sdpa,), _SDPA_BIASED)
    needs = _of("bert", "eager_attention_forward")
    yield _adapter("attention_bert_biased", "world:attention_biased", needs, _T5)


def _mlps() -> Iterator[Adapter]:
    for named, problem, settings in table(_GATED_MLPS):
        model, mlp = named.split()
        text = _MLP_GATED.format(mlp=mlp, settings=settings)
        yield _adapter(mlp, f"world:{problem}", _of(model, mlp), text)
    for model, mlp in (("phi3", "Phi3MLP"), ("glm4", "Glm4MLP")):
        text = _MLP_FUSED.format(mlp=mlp)
        yield _adapter(mlp, "world:mlp_swiglu", _of(model, mlp), text)
    for model, mlp, problem, settings, made, parameters in _MLPS:
        text = _MLP.format(mlp=mlp, settings=settings, made=made, set=parameters)
        yield _adapter(f"{mlp}_{problem}", f"world:mlp_{problem}", _of(model, mlp), text)
    for model, mlp in (("nemotron", "NemotronMLP"), ("arcee", "ArceeMLP")):
        text = _MLP_RELU2.format(mlp=mlp)
        yield _adapter(mlp, "world:mlp_relu_squared", _of(model, mlp), text)


def _experts() -> Iterator[Adapter]:
    for named, problem, normalized in table(_ROUTERS):
        model, router = named.split()
        bias = ", bias=torch.zeros(16, dtype=x.dtype, device=x.device)"
        text = _ROUTER.format(router=router, normalized=normalized)
        if router.startswith("GptOss"):
            text = text.replace("weight=router)", f"weight=router{bias})")
        yield _adapter(router, f"world:{problem}", _of(model, router), text)
    for model, experts in (
        ("mixtral", "MixtralExperts"),
        ("qwen2_moe", "Qwen2MoeExperts"),
        ("olmoe", "OlmoeExperts"),
    ):
        text = _EXPERTS.format(experts=experts)
        yield _adapter(experts, "world:experts_swiglu", _of(model, experts), text)


def _others() -> Iterator[Adapter]:
    for warp, problem, given, made in _WARPS:
        text = _WARP.format(given=given, warp=warp, made=made)
        needs = (f"transformers.generation.logits_process:{warp}",)
        yield _adapter(warp, f"world:{problem}", needs, text, ("float32",))
    text = "\n\ndef run(similarity):\n    return image_text_contrastive_loss(similarity)\n"
    needs = _of("clip", "image_text_contrastive_loss")
    yield _adapter("clip_loss", "world:contrastive_loss", needs, text, ("float32",))
    text = (
        "\n\ndef run(logits, labels):\n"
        "    return ForCausalLMLoss(logits[None], labels[None], logits.shape[-1])\n"
    )
    needs = ("transformers.loss.loss_utils:ForCausalLMLoss",)
    yield _adapter("ForCausalLMLoss", "world:causal_loss", needs, text)
    text = (
        "\n\ndef run(ids, table, scale):\n"
        "    made = Gemma2TextScaledWordEmbedding(*table.shape, 0, embed_scale=scale)\n"
        "    made = with_parameters(made, weight=table)\n"
        "    made.embed_scale = made.embed_scale.to(table.device)\n"
        "    with torch.no_grad():\n        return made(ids)\n"
    )
    needs = _of("gemma2", "Gemma2TextScaledWordEmbedding")
    yield _adapter("Gemma2TextScaledWordEmbedding", "world:embedding_scaled", needs, text)
    text = (
        "\n\ndef run(mask):\n"
        "    found = build_alibi_tensor(mask.long(), 8, torch.float32)\n"
        "    return found.reshape(len(mask), 8, -1)\n"
    )
    needs = _of("bloom", "build_alibi_tensor")
    yield _adapter("bloom_alibi", "world:alibi", needs, text, ("float32",))


ADAPTERS = (
    *_norms(),
    *_activations(),
    *_ropes(),
    *_attention(),
    *_mlps(),
    *_experts(),
    *_others(),
)
