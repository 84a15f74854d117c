#!/bin/sh
# Reads the results of a run with other tools: pyarrow, DuckDB, scikit-learn, onnx and Python's onnxruntime.
# usage: interop/run.sh [RUN_DIRECTORY]   (default runs/digits, which is brought up to date first)
set -eu
cd "$(dirname "$0")/.."
run=${1:-}
if [ -z "$run" ]; then
	bin/jempipe run pipeline.yaml --log-level warn >/dev/null
	run=runs/digits
fi
venv=${JEMPIPE_INTEROP_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/jempipe/interop-venv}
if ! [ -x "$venv/bin/python" ]; then
	python3 -m venv "$venv"
fi
"$venv/bin/pip" install -q --disable-pip-version-check -r interop/requirements.txt
bin/jempipe docs tables >"$venv/tables.md"
exec "$venv/bin/python" interop/check.py "$run" "$venv/tables.md"
