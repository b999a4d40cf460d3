"""Prints results.json as a table: the outcome of each kind of model in each
dialect and format, by engine. tests/bench/results/tables.py writes it into
README.md, and uses doubts() to compare it with the rows by which quantctl
recommends engines."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
WORDS = {"exact": "exact", "near": "near", "refused": "-", "": "",
         "not run": "", "WRONG": "**wrong**"}
# The outcomes that a row of client/quantctl/models/engines.cc may state for a
# cell.
OUTCOMES = {"exact": ("ran", "loaded"), "near": ("ran", "loaded"),
            "engine": ("refused", "wrong"), "WRONG": ("refused", "wrong"),
            "not run": ("not run",)}
# The kinds and classes that select such a row.
KINDS = {
    "llama": ("dense", "LlamaForCausalLM"),
    "qwen3": ("dense", "Qwen3ForCausalLM"),
    "qwen3-moe": ("experts", "Qwen3MoeForCausalLM"),
    "mixtral": ("experts", "MixtralForCausalLM"),
    "gpt-oss": ("experts", "GptOssForCausalLM"),
    "deepseek-v3": ("experts", "DeepseekV3ForCausalLM"),
    "qwen2.5-vl": ("images", "Qwen2_5_VLForConditionalGeneration"),
    "llava": ("images", "LlavaForConditionalGeneration"),
    "gemma-3": ("images", "Gemma3ForConditionalGeneration"),
}


def _split(cell):
    """Returns the model, and the dialect with its format."""
    model, _, way = cell.partition(" ")
    dialect, kind, *more = way.split(" ", 2)
    return model, f"`{dialect}` | `{kind}`" + (
        ", inputs too" if more == ["amax"] else f", {more[0]}" if more else "")


def _message(said):
    """Returns a message without the tensor names of one model."""
    said = re.sub(r"^quantctl: (\S+: )?", "", said)
    return "`" + said.replace("`", "'") + "`"


def _table(results):
    cells = {_split(cell): result for cell, result in results["cells"].items()
             if not cell.startswith("control")}
    models = list(dict.fromkeys(model for model, _ in cells))
    notes = {}
    rows = []
    for way in dict.fromkeys(way for _, way in cells):
        row = [way]
        for model in models:
            result = cells.get((model, way), {"is": ""})
            word = WORDS.get(result["is"], "no")
            note = result.get("why") or _message(result.get("says", ""))
            if result["is"] not in ("exact", ""):
                word += f" {notes.setdefault(note, len(notes) + 1)}"
            row.append(word)
        rows.append("| " + " | ".join(row) + " |\n")
    head = "| dialect | format | " + " | ".join(models) + " |\n| --- | --- |" \
        + " --- |" * len(models) + "\n"
    notes = "".join(f"{number}. {note}\n" for note, number in notes.items())
    return f"{results['engine']}, {results['date'][:10]}, commit " \
        f"{results['commit']}:\n\n{head}{''.join(rows)}\n{notes}"


def page():
    results = json.loads((HERE / "results.json").read_text())
    return "\n".join(_table(results[name]) for name in results)


def _format(model, kind, more):
    """Returns the name that rows of engines.cc have for a cell's format."""
    if more.startswith("attention"):
        # In gpt-oss only attention is quantized.
        return "fp8_dynamic" if model == "gpt-oss" else f"fp8_dynamic and {kind}"
    measured = KINDS[model][0] == "experts" and kind == "fp8" and more
    return "fp8 with --input-amax" if measured else kind


def doubts(rows):
    """Returns disagreements between the rows of engines.cc and results.json:
    rows with another outcome than their cell, and rows that no cell of their
    version confirms."""
    found, confirmed = [], set()
    runs = json.loads((HERE / "results.json").read_text())
    versions = tuple(tuple(run["engine"].split()) for run in runs.values())
    for run in runs.values():
        engine = run["engine"].split()[0]
        for cell, result in run["cells"].items():
            if cell.startswith("control") or result["is"] == "refused":
                continue
            model, dialect, kind, *more = cell.split(" ", 3)
            kind = _format(model, kind, more[0] if more else "")
            row = next((row for row in rows if
                        (row[0], row[2]) == (engine, dialect) and
                        row[4] == KINDS[model][0] and
                        kind in row[3].split(", ") and
                        (not row[8] or KINDS[model][1] in row[8].split(", "))),
                       None)
            if row is None:
                continue
            confirmed.add((row, kind, model))
            if row[6] not in OUTCOMES[result["is"]]:
                found.append(f"{engine}, {cell}: engines.cc says {row[6]} "
                             f"({row[5]}), results.json {result['is']}")
    for row in rows:
        if not any(row[0] == engine and row[1].startswith(version + ",")
                   for engine, version in versions):
            continue
        found += [f"engines.cc: no run confirms {row[0]} {row[1]}, {row[2]} "
                  f"{kind}: {model} {row[6]}"
                  for kind in row[3].split(", ") for model in row[5].split(", ")
                  if (row, kind, model.lower().replace(" ", "-"))
                  not in confirmed]
    return found


if __name__ == "__main__":
    print(page())
