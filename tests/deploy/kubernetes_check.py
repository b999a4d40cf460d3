"""Checks rendered manifests for rules that no schema has.

    kubernetes_check.py [--keys QUANTD] FILE

Names must match, the drain must fit into the pod's grace period, and the pod must
not have permissions that it does not need. --keys only checks that each key of the
configuration file is a flag of that program.
"""

import argparse
import subprocess
import sys

import yaml


def settings(text):
    """Returns the keys and values of a configuration file."""
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
                "the topology spread selects other pods",
            )
        service = self.kinds["Service"]["spec"]
        monitor = self.kinds.get("ServiceMonitor")
        if monitor:
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            self.expect(
                wanted <= self.kinds["Service"]["metadata"]["labels"].items(),
                "the monitor selects no service",
            )
            names = {p["name"] for p in service["ports"]}
            for end in monitor["spec"]["endpoints"]:
                self.expect(end["port"] in names, "the monitor names an unknown port")
        self.expect(service["clusterIP"] == "None", "the service is not headless")
        ports = {
            p["name"]: p["containerPort"]
            for c in self.containers.values()
            for p in c["ports"]
        }
        for port in service["ports"]:
            self.expect(port["targetPort"] in ports, "a port has no target")
        notes = self.deployment["template"]["metadata"]["annotations"]
        metrics = self.config["metrics-address"].rsplit(":", 1)[1]
        self.expect(notes["prometheus.io/scrape"] == "true", "Prometheus does not scrape the pods")
        self.expect(notes["prometheus.io/port"] == metrics, "Prometheus scrapes a different port")
        self.expect(ports["metrics"] == int(metrics), "the metrics port differs")

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
            "a different ConfigMap is mounted",
        )
        (variable,) = self.container["env"]
        self.expect(
            variable["name"] == "QUANTD_CONFIG"
            and variable["value"] == mounts["config"] + "/quantd.conf",
            "the server reads a different file",
        )
        edge = self.containers.get("edge")
        if edge:
            self.behind(edge, mounts["tls"])
            return
        if self.config.get("insecure") == "true":
            self.expect("tls" not in volumes, "a Secret that no setting uses")
            return
        for key in ("tls-cert", "tls-key", "tls-client-ca"):
            self.expect(
                self.config[key].startswith(mounts["tls"] + "/"),
                f"{key} is not in the Secret",
            )

    def behind(self, edge, tls):
        """Checks that clients can only reach the edge."""
        env = {v["name"]: v["value"] for v in edge["env"]}
        self.expect(env["EDGE_CERTIFICATE"] == f"{tls}/tls.crt", "the edge has no certificate")
        self.expect(
            self.config["listen"] == env.get("EDGE_SERVER", "127.0.0.1:50152"),
            "the edge does not connect to the server's loopback address",
        )
        self.expect(
            self.config["metrics-address"].endswith(":" + env["EDGE_READY_PORT"]),
            "the edge checks readiness on a different port",
        )
        self.expect(self.config["trusted-proxies"] == "127.0.0.1", "the server does not trust the edge")
        self.expect(
            [p["name"] for p in self.container["ports"]] == ["metrics"],
            "the server has a port besides metrics",
        )

    def times(self):
        # In addition to the two settings: 2 s until no client connects, 2 s for
        # replies to be sent, and some time for the process to end.
        drain = (
            int(self.config["drain-delay-ms"]) / 1000
            + int(self.config["drain-timeout-s"])
            + 5
        )
        grace = self.pod["terminationGracePeriodSeconds"]
        self.expect(grace >= drain, f"the grace period of {grace} s is shorter than the drain of {drain} s")
        live = self.container["livenessProbe"]
        patience = live["periodSeconds"] * live["failureThreshold"]
        self.expect(patience > drain, "the liveness probe cuts the drain short")
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            command = self.container[probe]["exec"]["command"]
            self.expect(command[-1] == "--probe", f"{probe} does not run --probe")
        self.expect(self.deployment["minReadySeconds"] > 0, "minReadySeconds is 0")

    def rights(self):
        of_pod = self.pod["securityContext"]
        self.expect(of_pod["runAsNonRoot"] is True, "the pod may run as root")
        self.expect(of_pod["runAsUser"] == 65532, "the pod runs as a different user")
        self.expect(of_pod["seccompProfile"]["type"] == "RuntimeDefault", "no seccomp profile")
        for container in self.containers.values():
            own = container["securityContext"]
            self.expect(own["readOnlyRootFilesystem"] is True, "the root file system is writable")
            self.expect(own["allowPrivilegeEscalation"] is False, "privilege escalation is allowed")
            self.expect(own["capabilities"] == {"drop": ["ALL"]}, "the container has capabilities")
        self.expect(self.pod["automountServiceAccountToken"] is False, "the pod has a service account token")
        self.expect(self.pod["enableServiceLinks"] is False, "service links are enabled")

    def resources(self):
        limits = self.container["resources"]["limits"]
        budget = mib(self.config["memory-budget"])
        self.expect(
            mib(limits["memory"]) >= budget * 1.3 + 1024, "the memory limit is too low"
        )
        gpu = self.container["image"].endswith(":cuda")
        self.expect(("nvidia.com/gpu" in limits) == gpu, "the GPU resource does not match the image")
        self.expect((self.config.get("device") == "cuda") == gpu, "the device setting does not match the image")

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
