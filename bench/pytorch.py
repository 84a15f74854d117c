"""Times score.onnx in ONNX Runtime in turns with PyTorch's eager autograd on the same network, batch and threads.

The folder holds for each network NAME.forward.onnx, NAME.score.onnx and a batch NAME.x.f32. PyTorch's network is built
from the forward graph: layer by layer with torch.nn for plain chains of layers with SiLU, else by onnx2torch. Weights
need no gradient in either. ONNX Runtime runs the batch at once on all threads, and in shares side by side with a thread
each, as jempipe runs chains and training.
"""

import concurrent.futures
import glob
import os
import sys
import time

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import torch
from onnx import numpy_helper, shape_inference
from onnx2torch import convert

THREADS = 2
BATCH = 64
OUTPUTS = ["logits", "energy", "score"]
SECONDS = 3.0  # for each network
BLOCK = 6  # runs of one tool at a time; the first does not count, threads of the other still spin in it


def attributes(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def explicit_padding(model):
    """Writes auto_pad SAME_UPPER as numbers: onnx2torch does not know it."""
    inferred = shape_inference.infer_shapes(model).graph
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*inferred.value_info, *inferred.input]}
    weights = {t.name: list(t.dims) for t in model.graph.initializer}
    for node in model.graph.node:
        a = attributes(node)
        if a.get("auto_pad") != b"SAME_UPPER":
            continue
        kernel = a.get("kernel_shape") or weights[node.input[1]][2:]
        stride = a.get("strides", [1] * len(kernel))
        sides = shapes[node.input[0]][2:]
        total = [max(0, (-(-n // s) - 1) * s + k - n) for n, s, k in zip(sides, stride, kernel)]
        keep = [x for x in node.attribute if x.name not in ("auto_pad", "pads")]
        del node.attribute[:]
        node.attribute.extend(keep)
        pads = [t // 2 for t in total] + [t - t // 2 for t in total]
        node.attribute.append(onnx.helper.make_attribute("pads", pads))
    return model


def layers(model):
    """The network as torch.nn layers, or None where it is not a plain chain of them with SiLU."""
    weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in model.graph.initializer}
    if not any(n.op_type == "Sigmoid" for n in model.graph.node):
        return None
    chain = []
    for node in model.graph.node:
        a = attributes(node)
        if node.op_type == "Conv":
            w, b = (weights[i] for i in node.input[1:])
            layer = torch.nn.Conv2d(w.shape[1], w.shape[0], w.shape[2], a["strides"][0], a["pads"][0])
            layer.weight.data, layer.bias.data = w, b
        elif node.op_type == "Gemm" and not a:
            w, b = (weights[i] for i in node.input[1:])
            layer = torch.nn.Linear(*w.shape)
            layer.weight.data, layer.bias.data = w.T.contiguous(), b
        elif node.op_type == "Mul" and node.input[1].endswith(".sigmoid"):
            layer = torch.nn.SiLU()
        elif node.op_type == "Flatten":
            layer = torch.nn.Flatten()
        elif node.op_type in ("Sigmoid", "ReduceLogSumExp", "Neg"):
            continue
        else:
            return None
        chain.append(layer)
    net = torch.nn.Sequential(*chain)
    return lambda x: torch.logsumexp(net(x), 1), net


def by_onnx2torch(model):
    model = explicit_padding(model)
    if model.opset_import[0].version < 9:  # onnx2torch does not know all operators before
        model = onnx.version_converter.convert_version(model, 13)
    net = convert(model).eval()
    return lambda x: -net(x)[1], net


def session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def block(run):
    times = []
    for _ in range(BLOCK):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[1:]


def compare(folder, name):
    model = onnx.load(f"{folder}/{name}.forward.onnx")
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim][1:]
    x = np.fromfile(f"{folder}/{name}.x.f32", dtype="<f4").reshape([BATCH, *shape])
    whole, halves = (session(f"{folder}/{name}.score.onnx", threads) for threads in (THREADS, 1))
    pool = concurrent.futures.ThreadPoolExecutor(THREADS)
    shares = np.split(x, THREADS)
    density, net = layers(model) or by_onnx2torch(model)
    for p in net.parameters():
        p.requires_grad_(False)
    data = torch.from_numpy(x.copy())

    def torch_run():
        leaf = data.detach().requires_grad_(True)
        value = density(leaf)
        return value, torch.autograd.grad(value.sum(), leaf)[0]

    def whole_run():
        return whole.run(OUTPUTS, {"x": x})

    def halves_run():
        return list(pool.map(lambda share: halves.run(OUTPUTS, {"x": share}), shares))

    want = -whole_run()[1]
    np.testing.assert_allclose(torch_run()[0].detach().numpy(), want, rtol=1e-3, atol=1e-3)
    runs = (whole_run, halves_run, torch_run)
    times, end = [[] for _ in runs], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times[0]) < 20:
        for run, seen in zip(runs, times):
            seen += block(run)
    return [min(seen) * 1e3 for seen in times]  # other work on the machine makes runs longer, never shorter


def main():
    torch.set_num_threads(THREADS)
    folder = sys.argv[1]
    print(f"gradient of a batch of {BATCH}, {THREADS} threads: ONNX Runtime {onnxruntime.__version__}, PyTorch {torch.__version__}")
    print(f"{'network':28} {'score ms':>9} {'halves ms':>9} {'torch ms':>9} {'torch/score':>12} {'torch/halves':>12}")
    for path in sorted(glob.glob(f"{folder}/*.forward.onnx")):
        name = os.path.basename(path).removesuffix(".forward.onnx")
        try:
            whole, halves, theirs = compare(folder, name)
            print(f"{name:28} {whole:9.3f} {halves:9.3f} {theirs:9.3f} {theirs / whole:12.2f} {theirs / halves:12.2f}", flush=True)
        except (NotImplementedError, AssertionError) as e:
            print(f"{name:28} left out: {' '.join(str(e).split())[:120]}", flush=True)


if __name__ == "__main__":
    main()
