#!/usr/bin/env python3
"""Writes an SPDX 2.3 document in JSON about programs to standard output.

    deploy/sbom.py BUILD PROGRAM...

BUILD is a Ninja build folder in which the programs (quantd, quantctl) have been
built. No list is kept by hand: Ninja knows the linked libraries and the headers
that were read, and dpkg knows their packages. A change of the build therefore
changes the document. SOURCE_DATE_EPOCH sets the document's time.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIELDS = "${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n"


def output(*command):
  return subprocess.run(
      command, check=True, stdout=subprocess.PIPE, text=True
  ).stdout


def outside(build, paths):
  """Returns resolved paths of files outside the source tree."""
  found = {os.path.realpath(build / p) for p in paths}
  here = (os.path.realpath(ROOT), os.path.realpath(build))
  return {p for p in found if not p.startswith(here) and os.path.isfile(p)}


def inputs(build, program):
  """Returns the libraries linked into a program, and its objects' headers."""
  all_inputs = output("ninja", "-C", str(build), "-t", "inputs", program)
  names = [l for l in all_inputs.splitlines() if not l.startswith("ninja:")]
  libraries = [n for n in names if re.search(r"\.(a|so)([.\d]*)$", n)]
  # In a static build, many libraries are in one linker option (a group), which
  # Ninja does not list as inputs.
  link = output("ninja", "-C", str(build), "-t", "commands", program)
  libraries += re.findall(r"[^\s,]+\.a(?=[\s,])", link)
  objects = {n for n in names if n.endswith(".o")}
  headers = set()
  current = None
  for line in output("ninja", "-C", str(build), "-t", "deps").splitlines():
    if line and not line.startswith(" "):
      current = line.split(":")[0]
    elif line and current in objects:
      headers.add(line.strip())
  if not objects or not headers:
    sys.exit(f"sbom.py: {build} knows no headers of {program}: build it first")
  return outside(build, libraries), outside(build, headers)


def packages_of(paths):
  """Returns {package: paths}, and the paths that no package owns."""
  owners = {}
  unknown = sorted(paths)
  # Links in / (lib -> usr/lib) hide some paths from dpkg.
  for shorten in (False, True):
    asked = {p.removeprefix("/usr") if shorten else p: p for p in unknown}
    if not asked:
      break
    answer = subprocess.run(
        ["dpkg-query", "--search", *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ).stdout
    for line in answer.splitlines():
      names, _, path = line.partition(": ")
      if path in asked:
        name = names.split(",")[0].strip()
        owners.setdefault(name, set()).add(asked[path])
    known = set().union(*owners.values()) if owners else set()
    unknown = [p for p in unknown if p not in known]
  return owners, unknown


def identifier(name):
  return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def distribution():
  release = dict(
      line.split("=", 1)
      for line in pathlib.Path("/etc/os-release").read_text().splitlines()
      if "=" in line
  )
  value = lambda key: release.get(key, "unknown").strip('"')
  return value("ID"), value("VERSION_ID")


def package(name, system, version_of_system):
  fields = output("dpkg-query", "--show", f"--showformat={FIELDS}", name)
  binary, version, architecture, source, source_version = fields.split()
  purl = (
      f"pkg:deb/{system}/{binary}@{version.replace('+', '%2B')}"
      f"?arch={architecture}&distro={system}-{version_of_system}"
  )
  return {
      "name": binary,
      "SPDXID": identifier(binary),
      "versionInfo": version,
      "supplier": f"Organization: {system}",
      "sourceInfo": f"built from {source} {source_version}",
      "downloadLocation": "NOASSERTION",
      "filesAnalyzed": False,
      "licenseConcluded": "NOASSERTION",
      "licenseDeclared": "NOASSERTION",
      "copyrightText": "NOASSERTION",
      "externalRefs": [{
          "referenceCategory": "PACKAGE-MANAGER",
          "referenceType": "purl",
          "referenceLocator": purl,
      }],
  }


def main():
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("build", type=pathlib.Path)
  parser.add_argument("programs", nargs="+", metavar="PROGRAM")
  args = parser.parse_args()
  build = args.build.resolve()
  if not (build / "build.ninja").exists():
    sys.exit(f"sbom.py: {build} is not a Ninja build folder")

  version = output(str(ROOT / "deploy" / "version.sh")).strip()
  system, version_of_system = distribution()
  epoch = int(
      os.environ.get("SOURCE_DATE_EPOCH")
      or datetime.datetime.now(datetime.timezone.utc).timestamp()
  )
  found, relations, unowned = {}, set(), set()
  programs = []
  for name in args.programs:
    paths = [p for p in build.rglob(name) if p.is_file() and os.access(p, os.X_OK)]
    if not paths:
      sys.exit(f"sbom.py: no program {name} in {build}: build it first")
    digest = hashlib.sha256(paths[0].read_bytes()).hexdigest()
    programs.append({
        "name": name,
        "SPDXID": identifier(f"program-{name}"),
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "APPLICATION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
    })
    me = programs[-1]["SPDXID"]
    relations.add(("SPDXRef-DOCUMENT", "DESCRIBES", me))
    libraries, headers = inputs(build, name)
    for kind, files in (("library", libraries), ("header", headers)):
      owners, unknown = packages_of(files)
      unowned.update(unknown)
      for owner, owned in owners.items():
        if owner not in found:
          found[owner] = package(owner, system, version_of_system)
        it = found[owner]["SPDXID"]
        if kind == "header":
          relations.add((it, "BUILD_DEPENDENCY_OF", me))
        elif any(p.endswith(".a") for p in owned):
          relations.add((me, "STATIC_LINK", it))
        else:
          relations.add((me, "DYNAMIC_LINK", it))
  if unowned:
    sys.exit(
        "sbom.py: no package owns these files:\n  "
        + "\n  ".join(sorted(unowned))
    )

  body = programs + sorted(found.values(), key=lambda p: p["name"])
  content = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
  created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
  json.dump(
      {
          "spdxVersion": "SPDX-2.3",
          "dataLicense": "CC0-1.0",
          "SPDXID": "SPDXRef-DOCUMENT",
          "name": f"quantd-{version}",
          "documentNamespace": f"urn:sha256:{content}",
          "creationInfo": {
              "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
              "creators": [f"Tool: quantd-sbom-{version}"],
          },
          "packages": body,
          "relationships": [
              {
                  "spdxElementId": a,
                  "relationshipType": kind,
                  "relatedSpdxElement": b,
              }
              for a, kind, b in sorted(relations)
          ],
      },
      sys.stdout,
      indent=1,
  )
  print()


if __name__ == "__main__":
  main()
