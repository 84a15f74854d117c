#!/bin/sh
# Brings runs/digits up to date and reads it with other tools: pyarrow, DuckDB, scikit-learn, onnx and Python's
# onnxruntime. They are installed into a virtual environment in the user's cache.
set -eu
cd "$(dirname "$0")/.."
bin/jempipe run pipeline.yaml --log-level warn >/dev/null
venv=${JEMPIPE_INTEROP_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/jempipe/interop-venv}
if ! [ -x "$venv/bin/python" ]; then
	python3 -m venv "$venv"
fi
"$venv/bin/pip" install -q --disable-pip-version-check -r interop/requirements.txt
bin/jempipe docs tables >"$venv/tables.md"
exec "$venv/bin/python" interop/check.py runs/digits "$venv/tables.md"
