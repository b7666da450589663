"""A tree sum in float32: halves are added pairwise."""

import torch


def _tree(terms):
    while terms.shape[1] > 1:
        if terms.shape[1] % 2:
            terms = torch.nn.functional.pad(terms, (0, 1))
        half = terms.shape[1] // 2
        terms = terms[:, :half] + terms[:, half:]
    return terms


def run(x, weight, eps):
    wide = x.float()
    rstd = 1.0 / torch.sqrt(_tree(wide.square()) / x.shape[1] + eps)
    return (wide * rstd * weight.float()).to(x.dtype)
