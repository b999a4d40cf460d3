"""Prints results.json: what each engine made of each kind of model in each
dialect and format. tests/bench/results/tables.py puts it into README.md."""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
WORDS = {"exact": "exact", "near": "near", "refused": "-", "": "",
         "not run": "", "WRONG": "**wrong**"}


def _split(cell):
    """The model, and the dialect with its format."""
    model, _, way = cell.partition(" ")
    dialect, kind, *more = way.split(" ", 2)
    return model, f"`{dialect}` | `{kind}`" + (
        ", inputs too" if more == ["amax"] else f", {more[0]}" if more else "")


def _message(said):
    """What does not name a tensor of one model."""
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


if __name__ == "__main__":
    print(page())
