#!/bin/sh
# Measures the gradients of whole classifiers against PyTorch's autograd, where PyTorch is installed. "run.sh install"
# puts it into a virtual environment in the user's cache, a download of about 3 GB: PyPI's torch comes with CUDA.
set -eu
cd "$(dirname "$0")/.."
venv=${JEMPIPE_BENCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/jempipe/bench-venv}
if [ "${1-}" = install ]; then
	[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
	exec "$venv/bin/pip" install -q --disable-pip-version-check -r bench/requirements.txt
fi
if ! "$venv/bin/python" -c 'import onnx2torch, onnxruntime' 2>/dev/null; then
	echo "PyTorch is not installed, the comparison with it is left out: make bench-peer installs it (about 3 GB)"
	exit 0
fi
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT
JEMPIPE_BENCH_MODELS=$models go test -run '^$' -bench Gradient -benchtime 1x ./onnx/intake >/dev/null
"$venv/bin/python" bench/pytorch.py "$models"
