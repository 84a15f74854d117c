#!/bin/sh
# Checks a machine with an NVIDIA GPU: that ONNX Runtime's CUDA provider runs the graphs, that their results are those of
# the CPU, and how fast chains, scoring and training steps are. "gpu.sh install" fetches a CUDA build of ONNX Runtime with
# CUDA and cuDNN into a virtual environment in the user's cache, a download of about 1.3 GB; PyTorch is make bench-peer's.
#
# ORT_CUDA    folder with libonnxruntime.so, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so
# CUDA_LIBS   folders of the CUDA and cuDNN libraries, separated by colons; empty: those beside the two environments
set -eu
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/jempipe
gpu=$cache/gpu-venv
peer=${JEMPIPE_BENCH_VENV:-$cache/bench-venv}
if [ "${1-}" = install ]; then
	[ -x "$gpu/bin/python" ] || python3 -m venv "$gpu"
	exec "$gpu/bin/pip" install -q --disable-pip-version-check -r bench/requirements-gpu.txt
fi

# folders PATTERN: those that there are, separated by colons.
folders() { for f in $1; do if [ -d "$f" ]; then printf '%s:' "$f"; fi; done; }

ort=${ORT_CUDA:-$(echo "$gpu"/lib/python*/site-packages/onnxruntime/capi)}
libs=${CUDA_LIBS:-$(folders "$gpu/lib/python*/site-packages/nvidia/*/lib")}
[ -d "$ort" ] || {
	echo "there is no folder $ort with a CUDA build of ONNX Runtime: run make gpu-libs, or make gpu-check ORT_CUDA=FOLDER" >&2
	exit 1
}
[ -x "$peer/bin/python" ] || peer=
check="go run ./bench/gpucheck"
command -v go >/dev/null || check=bin/gpucheck # built elsewhere: go build -o bin/gpucheck ./bench/gpucheck
export LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:-}"
exec $check -ort "$ort" -python "${peer:+$peer/bin/python}" "$@"
