#!/bin/sh
# Measures training steps, and the gradients of whole classifiers, against PyTorch, where it is installed. "run.sh steps"
# measures the steps alone. "run.sh install" puts PyTorch into a virtual environment in the user's cache, a download of
# about 3 GB: PyPI's torch comes with CUDA.
set -eu
cd "$(dirname "$0")/.."
venv=${JEMPIPE_BENCH_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/jempipe/bench-venv}
if [ "${1-}" = install ]; then
	[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
	exec "$venv/bin/pip" install -q --disable-pip-version-check -r bench/requirements.txt
fi
python=$venv/bin/python
[ -x "$python" ] || python=
what=${1-}
[ "$what" != steps ] || shift
go run ./bench/stepbench -python "$python" "$@"
[ "$what" != steps ] || exit 0
if ! "$venv/bin/python" -c 'import onnx2torch, onnxruntime' 2>/dev/null; then
	echo "PyTorch is not installed, the comparison with it is left out: make bench-peer installs it (about 3 GB)"
	exit 0
fi
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT
JEMPIPE_BENCH_MODELS=$models go test -run '^$' -bench Gradient -benchtime 1x ./onnx/intake >/dev/null
"$venv/bin/python" bench/pytorch.py "$models"
