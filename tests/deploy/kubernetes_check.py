"""Checks rendered manifests for what no schema knows.

    kubernetes_check.py [--keys QUANTD] FILE

That names meet, that the drain fits into the time that a pod is given, that a
pod has no right it does not need. With --keys only that every key of the
configuration file is a flag of that binary.
"""

import argparse
import subprocess
import sys

import yaml


def settings(text):
    """The keys and values of a configuration file."""
    found = {}
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return found


def mib(quantity):
    for suffix, factor in (("Gi", 1024), ("GiB", 1024), ("MiB", 1), ("Mi", 1)):
        if quantity.endswith(suffix):
            return int(quantity[: -len(suffix)]) * factor
    raise ValueError(quantity)


class Check:
    def __init__(self, path):
        self.path = path
        self.failed = False
        with open(path, encoding="utf-8") as file:
            documents = [d for d in yaml.safe_load_all(file) if d]
        self.kinds = {d["kind"]: d for d in documents}
        self.config = settings(self.kinds["ConfigMap"]["data"]["quantd.conf"])
        self.deployment = self.kinds["Deployment"]["spec"]
        self.pod = self.deployment["template"]["spec"]
        self.containers = {c["name"]: c for c in self.pod["containers"]}
        self.container = self.containers["quantd"]

    def expect(self, condition, what):
        if not condition:
            print(f"{self.path}: {what}", file=sys.stderr)
            self.failed = True

    def names(self):
        labels = self.deployment["template"]["metadata"]["labels"].items()
        for kind in ("Service", "PodDisruptionBudget"):
            spec = self.kinds[kind]["spec"]
            selector = spec["selector"]
            selector = selector.get("matchLabels", selector)
            self.expect(selector.items() <= labels, f"{kind} selects no pod")
        for spread in self.pod["topologySpreadConstraints"]:
            self.expect(
                spread["labelSelector"]["matchLabels"].items() <= labels,
                "the spread counts other pods",
            )
        service = self.kinds["Service"]["spec"]
        monitor = self.kinds.get("ServiceMonitor")
        if monitor:
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            self.expect(
                wanted <= self.kinds["Service"]["metadata"]["labels"].items(),
                "the monitor finds no service",
            )
            names = {p["name"] for p in service["ports"]}
            for end in monitor["spec"]["endpoints"]:
                self.expect(end["port"] in names, "the monitor finds no port")
        self.expect(service["clusterIP"] == "None", "the service has an address")
        ports = {
            p["name"]: p["containerPort"]
            for c in self.containers.values()
            for p in c["ports"]
        }
        for port in service["ports"]:
            self.expect(port["targetPort"] in ports, "a port leads nowhere")
        notes = self.deployment["template"]["metadata"]["annotations"]
        metrics = self.config["metrics-address"].rsplit(":", 1)[1]
        self.expect(notes["prometheus.io/scrape"] == "true", "no scrape")
        self.expect(notes["prometheus.io/port"] == metrics, "scrapes elsewhere")
        self.expect(ports["metrics"] == int(metrics), "metrics are elsewhere")

        volumes = {v["name"]: v for v in self.pod["volumes"]}
        mounts = {
            m["name"]: m["mountPath"]
            for c in self.containers.values()
            for m in c["volumeMounts"]
        }
        self.expect(volumes.keys() == mounts.keys(), "volumes and mounts differ")
        self.expect(
            volumes["config"]["configMap"]["name"]
            == self.kinds["ConfigMap"]["metadata"]["name"],
            "another ConfigMap is mounted",
        )
        (variable,) = self.container["env"]
        self.expect(
            variable["name"] == "QUANTD_CONFIG"
            and variable["value"] == mounts["config"] + "/quantd.conf",
            "the server reads another file",
        )
        edge = self.containers.get("edge")
        if edge:
            self.behind(edge, mounts["tls"])
            return
        if self.config.get("insecure") == "true":
            self.expect("tls" not in volumes, "a Secret that nobody reads")
            return
        for key in ("tls-cert", "tls-key", "tls-client-ca"):
            self.expect(
                self.config[key].startswith(mounts["tls"] + "/"),
                f"{key} is not in the Secret",
            )

    def behind(self, edge, tls):
        """The edge is what strangers reach, and nothing else is."""
        env = {v["name"]: v["value"] for v in edge["env"]}
        self.expect(env["EDGE_CERTIFICATE"] == f"{tls}/tls.crt", "no certificate")
        self.expect(
            self.config["listen"] == env.get("EDGE_SERVER", "127.0.0.1:50152"),
            "the edge and the server do not meet on loopback",
        )
        self.expect(
            self.config["metrics-address"].endswith(":" + env["EDGE_READY_PORT"]),
            "the edge asks elsewhere whether the server is ready",
        )
        self.expect(self.config["trusted-proxies"] == "127.0.0.1", "no proxy")
        self.expect(
            [p["name"] for p in self.container["ports"]] == ["metrics"],
            "the server has a port beside the edge's",
        )

    def times(self):
        # Beside the two that are configured: 2 s until nobody comes any more,
        # 2 s for replies to leave, and some for the process to end.
        drain = (
            int(self.config["drain-delay-ms"]) / 1000
            + int(self.config["drain-timeout-s"])
            + 5
        )
        grace = self.pod["terminationGracePeriodSeconds"]
        self.expect(grace >= drain, f"{grace} s are too few to drain {drain} s")
        live = self.container["livenessProbe"]
        patience = live["periodSeconds"] * live["failureThreshold"]
        self.expect(patience > drain, "the liveness probe cuts the drain short")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            command = self.container[probe]["exec"]["command"]
            self.expect(command[-1] == "--probe", f"{probe} is no probe")
        self.expect(self.deployment["minReadySeconds"] > 0, "no time to be seen")

    def rights(self):
        of_pod = self.pod["securityContext"]
        self.expect(of_pod["runAsNonRoot"] is True, "may be root")
        self.expect(of_pod["runAsUser"] == 65532, "another user")
        self.expect(of_pod["seccompProfile"]["type"] == "RuntimeDefault", "seccomp")
        for container in self.containers.values():
            own = container["securityContext"]
            self.expect(own["readOnlyRootFilesystem"] is True, "writable root")
            self.expect(own["allowPrivilegeEscalation"] is False, "escalation")
            self.expect(own["capabilities"] == {"drop": ["ALL"]}, "capabilities")
        self.expect(self.pod["automountServiceAccountToken"] is False, "a token")
        self.expect(self.pod["enableServiceLinks"] is False, "service links")

    def resources(self):
        limits = self.container["resources"]["limits"]
        budget = mib(self.config["memory-budget"])
        self.expect(
            mib(limits["memory"]) >= budget * 1.3 + 1024, "memory is too little"
        )
        gpu = self.container["image"].endswith(":cuda")
        self.expect(("nvidia.com/gpu" in limits) == gpu, "GPU and image differ")
        self.expect((self.config.get("device") == "cuda") == gpu, "another device")

    def keys(self, quantd):
        text = subprocess.run(
            [quantd, "--help"], check=True, capture_output=True, text=True
        ).stdout
        for key in self.config:
            self.expect(f"--{key}" in text.split(), f"{quantd} has no --{key}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", metavar="QUANTD")
    parser.add_argument("file")
    arguments = parser.parse_args()
    check = Check(arguments.file)
    if arguments.keys:
        check.keys(arguments.keys)
    else:
        check.names()
        check.times()
        check.rights()
        check.resources()
    sys.exit(check.failed)


if __name__ == "__main__":
    main()
