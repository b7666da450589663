"""Liger-Kernel's cross-entropy, which writes the gradient over its input: on a copy."""

from liger_kernel.ops.cross_entropy import cross_entropy_backward, cross_entropy_forward


def run(logits, targets, grad_loss, label_smoothing):
    copy = logits.clone().requires_grad_()
    gradient = cross_entropy_forward(
        copy, targets, None, -100, 0.0, label_smoothing, "none", None, False
    )[4]
    return cross_entropy_backward(gradient.detach(), grad_loss)
