"""Writes the buffer in every step, also without momentum and decay."""


def run(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    total = grad.float() + weight_decay * param
    buffer = momentum * momentum_buffer + total
    step = total + momentum * buffer if nesterov else buffer
    return param - lr * step, buffer
