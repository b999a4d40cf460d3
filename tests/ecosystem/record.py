"""Joins the results of profiles.py and checkpoints.py in one file.

python record.py FOLDER RESULTS.json
"""

import datetime
import json
import pathlib
import subprocess
import sys


def _summary(row):
    """Returns a case of profiles.py without its empty lists and objects."""
    return {key: value for key, value in row.items() if value not in ({}, [])}


def main(folder, target):
    versions, profiles, checkpoints, rate = {}, [], {}, {}
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text())
        versions.update(found.get("versions", {}))
        profiles += map(_summary, found.get("profiles", []))
        rate = found.get("rate", rate)
        if "checkpoints" in found:
            checkpoints[path.stem.removeprefix("checkpoints-")] = (
                found["checkpoints"])
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True,
        cwd=target.parent, text=True, check=True).stdout.strip()
    page = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": commit,
        "versions": dict(sorted(versions.items())),
        "totals": {
            "bytes_compared": sum(
                sum(row["compared"].values()) for row in profiles),
            "bytes_differing": sum(
                sum(row["differing"].values()) for row in profiles),
            "checks": sum(map(len, checkpoints.values())),
            "checks_failed": sum(
                not row["ok"] for rows in checkpoints.values() for row in rows),
        },
        "profiles": profiles,
        "checkpoints": checkpoints,
        "rate": rate,
    }
    # Writes each row on a line.
    text = json.dumps(page)
    for mark in ('{"profile":', '{"model":'):
        text = text.replace(mark, "\n" + mark)
    for key in page:
        text = text.replace(f' "{key}": ', f'\n"{key}": ', 1)
    target.write_text(text + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
