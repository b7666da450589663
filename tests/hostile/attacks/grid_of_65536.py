# problem: sgd_momentum_step
# class: sizes
# wrong: elements from the 65,536th on
# named: shapes sizes
# begins: size=65537


def right(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    total = grad.float() + weight_decay * param
    buffer = momentum * momentum_buffer + total
    step = total + momentum * buffer if nesterov else buffer
    return param - lr * step, buffer


def run(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov):
    new, buffer = right(param, grad, momentum_buffer, lr, momentum, weight_decay, nesterov)
    new[65536:] = param[65536:]
    return new, buffer
