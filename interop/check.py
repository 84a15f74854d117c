"""Checks the results of a run with readers and formulas that share nothing with jempipe.

usage: check.py RUN_DIRECTORY TABLES_MD
"""
import collections
import json
import pathlib
import re
import sys

import duckdb
import numpy as np
import onnx
import onnxruntime
import pyarrow.parquet as pq
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score, roc_auc_score

RUN, DOCS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
failures, checks = [], collections.Counter()


def check(group, ok, message):
    checks[group] += 1
    if not ok:
        failures.append(f"{group}: {message}")


def close(a, b, tolerance=1e-9):
    return abs(a - b) <= tolerance * max(1, abs(a), abs(b))


def documented():
    """Columns of each table as docs/tables.md lists them: name -> {column: (type, nullable)}."""
    tables, current = {}, None
    for line in DOCS.read_text().splitlines():
        if m := re.match(r"## `?(\w+)`?", line):
            current = tables.setdefault(m[1], {})
        elif current is not None and (m := re.match(r"\| `(\w+)` \| ([^|]+) \| (\w*) ?\|", line)):
            current[m[1]] = (m[2].strip(), m[3])
    return tables


ARROW = {
    "int32": "int32", "int64": "int64", "double": "double", "float": "float", "boolean": "bool",
    "binary (STRING)": "string", "int64 or binary (STRING)": ("int64", "string"),
    "list<float>": "list<element: float>",
}


def arrow_type(t):
    t = str(t)
    m = re.match(r"dictionary<values=(\w+)", t)
    return m[1] if m else t.replace(" not null", "")


def check_readers():
    docs = documented()
    check("documentation", len(docs) >= 10, f"only {len(docs)} tables found in the documentation")
    for path in sorted(RUN.glob("*/**/*.parquet")):
        name = "predictions" if "predictions" in path.parts else path.stem
        arrow = pq.read_table(path, partitioning=None)
        n = duckdb.execute("select count(*) from read_parquet(?, hive_partitioning=false)", [str(path)]).fetchone()[0]
        check("readers", n == arrow.num_rows == pq.ParquetFile(path).metadata.num_rows, f"{path}: row counts differ")
        columns = [r[0] for r in duckdb.execute("describe select * from read_parquet(?, hive_partitioning=false)", [str(path)]).fetchall()]
        want = docs.get(name, {})
        check("schema", columns == arrow.column_names == list(want), f"{path}: columns {columns}, documented {list(want)}")
        for f in arrow.schema:
            kind, nullable = want.get(f.name, ("", ""))
            allowed = ARROW.get(kind, kind)
            ok = arrow_type(f.type) in allowed if isinstance(allowed, tuple) else arrow_type(f.type) == allowed
            check("schema", ok, f"{path}: column {f.name} is {f.type}, documented {kind}")
            check("schema", f.nullable == (nullable == "yes"), f"{path}: column {f.name} nullable {f.nullable}, documented {nullable!r}")
            if not f.nullable:
                check("schema", arrow[f.name].null_count == 0, f"{path}: nulls in {f.name}")
        meta = arrow.schema.metadata or {}
        check("metadata", b"schema_version" in meta and b"config_hash" in meta, f"{path}: metadata {list(meta)}")


def table(stage, name):
    return pq.read_table(RUN / stage / "tables" / f"{name}.parquet").to_pandas()


def predictions(stage, dataset):
    parts = sorted((RUN / stage / "predictions" / f"dataset={dataset}").glob("part-*.parquet"))
    return duckdb.execute("select * from read_parquet(?, hive_partitioning=false)", [[str(p) for p in parts]]).df()


def check_ood():
    metrics = table("ood", "ood_metrics")
    cache = {}
    scores = lambda d, c: cache.setdefault(d, predictions("ood", d))[c].to_numpy(dtype=float)
    for (id_, ood, det), rows in metrics.groupby(["id_dataset", "ood_dataset", "detector"]):
        a, b = scores(id_, f"ood_{det}"), scores(ood, f"ood_{det}")
        y, s = np.r_[np.zeros(len(a)), np.ones(len(b))], np.r_[a, b]
        values = {(r.metric, r.positive_class if isinstance(r.positive_class, str) else None): r.value for r in rows.itertuples()}
        what = f"{det} on {id_} against {ood}"
        check("auroc", close(values[("auroc", None)], roc_auc_score(y, s)), what)
        check("average precision", close(values[("average_precision", "ood")], average_precision_score(y, s)), what)
        check("average precision", close(values[("average_precision", "id")], average_precision_score(1 - y, -s)), what)
        t = max(v for v in b if 100 * (b >= v).sum() >= 95 * len(b))
        check("fpr", close(values[("fpr_at_95_tpr", "ood")], (a >= t).mean()), what)
    th = table("ood", "thresholds")
    for r in th.itertuples():
        v = scores(r.id_dataset, f"ood_{r.detector}")
        check("thresholds", (v < r.threshold).mean() >= r.acceptance_target, r.detector)
        for d in cache:
            p = cache[d]
            check("flags", (p[f"flag_{r.detector}"].astype(bool) == (p[f"ood_{r.detector}"] >= r.threshold)).all(), f"{r.detector} on {d}")


