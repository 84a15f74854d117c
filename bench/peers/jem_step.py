"""Times JEM training steps and SGLD chains in PyTorch, for a program that measures the same beside it.

Reads one JSON request a line from standard input and answers each with one JSON line:

    {"op": "net", "net": NAME, "arch": {...}, "params": [{"name", "shape"}], "weights": FILE, "x": FILE, "score": FILE,
     "batch": 64, "steps": 20, "step_size": 1, "grad_clip": 0.1, "noise_std": 0.01, "range": [-1, 1], "buffer_size": 10000,
     "restart": 0.05, "data_noise": 0.1, "energy_l2": 0.1, "lr": 1e-4, "betas": [0, 0.999], "clip_norm": 1}
        builds the network from the same description and weights as the other program (float32, one parameter after the
        other), and writes d logsumexp(logits) / dx of the batch x to the file score, so that both are seen to be equal
    {"op": "time", "net": NAME, "mode": "eager" | "compile", "what": "chain" | "step", "repeats": 5}
        answers {"ms": [...], "note": ...}; the first answer for a network and mode takes longer: it warms up
    {"op": "about"}
        answers versions, threads and device

A request that fails is answered with {"error": TEXT}.
"""

import argparse
import json
import sys
import time

import numpy as np
import torch
from torch import nn

LEAKY_SLOPE = 0.2
ACTIVATIONS = {
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "leaky_relu": lambda: nn.LeakyReLU(LEAKY_SLOPE),
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "softplus": nn.Softplus,
}


