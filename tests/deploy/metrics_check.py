"""Parts of metrics.sh: fetches a metrics page, and compares exported names with the
queries of alerts and the dashboard.

  metrics_check.py get URL PAGE
  metrics_check.py check PAGE ALERTS.yml DASHBOARD.json RULES.yml
      also writes every query of the dashboard as a rule into RULES.yml
  metrics_check.py burn BEFORE AFTER FOLDER/burn_test.yml [ALERT...]
      writes a test for FOLDER/alerts.yml: exactly these alerts fire
  metrics_check.py stages PAGE DEVICE
      checks the stages that calls on the device have
"""
import json
import re
import sys
import time
import urllib.request


def fail(message):
    sys.exit("metrics_check: " + message)


def get(url, path):
    """Fetches the page, once the last call is counted."""
    for _ in range(100):
        with urllib.request.urlopen(url, timeout=10) as reply:
            page = reply.read().decode()
        if 'quantd_requests_total{method="GetServerInfo"} 0' not in page:
            break
        time.sleep(0.05)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


def exported(page):
    """Returns the names of samples on the page, with their labels."""
    names = {}
    for line in page.splitlines():
        match = re.match(r"([a-z_]+)(?:\{(.*)\})? \S+$", line)
        if match:
            keys = re.findall(r'(\w+)="', match[2] or "")
            names.setdefault(match[1], set()).update(keys)
        elif not line.startswith("# "):
            fail("not a sample: " + line)
    return names


def queries(dashboard):
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], query
    for variable in dashboard["templating"]["list"]:
        match = re.match(r"label_values\((\w+), (\w+)\)", variable["query"])
        if match:
            yield variable["name"], "count by (%s) (%s)" % (match[2], match[1])


# Prometheus adds these itself.
OWN_NAMES = {"up"}
OWN_LABELS = {"job", "instance"}


def judge(where, query, names):
    """Checks that the metrics and labels in `query` are exported."""
    found = re.findall(r"\b(?:quantd|process)_[a-z_]+\b|\bup\b|quantd:[\w:]+",
                       query)
    if not found:
        fail("%s: no metric in %s" % (where, query))
    for name in set(found) - OWN_NAMES:
        if name not in names:
            fail("%s uses %s, which is not exported" % (where, name))
    known = set().union(OWN_LABELS, *(names[n] for n in found if n in names))
    asked = re.findall(r"(\w+)\s*[=!]~?\s*\"", query)
    for group in re.findall(r"\b(?:by|on|group_right)\s*\(([^)]*)\)", query):
        asked += re.findall(r"\w+", group)
    for label in asked:
        if label not in known:
            fail("%s uses the unknown label %s" % (where, label))
    return len(found)


def check(page_path, alerts_path, dashboard_path, rules_path):
    with open(page_path, encoding="utf-8") as file:
        names = exported(file.read())
    with open(alerts_path, encoding="utf-8") as file:
        alerts = file.read()
    with open(dashboard_path, encoding="utf-8") as file:
        dashboard = json.load(file)

    count = 0
    # Parses as much YAML as our file uses: an expression is one line, or the
    # indented lines after "expr: |".
    expressions = re.findall(r"^( +)expr: (?:\|\n((?:\1 +.*\n)+)|(.+)\n)",
                             alerts, re.MULTILINE)
    if len(expressions) != len(re.findall(r"- (?:alert|record): ", alerts)):
        fail("a rule has no expression that this check can parse")
    recorded = {name: {"job"} for name in re.findall(r"- record: (\S+)", alerts)}
    for _, lines, line in expressions:
        count += judge("a rule", lines or line, {**names, **recorded})
    with open(rules_path, "w", encoding="utf-8") as file:
        file.write("groups:\n  - name: dashboard\n    rules:\n")
        for i, (title, query) in enumerate(queries(dashboard)):
            count += judge("panel " + title, query, names)
            # A JSON string is a YAML string.
            file.write("      - record: dashboard:query_%d\n        expr: %s\n"
                       % (i, json.dumps(query)))
    print("%d uses of %d exported names" % (count, len(names)))


def burn(before_path, after_path, test_path, *fires):
    """Writes a test of the alerts. Every minute, for hours, its series grow by
    what a server counted between two pages."""
    pattern = re.compile(r"(quantd_(?:requests|errors)_total)\{(.*)\} (\d+)$")

    def counts(path):
        with open(path, encoding="utf-8") as file:
            matches = map(pattern.match, file.read().splitlines())
            return {m.group(1, 2): int(m[3]) for m in matches if m}

    before, after = counts(before_path), counts(after_path)
    series = []
    for (name, labels), now in after.items():
        more = now - before.get((name, labels), 0)
        sample = '%s{job="quantd", instance="a", %s}' % (name, labels)
        series.append({"series": sample, "values": "%d+%dx420" % (now, more)})
    # promtool also compares annotations, so the test expects those of the file.
    with open(test_path.replace("burn_test", "alerts"), encoding="utf-8") as file:
        alerts = file.read()
    tests = []
    for alert in ("QuantdErrorBudgetFast", "QuantdErrorBudgetSlow"):
        found = re.search(r"- alert: %s\n.*?severity: (\w+)\n.*?summary: (.*?)\n"
                          r" +description: (.*?)\n" % alert, alerts, re.DOTALL)
        expected = [{"exp_labels": {"job": "quantd", "severity": found[1]},
                     "exp_annotations": {"summary": found[2],
                                         "description": found[3]}}]
        tests.append({"eval_time": "6h", "alertname": alert,
                      "exp_alerts": expected if alert in fires else []})
    with open(test_path, "w", encoding="utf-8") as file:
        json.dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m",
                   "tests": [{"interval": "1m", "input_series": series,
                              "alert_rule_test": tests}]}, file)


def stages(page_path, device):
    """Prints the calls by stage. Fails unless exactly the stages that the device has
    were measured."""
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    counts = {}
    pattern = r'quantd_stage_duration_seconds_count\{.*stage="(\w+)"\} (\d+)'
    for stage, count in re.findall(pattern, page):
        counts[stage] = counts.get(stage, 0) + int(count)
    print("calls by stage:", " ".join("%s=%d" % item for item in counts.items()))
    has = {"wait", "receive", "queue", "gather", "kernel", "send"}
    if device.startswith("cuda"):
        has |= {"copy_in", "copy_out"}
    for stage, count in counts.items():
        if (count > 0) != (stage in has):
            fail("%d calls in stage %s on %s" % (count, stage, device))


if __name__ == "__main__":
    {"get": get, "check": check, "burn": burn,
     "stages": stages}[sys.argv[1]](*sys.argv[2:])
