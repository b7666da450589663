"""torch.optim.SGD's own order of operations."""


def run(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    total = grad.float().add(param, alpha=weight_decay)
    buffer = momentum_buffer.mul(momentum).add_(total)
    direction = total.add(buffer, alpha=momentum) if nesterov else buffer
    return param.add(direction, alpha=-lr), buffer