def log_softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def ece(p, y, bins):
    conf, right = p.max(axis=1), p.argmax(axis=1) == y
    edges = np.arange(bins + 1) / bins
    at = np.clip(np.searchsorted(edges, conf, side="left") - 1, 0, bins - 1)
    return sum(abs(conf[at == b].mean() - right[at == b].mean()) * (at == b).mean() for b in range(bins) if (at == b).any())


def check_calibration():
    metrics, fit = table("calibrate", "calibration_metrics"), table("calibrate", "recalibration")
    temperature = fit[fit.parameter == "temperature"].value.iloc[0]
    for dataset, rows in metrics.groupby("dataset"):
        p = predictions("infer", dataset)
        z, y = np.stack(p.logits.to_numpy()).astype(float), p.label.to_numpy(dtype=int)
        check("energy", np.allclose(p.energy, -(z.max(1) + np.log(np.exp(z - z.max(1, keepdims=True)).sum(1))), rtol=1e-12), dataset)
        for mapping, t in (("uncalibrated", 1.0), ("temperature", temperature)):
            lp = log_softmax(z / t)
            v = {r.metric: r.value for r in rows[rows["map"] == mapping].itertuples()}
            bins = int(rows[(rows["map"] == mapping) & (rows.metric == "ece")].n_bins.iloc[0])
            onehot = np.eye(z.shape[1])[y]
            check("nll", close(v["nll"], -lp[np.arange(len(y)), y].mean()), f"{dataset} {mapping}")
            check("ece", close(v["ece"], ece(np.exp(lp), y, bins)), f"{dataset} {mapping}")
            check("brier", close(v["brier"], ((np.exp(lp) - onehot) ** 2).sum(1).mean()), f"{dataset} {mapping}")
            check("accuracy", close(v["accuracy"], (z.argmax(1) == y).mean()), f"{dataset} {mapping}")
        final = predictions("ood", dataset)
        check("conf_calibrated", np.allclose(final.conf_calibrated, np.exp(log_softmax(z / temperature)).max(1), rtol=1e-12), dataset)


def check_onnx():
    digits = load_digits()
    p = predictions("infer", "test")
    ids = p.sample_id.to_numpy(dtype=int)
    check("digits", (digits.target[ids] == p.label.to_numpy(dtype=int)).all(), "labels differ from scikit-learn's copy")
    x = digits.images[ids].astype(np.float32)
    z = np.stack(p.logits.to_numpy())
    for name in ("classifier", "score"):
        path = RUN / "export" / "models" / f"{name}.onnx"
        onnx.checker.check_model(str(path), full_check=True)
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        whole = {o.name: v for o, v in zip(session.get_outputs(), session.run(None, {"x": x}))}
        check("onnx", np.allclose(whole["logits"], z, rtol=1e-5, atol=1e-5), f"{name}: logits differ from the table")
        check("onnx", np.allclose(whole["energy"], p.energy, rtol=1e-5, atol=1e-5), f"{name}: energies differ from the table")
        if name == "score":
            norms = np.sqrt((whole["score"].reshape(len(x), -1).astype(float) ** 2).sum(1))
            check("onnx", np.allclose(norms, p.score_norm, rtol=1e-4, atol=1e-6), "score norms differ from the table")
        for batch in (1, 7, 64):
            parts = [session.run(["logits"], {"x": x[i : i + batch]})[0] for i in range(0, len(x), batch)]
            check("onnx", np.allclose(np.concatenate(parts), z, rtol=1e-5, atol=1e-5), f"{name}: batches of {batch}")
        names = {m.key: m.value for m in onnx.load(str(path)).metadata_props}
        check("onnx", json.loads(names["class_names"]) == [str(i) for i in range(10)], f"{name}: class names")


check_readers()
check_ood()
check_calibration()
check_onnx()
for f in failures:
    print("FAIL", f)
print("; ".join(f"{n} {g}" for g, n in sorted(checks.items())))
print(f"{sum(checks.values()) - len(failures)} passed, {len(failures)} failed")
sys.exit(bool(failures))
