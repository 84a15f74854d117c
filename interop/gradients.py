"""Compares gradient graphs of public classifiers with autograd of PyTorch, and runs them in Python's onnxruntime.

usage: gradients.py JEMPIPE [MODEL ...]

The gradient graphs are those of `jempipe export gradient`. The models and samples are looked for in
$JEMPIPE_TEST_DATA, else in shared/data in a folder above the working directory.
"""
import collections
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

try:
    import torch
    from onnx_torch import RESOLVED, Net
except ImportError as e:
    print(f"not compared with PyTorch, which is not installed ({e})")
    torch = None

ROWS, BATCHES = 64, (1, 7, 64)
TOLERANCE = 1e-4  # relative to the largest absolute value of a row
# What float32 leaves of 1 - p for a probability p near 1: readouts of probabilities have gradients that are that much
# off, relative to the gradient of a logit, however they are computed from float32 logits.
SATURATED = 2.0**-21
# The rows of a batch may be on another side of a kink than alone, where float32 does not resolve on which they are.
SAME_ROW, SAME_ROWS = 1e-2, 0.9
FLIPS = 12  # units of a row that are tried on both sides
COUNTED = "compared", "other sides", "saturated rows"

A = ((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616))
B = ((0.485, 0.456, 0.406), 0.225)
MNIST, CIFAR = "mnist/t10k-images-idx3-ubyte.gz", "cifar10/test100-lossless-images-idx4-ubyte.gz"
# name: file with samples, scale of the values, (mean, std) of a channel
DIFFERENTIABLE = {
    "mnist-cntk-zoo8": (MNIST, 1, (0, 1)),
    "mnist-cntk-optimised": (MNIST, 1, (0, 1)),
    "mnist-cnn-pytorch-opset11": (MNIST, 255, (0.5, 0.5)),
    "mnist-mlp-256x2": (MNIST, 255, (0, 1)),
    "mnist-convnet-avgpool": (MNIST, 255, (0, 1)),
    "mnist-mlp-sigmoid-6x200": (MNIST, 255, (0, 1)),
    "cifar10-resnet-2b": (CIFAR, 255, A),
    "cifar10-resnet-4b": (CIFAR, 255, A),
    "cifar10-base-kw": (CIFAR, 255, B),
    "cifar10-allconv": (CIFAR, 255, A),
    "binary-mlp-keras-sigmoid": (None, 1, (0, 1)),
    "tiny-mlp-opset13": (None, 1, (0, 1)),
}
# name: part of the message that says why there is no gradient
REFUSED = {
    "wine-lgbm-hummingbird": "Less",
    "wine-xgboost-trees": "probabilities and no logits",
    "iris-randomforest-sklearn": "probabilities and no logits",
    "jets-mlp-batchnorm-opset6": "operator set 6",
    "unsupported-quant-bnn": "onnx.brevitas",
}
# How many rows are compared with PyTorch, whose convolutions in float64 are slow.
COMPARED = {CIFAR: 16}
failures, checks = [], collections.Counter()


def check(group, ok, message):
    checks[group] += 1
    if not ok:
        failures.append(f"{group}: {message}")


def data_folder():
    if folder := os.environ.get("JEMPIPE_TEST_DATA"):
        return pathlib.Path(folder)
    for up in (here := pathlib.Path.cwd(), *here.parents):
        if (folder := up / "shared" / "data").is_dir():
            return folder
    return None


def idx(path):
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, {8: "u1", 13: ">f4"}[data[2]], offset=4 + 4 * data[3]).reshape(shape)


