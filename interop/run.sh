#!/bin/sh
# Brings runs/digits up to date and reads it with other tools: pyarrow, DuckDB, scikit-learn, onnx and Python's
# onnxruntime. Then compares gradients of public classifiers with those of PyTorch. All are installed into a virtual
# environment in the user's cache; PyTorch is large, and where it cannot be had the rest still runs.
set -eu
cd "$(dirname "$0")/.."
bin/jempipe run pipeline.yaml --log-level warn >/dev/null
venv=${JEMPIPE_INTEROP_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/jempipe/interop-venv}
if ! [ -x "$venv/bin/python" ]; then
	python3 -m venv "$venv"
fi
"$venv/bin/pip" install -q --disable-pip-version-check -r interop/requirements.txt
"$venv/bin/pip" install -q --disable-pip-version-check -r interop/requirements-torch.txt ||
	echo "PyTorch could not be installed" >&2
bin/jempipe docs tables >"$venv/tables.md"
failed=0
"$venv/bin/python" interop/check.py runs/digits "$venv/tables.md" || failed=1
"$venv/bin/python" interop/gradients.py bin/jempipe || failed=1
exit $failed
