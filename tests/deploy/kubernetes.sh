#!/usr/bin/env bash
# Renders the manifests of deploy/kubernetes and checks them: with the schemas of
# several Kubernetes versions (kubernetes-validate from PyPI), and for rules that
# no schema has (kubernetes_check.py).
#
#   tests/deploy/kubernetes.sh [--install] [--quantd PATH]
#
#   --install      install kubernetes-validate into a virtual environment in the
#                  build folder if it is missing
#   --quantd PATH  a server program: also checks the configuration files with it
#
# Exits with 77 (skipped, for ctest) and a message if kubectl or
# kubernetes-validate is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

versions=(1.27 1.32 1.37)
validate_version=1.37.0
install='' quantd=''
while [ $# -gt 0 ]; do
  case $1 in
    --install) install=1 ;;
    --quantd) quantd=${2:?--quantd needs a path}; shift ;;
    --help|-h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "kubernetes.sh: unknown option $1 (try --help)" >&2; exit 2 ;;
  esac
  shift
done

skip() {
  echo "kubernetes: $*: the manifests were NOT checked" >&2
  exit 77
}

if command -v kubectl >/dev/null; then
  render() { kubectl kustomize "$1"; }
elif command -v kustomize >/dev/null; then
  render() { kustomize build "$1"; }
else
  skip "kubectl and kustomize are missing"
fi

environment=build/kubernetes-validate
if [ -n "$install" ] && ! command -v kubernetes-validate >/dev/null &&
  [ ! -x $environment/bin/kubernetes-validate ]; then
  python3 -m venv $environment &&
    $environment/bin/pip install --quiet \
      "kubernetes-validate==$validate_version" ||
    skip "kubernetes-validate cannot be installed"
fi
PATH=$PATH:$PWD/$environment/bin
command -v kubernetes-validate >/dev/null ||
  skip "kubernetes-validate is missing (--install installs it)"
# This interpreter has the YAML parser that kubernetes_check.py needs.
python=$(sed -n '1s/^#!//p' "$(command -v kubernetes-validate)")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# A set with the component `monitor`, as a user would write it.
mkdir "$scratch/own"
cp -r deploy/kubernetes "$scratch/own/sets"
mkdir "$scratch/own/sets/monitored"
printf 'resources: [../base]\ncomponents: [../monitor]\n' \
  >"$scratch/own/sets/monitored/kustomization.yaml"
for set in base edge gpu plain monitored; do
  render "$scratch/own/sets/$set" >"$scratch/$set.yaml"
  for version in "${versions[@]}"; do
    # ServiceMonitor is a custom resource without a schema in Kubernetes.
    "$python" -c 'import sys, yaml; yaml.safe_dump_all([d for d in yaml.safe_load_all(
      sys.stdin) if d["kind"] != "ServiceMonitor"], sys.stdout)' \
      <"$scratch/$set.yaml" >"$scratch/known.yaml"
    kubernetes-validate --strict --quiet -k "$version" "$scratch/known.yaml"
  done
  "$python" tests/deploy/kubernetes_check.py "$scratch/$set.yaml"
  if [ -n "$quantd" ]; then
    "$python" tests/deploy/kubernetes_check.py --keys "$quantd" \
      "$scratch/$set.yaml"
  fi
  echo "kubernetes: $set is valid for Kubernetes ${versions[*]}"
done