class Model:
    """One public model, its samples, and the gradient graphs that the program writes of it."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.data, self.scale, (self.mean, self.std) = DIFFERENTIABLE[name]
        self.path = folder / "onnx/models" / f"{name}.onnx"
        graph = onnx.load(self.path).graph
        constants = {t.name for t in graph.initializer}
        (value,) = [v for v in graph.input if v.name not in constants]
        self.input, self.answer = value.name, graph.output[0].name
        self.weights = [t.name for t in graph.initializer if t.dims and t.data_type == onnx.TensorProto.FLOAT]
        self.shape = [d.dim_value for d in value.type.tensor_type.shape.dim][1:]
        # A single probability at the end: the classifier has the logits 0 and what the sigmoid takes.
        last = graph.node[-1]
        self.binary = last.op_type == "Sigmoid"
        self.logits = last.input[0] if self.binary else graph.output[0].name
        self.rng = np.random.default_rng(20)

    def prepared(self, raw):
        x = (raw / self.scale - np.array(self.mean)) / np.array(self.std)
        if x.ndim == 4:
            x = x.transpose(0, 3, 1, 2)
        return x.reshape(-1, *self.shape).astype(np.float32)

    def originals(self):
        return idx(self.folder / self.data)[:100].astype(float)

    def sample(self, row):
        """A sample of its own at each call. Pictures have constant backgrounds, on which the values that a pooling
        layer compares are equal and those that a Relu takes may be 0, where frameworks may choose different
        derivatives: a little noise keeps off such points. Every other row lies between two pictures, so that some
        probabilities are not all but 0 and 1."""
        if self.data is None:
            return self.rng.normal(size=(1, *self.shape)).astype(np.float32)
        x = self.pictures[row]
        if row % 2:
            x = (x + self.pictures[99 - row // 2]) / 2
        return self.prepared((x + self.rng.uniform(-2, 2, x.shape))[None])

    def samples(self, usable):
        """Samples, drawn again until they are usable."""
        if self.data:
            self.pictures = self.originals()
        rows = []
        for row in range(ROWS):
            x = self.sample(row)
            for _ in range(20):
                if usable(x):
                    break
                x = self.sample(row)
            rows.append(x)
        return np.concatenate(rows)

    def export(self, of, *flags):
        """Writes a gradient graph, checks the file, and gives a session of it and the name of the gradient."""
        path, what = scratch / "gradient.onnx", f"{self.name} {of} {' '.join(flags)}"
        done = export(self.path, path, "--of", of, *flags)
        if done.returncode:
            raise ValueError(f"{what}: {done.stderr}")
        try:
            onnx.checker.check_model(str(path), full_check=True)
            model = onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True, data_prop=True)
        except Exception as e:  # the checker and the inference have exceptions of their own
            raise ValueError(f"{what}: {e}")
        domains = {o.domain for o in model.opset_import}
        check("files", domains <= {"", "ai.onnx.ml"}, f"{what}: operators of the domains {domains}")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        gradient = session.get_outputs()[-1]
        if "--wrt" not in flags:
            shapes = session.get_inputs()[0].shape, gradient.shape
            free = not isinstance(shapes[0][0], int) or "--free-batch" not in flags
            check("files", shapes[0] == shapes[1] and free, f"{what}: shapes of the input and its gradient {shapes}")
        return session, gradient.name


def export(path, to, *flags):
    return subprocess.run([sys.argv[1], "export", "gradient", "-o", to, *flags, path], capture_output=True, text=True)


def apart(got, want):
    """The largest difference of each row, relative to its largest value."""
    got, want = (v.reshape(len(v), -1).astype(float) for v in (got, want))
    return np.abs(got - want).max(1) / np.maximum(np.abs(want).max(1), 1e-300)


class Autograd:
    """What PyTorch has for each row."""

    def __init__(self, model, readouts, k):
        self.net, self.readouts, self.k = Net(model.path, model.logits), readouts, k
        self.binary, self.answer = model.binary, model.answer

    def usable(self, x):
        if not any(n.op_type == "MaxPool" for n in self.net.nodes):
            return True
        with torch.no_grad():
            self.net.run(torch.tensor(x.astype(np.float64)))
        return self.net.gap > RESOLVED

    def run(self, x, flipped=()):
        z = self.net.run(x, flipped)
        return torch.cat([torch.zeros_like(z), z], 1) if self.binary else z

    def readout(self, z, of):
        lse = torch.logsumexp(z, 1)
        return {"energy": lse, "confidence": torch.exp(z.max(1).values - lse), "logit": z[:, self.k],
                "logprob": z[:, self.k] - lse, "loss": lse - z[:, self.k]}[of.split(":")[0]].sum()

    def gradient(self, x, of, flipped=()):
        x = torch.tensor(x.astype(np.float64), requires_grad=True)
        return torch.autograd.grad(self.readout(self.run(x, flipped), of), x)[0].numpy()

    def rows(self, samples):
        """The output of the file, gradients of all readouts, units near a kink and the distance of the nearest, of each row."""
        self.compared = len(samples)
        self.answers, self.grads, self.near, self.kinks = [], {of: [] for of in self.readouts}, [], []
        for row in range(self.compared):
            x = torch.tensor(samples[row : row + 1].astype(np.float64), requires_grad=True)
            z = self.run(x)
            self.near.append(self.net.near)
            self.kinks.append(self.net.kink)
            self.answers.append(self.net.values[self.answer].detach().numpy()[0])
            for of in self.readouts:
                self.grads[of].append([torch.autograd.grad(self.readout(z, of), x, retain_graph=True)[0].numpy()])
        self.samples = samples

    def off(self, row, of, got):
        """How far a gradient is from the nearest that PyTorch gives with the units near their kinks on either side."""
        known = self.grads[of][row]
        best = min(apart(got, g)[0] for g in known)
        flipped = []
        for unit in self.near[row][:FLIPS]:
            if best <= TOLERANCE + self.floor(row, of):
                break
            g = self.gradient(self.samples[row : row + 1], of, [*flipped, unit])
            if (d := apart(got, g)[0]) < best:
                best, flipped = d, [*flipped, unit]
                known.append(g)
        return best, bool(flipped)

    def floor(self, row, of):
        """What of the gradient's relative difference is the rounding of probabilities in float32."""
        if of == "energy" or of.startswith("logit"):
            return 0
        size = [np.abs(self.grads[r][row][0]).max() for r in (f"logit:{self.k}", of)]
        return SATURATED * size[0] / max(size[1], 1e-300)

    def weights(self, samples, of):
        """Gradients of the sum over the rows."""
        total = {name: 0 for name in self.net.weights}
        self.net.learn(True)
        for row in range(len(samples)):
            z = self.run(torch.tensor(samples[row : row + 1].astype(np.float64)))
            grads = torch.autograd.grad(self.readout(z, of), list(self.net.weights.values()), allow_unused=True)
            for name, g in zip(self.net.weights, grads):
                total[name] = total[name] + (0 if g is None else g.numpy())
        return total


