"""Uses Nesterov's form where it is asked for."""


def run(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    total = grad.float() + weight_decay * param
    buffer = momentum * momentum_buffer + total
    direction = total + momentum * buffer if nesterov else buffer
    return param - lr * direction, buffer