class Residual(nn.Module):
    """body(x) + shortcut(x); an empty shortcut is the identity."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Builder:
    """Turns the description of a network into torch.nn layers; by_name finds those with parameters."""

    def __init__(self):
        self.by_name = {}

    def chain(self, layers, shape, prefix=""):
        modules = []
        for spec in layers:
            module = self.layer(spec, shape, prefix)
            with torch.no_grad():
                shape = tuple(module(torch.zeros(1, *shape)).shape[1:])
            modules.append(module)
        return nn.Sequential(*modules), shape

    def layer(self, spec, shape, prefix):
        kind, name = spec["kind"], prefix + spec["name"]
        if kind == "conv":
            bias = not spec.get("no_bias", False)
            module = nn.Conv2d(shape[0], spec["out"], spec["kernel"], spec["stride"], spec.get("pad", 0), bias=bias)
        elif kind == "dense":
            module = nn.Linear(shape[0], spec["out"], bias=not spec.get("no_bias", False))
        elif kind == "flatten":
            return nn.Flatten()
        elif kind == "act":
            return ACTIVATIONS[spec["func"]]()
        elif kind == "pool":
            return self.pool(spec)
        elif kind == "residual":
            body, _ = self.chain(spec["body"], shape, name + ".")
            shortcut, _ = self.chain(spec.get("shortcut") or [], shape, name + ".")
            return Residual(body, shortcut)
        else:
            raise NotImplementedError(f"a layer of kind {kind} is not written for PyTorch here")
        self.by_name[name] = module
        return module

    def pool(self, spec):
        if spec["pool"] == "global":
            return nn.AdaptiveAvgPool2d(1)
        pool = {"max": nn.MaxPool2d, "avg": nn.AvgPool2d}[spec["pool"]]
        return pool(spec["kernel"], spec["stride"], spec.get("pad", 0))

    def load(self, params, values):
        at = 0
        with torch.no_grad():
            for p in params:
                layer, kind = p["name"].rsplit(".", 1)
                n = int(np.prod(p["shape"]))
                value = torch.from_numpy(values[at : at + n].reshape(p["shape"]))
                at += n
                dense = kind == "weight" and isinstance(self.by_name[layer], nn.Linear)  # there [in, out], here [out, in]
                getattr(self.by_name[layer], kind).copy_(value.T if dense else value)
        if at != len(values):
            raise ValueError(f"{len(values)} weights given, {at} used")


class Job:
    """A network with its buffer, data and optimiser, in one memory format."""

    def __init__(self, request, device, memory_format):
        self.r, self.device, self.format = request, device, memory_format
        builder = Builder()
        self.net, _ = builder.chain(request["arch"]["layers"], request["arch"]["input"])
        builder.load(request["params"], request["values"])
        self.net.to(device, memory_format=memory_format)
        self.apply = self.net
        self.params = list(self.net.parameters())
        self.opt = torch.optim.Adam(self.params, lr=request["lr"], betas=tuple(float(b) for b in request["betas"]), fused=True)
        self.shape = request["arch"]["input"]
        low, high = request["range"]
        # The buffer lies on the device: what PyTorch can do best.
        self.buffer = torch.empty(request["buffer_size"], *self.shape, device=device).uniform_(low, high)
        self.data = torch.empty(4096, *self.shape, device=device).uniform_(low, high)
        self.labels = torch.randint(request["arch"]["classes"], (len(self.data),), device=device)

    def own_format(self, x):
        return x.contiguous(memory_format=self.format) if x.dim() == 4 else x

    def density(self, x):
        return torch.logsumexp(self.apply(x), 1)

    def score(self, x):
        x = self.own_format(x).requires_grad_(True)
        return torch.autograd.grad(self.density(x).sum(), x)[0]

    def chain(self, x):
        """Moves x [batch, ...] by SGLD in place. The weights take no gradient meanwhile."""
        r, (low, high) = self.r, self.r["range"]
        for p in self.params:
            p.requires_grad_(False)
        x.requires_grad_(True)
        for _ in range(r["steps"]):
            (g,) = torch.autograd.grad(self.density(x).sum(), x)
            with torch.no_grad():
                x.add_(g.clamp_(-r["grad_clip"], r["grad_clip"]), alpha=r["step_size"])
                x.add_(torch.randn_like(x), alpha=r["noise_std"]).clamp_(low, high)
        for p in self.params:
            p.requires_grad_(True)
        return x.detach()

    def draw(self):
        r, (low, high) = self.r, self.r["range"]
        slots = torch.randint(len(self.buffer), (r["batch"],), device=self.device)
        x = self.own_format(self.buffer[slots])
        fresh = torch.rand(r["batch"], device=self.device) < r["restart"]
        fresh = fresh.view(-1, *[1] * len(self.shape))
        return slots, torch.where(fresh, torch.empty_like(x).uniform_(low, high), x)

    def run_chain(self):
        self.chain(self.draw()[1])

    def run_step(self):
        """Chains from the buffer, then positive and negative phase, cross-entropy and energy term in one batch."""
        r = self.r
        slots, x = self.draw()
        x = self.chain(x)
        self.buffer[slots] = x
        rows = torch.randint(len(self.data), (r["batch"],), device=self.device)
        real = self.data[rows]
        real.add_(torch.randn_like(real), alpha=r["data_noise"])
        z = self.apply(torch.cat([self.own_format(real), x]))
        f = torch.logsumexp(z, 1)
        data, samples = f.split(r["batch"])
        loss = nn.functional.cross_entropy(z[: r["batch"]], self.labels[rows]) + samples.mean() - data.mean()
        loss = loss + r["energy_l2"] * (data.square().mean() + samples.square().mean())
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, r["clip_norm"])
        self.opt.step()

    def time(self, run, repeats):
        times = []
        for _ in range(repeats):
            self.wait()
            start = time.perf_counter()
            run()
            self.wait()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


class Server:
    def __init__(self, device):
        self.device, self.requests, self.jobs = device, {}, {}

    def about(self, _):
        name = torch.cuda.get_device_name() if self.device == "cuda" else "cpu"
        return {"torch": torch.__version__, "python": sys.version.split()[0], "threads": torch.get_num_threads(), "device": name}

    def net(self, r):
        r["values"] = np.fromfile(r["weights"], dtype="<f4")  # the file need not stay
        self.requests[r["net"]] = r
        job = Job(r, self.device, torch.contiguous_format)
        x = torch.from_numpy(np.fromfile(r["x"], dtype="<f4").reshape(-1, *job.shape)).to(self.device)
        job.score(x).cpu().contiguous().numpy().astype("<f4").tofile(r["score"])
        return {"parameters": sum(p.numel() for p in job.params)}

    def timed(self, r):
        job, note = self.job(r["net"], r["mode"])
        run = {"chain": job.run_chain, "step": job.run_step}[r["what"]]
        return {"ms": job.time(run, r["repeats"]), "note": note}

    def job(self, name, mode):
        key = name, mode
        if key not in self.jobs:
            try:
                self.jobs[key] = self.best(name) if mode == "eager" else self.compiled(name)
            except Exception as e:  # said again at each request, not tried again
                self.jobs[key] = e
        if isinstance(self.jobs[key], Exception):
            raise self.jobs[key]
        return self.jobs[key]

    def best(self, name):
        """The faster of the two memory formats."""
        r = self.requests[name]
        formats = [torch.contiguous_format, torch.channels_last] if len(r["arch"]["input"]) == 3 else [torch.contiguous_format]
        jobs = [Job(r, self.device, f) for f in formats]
        times = [[] for _ in jobs]
        for i in range(4):
            for job, seen in zip(jobs, times):
                took = job.time(job.run_step, 1)
                if i:  # the first warms up
                    seen += took
        at = min(range(len(jobs)), key=lambda i: min(times[i]))
        return jobs[at], str(formats[at]).removeprefix("torch.")

    def compiled(self, name):
        job, note = self.job(name, "eager")
        fast = Job(self.requests[name], self.device, job.format)
        fast.apply = torch.compile(fast.net)
        for _ in range(2):
            fast.run_chain()
            fast.run_step()
        return fast, note

    def answer(self, line):
        try:
            request = json.loads(line)
            return {"about": self.about, "net": self.net, "time": self.timed}[request["op"]](request)
        except Exception as e:
            return {"error": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device: " + ("its build has no CUDA" if torch.version.cuda is None else "no GPU or no driver"))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # float32 as in the other program
    torch.backends.cudnn.benchmark = True
    server = Server(args.device)
    out, sys.stdout = sys.stdout, sys.stderr  # answers alone go to standard output, whatever a library prints
    for line in sys.stdin:
        print(json.dumps(server.answer(line)), file=out, flush=True)


if __name__ == "__main__":
    main()