def batches(session, names, samples, size):
    (x,) = session.get_inputs()
    parts = [session.run(names, {x.name: samples[i : i + size]}) for i in range(0, len(samples), size)]
    return [np.concatenate(column) for column in zip(*parts)]


def check_readout(model, reference, samples, of):
    """Checks one gradient graph, and gives the largest differences."""
    session, gradient = model.export(of, "--free-batch")
    names = [model.answer, gradient]
    answers, score = batches(session, names, samples, ROWS)
    worst = collections.defaultdict(float)
    for size in BATCHES:
        z, g = batches(session, names, samples, size)
        d = apart(g, score)
        check("rows", (d <= TOLERANCE).mean() >= SAME_ROWS and d.max() <= SAME_ROW and apart(z, answers).max() <= TOLERANCE,
              f"{model.name} {of}: batches of {size} differ from one of {ROWS} by {d.max():.1e}")
        if not torch:
            continue
        d = apart(z[: reference.compared], np.stack(reference.answers))
        worst["outputs"] = max(worst["outputs"], d.max())
        check("outputs", d.max() <= TOLERANCE, f"{model.name}: batches of {size} are off by {d.max():.1e}")
        for row in range(reference.compared):
            d, flipped = reference.off(row, of, g[row : row + 1])
            floor = reference.floor(row, of)
            worst["compared"] += 1
            if floor > TOLERANCE:
                worst["saturated"] = max(worst["saturated"], d / floor)
                worst["saturated rows"] += 1
            else:
                worst[of] = max(worst[of], d)
            worst["other sides"] += flipped
            check("gradients", d <= TOLERANCE + floor, f"{model.name} {of}: row {row} in batches of {size} is off by {d:.1e}")
    return worst


