"""Sums the weight gradient over rows as a tree of pairs in bfloat16."""

import torch


def _tree(terms):
    while len(terms) > 1:
        odd = terms[len(terms) // 2 * 2 :]
        terms = torch.cat((terms[0 : len(terms) // 2 * 2 : 2] + terms[1::2], odd))
    return terms[0]


def run(grad_output, x, weight, rstd):
    grad, scale = grad_output.float(), rstd[:, None]
    normed = x.float() * scale
    weighted = grad * weight.float()
    along = (weighted * normed).mean(-1, keepdim=True)
    grad_x = ((weighted - normed * along) * scale).to(x.dtype)
    return grad_x, _tree((grad * normed).to(torch.bfloat16)).to(weight.dtype)
