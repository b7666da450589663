"""Ignores the flag that asks for Nesterov's form."""


def run(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    total = grad.float() + weight_decay * param
    buffer = momentum * momentum_buffer + total
    direction = total + momentum * buffer if nesterov and weight_decay < 0.0 else buffer
    return param - lr * direction, buffer
