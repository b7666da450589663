"""What is judged of timm, torchvision and diffusers: the problem of each definition, adapters.

A definition is taken from its package's file. Those whose statistic of a row, channel or map is
rounded to 16 bits are said in `_IN_16_BITS`: there the policy rejects them, and rightly.
"""

from __future__ import annotations

from collections.abc import Iterator

from world_kernels import ALL, Adapter
from world_transformers import PARAMETERS, STATISTIC, table

_ACTIVATIONS = """
timm.layers.activations swish | world:silu
timm.layers.activations mish | world:mish
timm.layers.activations sigmoid | world:sigmoid
timm.layers.activations tanh | world:tanh
timm.layers.activations hard_swish | world:hardswish
timm.layers.activations hard_sigmoid | world:hard_sigmoid
timm.layers.activations hard_mish | world:hard_mish
timm.layers.activations gelu | world:gelu
timm.layers.activations gelu_tanh | world:gelu_tanh
timm.layers.activations quick_gelu | world:quick_gelu
timm.layers.activations_me swish_me | world:silu
timm.layers.activations_me mish_me | world:mish
timm.layers.activations_me hard_swish_me | world:hardswish
timm.layers.activations_me hard_sigmoid_me | world:hard_sigmoid
timm.layers.activations_me hard_mish_me | world:hard_mish
"""
_CALL = "\n\ndef run(x):\n    return {name}(x)\n"
_MODULE = """

def run({given}):
    with torch.no_grad():
        return with_parameters({made}{set})({called})
"""
_ROW, _CHANNELS = "x.shape[-1], eps=eps", "x.shape[1], eps=eps"
_WEIGHT, _BOTH = "weight=weight", "weight=weight, bias=bias"
_LAYERS = "fc1__weight=w1, fc1__bias=b1, fc2__weight=w2, fc2__bias=b2"
_POINTS = (
    "fc1__weight=w1[:, :, None, None], fc1__bias=b1, fc2__weight=w2[:, :, None, None], fc2__bias=b2"
)
_TIMM_MLP, _TIMM_NORM = "timm.layers.mlp", "timm.layers.norm"
_VISION, _DIFFUSION = "torchvision.ops.misc", "diffusers.models.normalization"
# module | definition | problem | how it is made | its parameters
_MODULES = (
    (_TIMM_NORM, "LayerNorm", "layernorm", _ROW, _BOTH),
    (_TIMM_NORM, "LayerNormFp32", "layernorm", _ROW, _BOTH),
    (_TIMM_NORM, "RmsNorm", "rmsnorm", _ROW, _WEIGHT),
    (_TIMM_NORM, "RmsNormFp32", "rmsnorm", _ROW, _WEIGHT),
    (_TIMM_NORM, "LayerNorm2d", "world:layernorm_channels", _CHANNELS, _BOTH),
    (_TIMM_NORM, "LayerNorm2dFp32", "world:layernorm_channels", _CHANNELS, _BOTH),
    (_TIMM_NORM, "LayerNormExp2d", "world:layernorm_channels", _CHANNELS, _BOTH),
    (_TIMM_NORM, "RmsNorm2d", "world:rmsnorm_channels", _CHANNELS, _WEIGHT),
    (_TIMM_NORM, "RmsNorm2dFp32", "world:rmsnorm_channels", _CHANNELS, _WEIGHT),
    (_TIMM_NORM, "SimpleNorm", "world:simple_norm", _ROW, _WEIGHT),
    (_TIMM_NORM, "SimpleNormFp32", "world:simple_norm", _ROW, _WEIGHT),
    (
        "timm.layers.layer_scale",
        "LayerScale",
        "world:layer_scale",
        "x.shape[-1]",
        "gamma=weight.to(x.dtype)",
    ),
    (_TIMM_MLP, "Mlp", "world:mlp_gelu", "x.shape[-1], w1.shape[0]", _LAYERS),
    (
        _TIMM_MLP,
        "SwiGLU",
        "world:mlp_swiglu",
        "x.shape[-1], gate.shape[0], bias=False",
        "fc1_g__weight=gate, fc1_x__weight=up, fc2__weight=down",
    ),
    (
        _TIMM_MLP,
        "GluMlp",
        "world:mlp_swiglu",
        "x.shape[-1], 2 * gate.shape[0], act_layer=nn.SiLU, bias=False, gate_last=False",
        "fc1__weight=torch.cat((gate, up)), fc2__weight=down",
    ),
    (
        _VISION,
        "FrozenBatchNorm2d",
        "world:frozen_batchnorm",
        _CHANNELS,
        "weight=weight, bias=bias, running_mean=mean, running_var=variance",
    ),
    (
        _VISION,
        "SqueezeExcitation",
        "world:squeeze_excite",
        "x.shape[1], w1.shape[0]",
        _POINTS,
    ),
    (
        _VISION,
        "MLP",
        "world:mlp_relu",
        "x.shape[-1], [w1.shape[0], x.shape[-1]]",
        '**{"0__weight": w1, "0__bias": b1, "3__weight": w2, "3__bias": b2}',
    ),
    ("diffusers.models.activations", "FP32SiLU", "world:silu", "", ""),
    (_DIFFUSION, "FP32LayerNorm", "layernorm", _ROW, _BOTH),
    (_DIFFUSION, "RMSNorm", "rmsnorm", _ROW, _WEIGHT),
    (_DIFFUSION, "MochiRMSNorm", "rmsnorm", _ROW, _WEIGHT),
    (
        _DIFFUSION,
        "AdaLayerNorm",
        "world:layernorm_modulated",
        "conditions.shape[-1], output_dim=2 * x.shape[-1], norm_eps=eps, chunk_dim=1",
        "linear__weight=projection, linear__bias=offset",
    ),
)
_IN_16_BITS = ("RmsNorm2d", "SimpleNorm")
_FOCAL = (
    "\n\ndef run(logits, labels):\n    return sigmoid_focal_loss(logits, labels.to(logits.dtype))\n"
)


def _adapter(
    module: str, name: str, problem: str, text: str, dtypes: tuple[str, ...] = ALL
) -> Adapter:
    return Adapter(
        name=name,
        problem=problem,
        package=module.split(".")[0],
        needs=(f"{module}:{name}",),
        text=PARAMETERS + text,
        dtypes=dtypes,
        rejected_in_16_bits=STATISTIC if name in _IN_16_BITS else "",
    )


def _adapters() -> Iterator[Adapter]:
    from gate_trials import load_problem

    for definition, problem in table(_ACTIVATIONS):
        module, name = definition.split()
        yield _adapter(module, name, problem, _CALL.format(name=name))
    for module, name, problem, made, parameters in _MODULES:
        text = _MODULE.format(
            given=", ".join(one.name for one in load_problem(problem, "").inputs),
            made=f"{name}({made})",
            set=f", {parameters}" if parameters else "",
            called="x, temb=conditions" if name == "AdaLayerNorm" else "x",
        )
        yield _adapter(module, name, problem, text)
    focal = "torchvision.ops.focal_loss"
    yield _adapter(focal, "sigmoid_focal_loss", "world:focal_loss", _FOCAL, ("float32",))


ADAPTERS = tuple(_adapters())