def check_weights(model, reference, samples):
    """The gradients with respect to weights, of a batch of the rows that are farthest from kinks."""
    far = np.sort(np.argsort(reference.kinks)[-7:])
    want, worst = reference.weights(samples[far], "energy"), 0
    for name in model.weights:
        session, gradient = model.export("energy", "--free-batch", "--wrt", name)
        (got,) = session.run([gradient], {model.input: samples[far]})
        d = apart(got[None], want[name][None])[0]
        worst = max(worst, d)
        check("weights", got.shape == want[name].shape and d <= TOLERANCE, f"{model.name}: {name} is off by {d:.1e}")
    return worst


def check_batch(model, samples):
    """The file with the batch size as it was, and the outputs for the samples as they are against the stored ones."""
    kept, free = (model.export("energy", *flags)[0] for flags in ([], ["--free-batch"]))
    for got, want in zip(*(batches(s, None, samples[:7], 1) for s in (kept, free))):
        d = apart(got, want).max()
        check("batch as it was", d <= TOLERANCE, f"{model.name}: differs from that with a free batch by {d:.1e}")
    for path in model.folder.glob(f"onnx/models/{model.name}.ref100*"):
        want, x = idx(path), model.prepared(model.originals())
        for size in BATCHES:
            d = apart(batches(free, [model.answer], x, size)[0], want).max()
            check("stored outputs", d <= TOLERANCE, f"{model.name}: batches of {size} differ by {d:.1e}")


def check_model(name, folder):
    model = Model(name, folder)
    k = 1 if model.data is None else 3
    readouts = ["energy", f"logit:{k}", f"logprob:{k}", f"loss:{k}", "confidence"]
    reference = Autograd(model, readouts, k) if torch else None
    samples = model.samples(reference.usable if torch else lambda x: True)
    if torch:
        reference.rows(samples[: COMPARED.get(model.data, ROWS)])
    worst = collections.Counter()
    for of in readouts:
        for what, d in check_readout(model, reference, samples, of).items():
            worst[what] = worst[what] + d if what in COUNTED else max(worst[what], d)
    check_batch(model, samples)
    if not torch:
        return
    worst["weights"] = check_weights(model, reference, samples)
    compared, flipped, rows, saturated = (worst.pop(what, 0) for what in (*COUNTED, "saturated"))
    text = ", ".join(f"{what} {d:.1e}" for what, d in worst.items())
    print(f"{name}: {text}; of {compared:.0f} gradients {flipped:.0f} with other sides of kinks, "
          f"{rows:.0f} of saturated probabilities within {saturated:.2f} of what float32 leaves", flush=True)


def check_refused(name, reason, folder):
    path = folder / "onnx/models" / f"{name}.onnx"
    done = export(path, scratch / "none.onnx")
    check("refused", done.returncode != 0 and reason in done.stderr, f"{name}: exit code {done.returncode}, {done.stderr!r}")


folder = data_folder()
if folder is None:
    print("gradients of public classifiers are not compared: set JEMPIPE_TEST_DATA or put the data sets in shared/data beside the repository")
    sys.exit()
with tempfile.TemporaryDirectory() as directory:
    scratch = pathlib.Path(directory)
    for name in sys.argv[2:] or DIFFERENTIABLE:
        try:
            check_model(name, folder)
        except ValueError as e:
            check("files", False, e)
    for name, reason in REFUSED.items():
        check_refused(name, reason, folder)
for f in failures:
    print("FAIL", f)
print("; ".join(f"{n} {g}" for g, n in sorted(checks.items())))
print(f"{sum(checks.values()) - len(failures)} passed, {len(failures)} failed")
sys.exit(bool(failures))
