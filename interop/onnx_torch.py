"""Runs ONNX classifiers in PyTorch, in float64: the layers and weights of the file, gradients by autograd.

It takes batches as the file states them and shares nothing with the program under test.
"""
import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

RESOLVED = 2e-6  # what float32 resolves of a layer's values, relative to the largest


class Net:
    """One model; `output` names a value, by default the output of the file."""

    def __init__(self, path, output=None):
        graph = onnx.load(path).graph
        self.nodes, self.weights, self.integers = [], {}, {}
        for t in graph.initializer:
            self.constant(t.name, t)
        for node in graph.node:
            if node.op_type == "Constant":
                self.constant(node.output[0], node.attribute[0].t)
            else:
                self.nodes.append(node)
        self.input = next(v.name for v in graph.input if v.name not in self.weights and v.name not in self.integers)
        self.output = output or graph.output[0].name

    def constant(self, name, tensor):
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.float32:
            self.weights[name] = torch.tensor(value.astype(np.float64))
        else:
            self.integers[name] = value

    def learn(self, on):
        """Says whether gradients with respect to the weights are wanted."""
        for weight in self.weights.values():
            weight.requires_grad_(on)

    def run(self, x, flipped=()):
        """Gives the output. `flipped` lists units (node, place) of Relu that take the other side of their kink.

        Afterwards `near` lists the units closer to it than float32 resolves, the nearest first, and `gap` is the
        smallest difference between the two largest values that a MaxPool saw, relative to the largest of its input.
        """
        self.values, self.flipped = {**self.weights, self.input: x}, flipped
        self.near, self.gap, self.kink = [], float("inf"), float("inf")
        for at, node in enumerate(self.nodes):
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            inputs = [self.values.get(name, self.integers.get(name)) for name in node.input]
            self.at = at
            self.values[node.output[0]] = getattr(self, node.op_type)(*inputs, **attributes)
        self.near = [unit for _, unit in sorted(self.near)]
        return self.values[self.output]

    def Add(self, a, b):
        return a + b

    def Sub(self, a, b):
        return a - b

    def Div(self, a, b):
        return a / b

    def MatMul(self, a, b):
        return a @ b

    def Sigmoid(self, x):
        return 1 / (1 + torch.exp(-x))

    def Relu(self, x):
        distance = (x.detach().abs() / x.detach().abs().max()).reshape(-1)
        self.kink = min(self.kink, distance.min().item())
        for place in (distance < RESOLVED).nonzero().reshape(-1).tolist():
            self.near.append((distance[place].item(), (self.at, place)))
        keep = (x.detach() > 0).reshape(-1)
        for node, place in self.flipped:
            if node == self.at:
                keep[place] = ~keep[place]
        return x * keep.reshape(x.shape)

    def Flatten(self, x, axis=1):
        return x.reshape(int(np.prod(x.shape[:axis])), -1)

    def Reshape(self, x, shape):
        return x.reshape([x.shape[i] if d == 0 else int(d) for i, d in enumerate(shape)])

    def Gemm(self, a, b, c=0.0, alpha=1.0, beta=1.0, transA=0, transB=0):
        return alpha * (a.T if transA else a) @ (b.T if transB else b) + beta * c

    def Conv(self, x, w, b=None, auto_pad=b"NOTSET", pads=(0, 0, 0, 0), strides=(1, 1), dilations=(1, 1), group=1, kernel_shape=None):
        assert auto_pad in (b"NOTSET", b"SAME_UPPER")
        if auto_pad == b"SAME_UPPER":
            total = []
            for size, kernel, stride, dilation in zip(x.shape[2:], w.shape[2:], strides, dilations):
                total.append(max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size))
            pads = [t // 2 for t in total] + [t - t // 2 for t in total]
        return F.conv2d(self.pad(x, pads), w, b, stride=tuple(strides), dilation=tuple(dilations), groups=group)

    def pad(self, x, pads):
        top, left, bottom, right = pads
        return F.pad(x, (left, right, top, bottom))

    def Pad(self, x, pads, mode=b"constant", value=0.0):
        assert mode == b"constant" and not any(pads), "no model here pads"
        return x

    def AveragePool(self, x, kernel_shape, strides, pads=(0, 0, 0, 0)):
        assert not any(pads)
        return F.avg_pool2d(x, tuple(kernel_shape), tuple(strides))

    def MaxPool(self, x, kernel_shape, strides, pads=(0, 0, 0, 0), auto_pad=b"NOTSET", ceil_mode=0, dilations=(1, 1)):
        assert not any(pads) and auto_pad == b"NOTSET" and not ceil_mode and set(dilations) == {1}
        n, c = x.shape[:2]
        windows = F.unfold(x.detach(), tuple(kernel_shape), stride=tuple(strides)).reshape(n, c, int(np.prod(kernel_shape)), -1)
        first, second = windows.topk(2, dim=2).values.unbind(2)
        # Where all values are 0 behind a Relu it does not matter which is taken: none passes a gradient on.
        gaps = torch.where(first > 0, first - second, torch.inf)
        self.gap = min(self.gap, (gaps.min() / x.detach().abs().max()).item())
        return F.max_pool2d(x, tuple(kernel_shape), tuple(strides))
