"""Shows that layering.py fails where it should: in a scratch copy of the
sources every folder gets one include of each folder and library that it may
not include, and other faults of each kind are planted one at a time.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import layering

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A folder that is not there.
NEW = "kernels/new"
LIBRARIES = {
    "absl": "<absl/status/status.h>",
    "cuda": "<cuda_runtime.h>",
    "grpcpp": "<grpcpp/grpcpp.h>",
    "messages": '"quantd.pb.h"',
    "spdlog": "<spdlog/spdlog.h>",
}


class LayeringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.tree = layering.read_tree(ROOT)
        for path, text in cls.tree.items():
            cls.write_file(path, text)

    @classmethod
    def write_file(cls, path, text):
        file = pathlib.Path(cls.root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def write(self, path, text):
        """Puts a file into the copy until the test has ended."""
        self.write_file(path, text)
        if path in self.tree:
            self.addCleanup(self.write_file, path, self.tree[path])
        else:
            self.addCleanup(pathlib.Path(self.root, path).unlink)

    def plant(self, path, line):
        self.write(path, self.tree[path] + line + "\n")

    def faults(self):
        """What the program says about the copy."""
        run = subprocess.run(
            [sys.executable, os.path.join(ROOT, "tests", "layering.py"),
             self.root], capture_output=True, text=True, check=False)
        faults = run.stderr.splitlines()
        self.assertEqual(run.returncode, 1 if faults else 0, run.stderr)
        return faults

    def expect(self, fault):
        self.assertIn(f"layering: {fault}", self.faults())

    def sources(self):
        """The sources of each folder, without files that have their own line."""
        lines = layering.lines_of()
        folders = {}
        for path in sorted(filter(layering.SOURCE.search, self.tree)):
            if layering.unit(path) not in lines:
                folders.setdefault(os.path.dirname(path), []).append(path)
        return folders

    def test_the_sources_are_in_order(self):
        self.assertEqual(self.faults(), [])

    def test_what_no_line_allows_is_found_in_every_folder(self):
        lines = layering.lines_of()
        folders = self.sources()
        expected = []
        for folder, paths in folders.items():
            planted = []
            for other, theirs in folders.items():
                headers = [h for h in theirs if h.endswith(("h", "cuh"))
                           and h not in lines[folder]]
                if other not in (folder, *lines[folder]) and headers:
                    planted.append(headers[0])
                    self.assertNotIn(headers[0], self.tree[paths[0]])
            includes = [f'"{header.removeprefix("include/")}"'
                        for header in planted]
            includes += [include for library, include in LIBRARIES.items()
                         if library not in lines[folder]]
            self.assertGreater(len(planted), 5, folder)
            expected += [f"layering: {paths[0]} includes {include[1:-1]}: "
                         "not allowed" for include in includes]
            self.plant(paths[0],
                       "\n".join(f"#include {include}" for include in includes))
        faults = self.faults()
        self.assertEqual(set(expected) - set(faults), set())

    def test_a_path_that_does_not_start_at_the_root_is_found(self):
        for folder in ("../plan/", "", "kernels/"):
            include = folder + "shards.h"
            self.plant("kernels/plan/geometry.h", f'#include "{include}"')
            self.expect(f"kernels/plan/geometry.h includes {include}, which is "
                        "not there: includes start at the root")

    def test_a_circle_is_found(self):
        self.plant("include/quantd/format.h", '#include "quantd/plan.h"')
        self.assertRegex("\n".join(self.faults()),
                         "a circle: .*include/quantd/format")

    def test_a_vocabulary_header_that_includes_the_client_is_found(self):
        self.plant("include/quantd/plan.h", '#include "quantd/client.h"')
        self.expect("include/quantd/plan.h includes quantd/client.h: "
                    "not allowed")

    def test_a_folder_that_nobody_listed_is_found(self):
        self.write(f"{NEW}/file.cc", "")
        self.expect(f"{NEW}: no line says what it may include")
        self.write("room/file.cc", "")
        self.expect("room/file.cc: is below none of "
                    + ", ".join(layering.ROOMS))

    def test_a_folder_that_outgrows_its_size_is_found(self):
        for i in range(layering.MOST_UNITS + 1):
            self.write(f"{NEW}/file{i}.cc", "")
        self.expect(f"{NEW}: 16 units, over 15")

    def test_a_line_that_allows_too_much_is_found(self):
        lines = layering.lines_of()
        lines["kernels/plan"].append("grpcpp")
        self.assertEqual(layering.faults_of(self.tree, lines),
                         ["kernels/plan: no file there needs grpcpp"])

    def test_a_name_that_says_nothing_is_found(self):
        self.write(f"{NEW}/utils.cc", "")
        self.expect(f"{NEW}/utils.cc: a name that says nothing")

    def test_the_include_guard_of_another_file_is_found(self):
        for path, guard in (("kernels/plan/shards.h",
                             "QUANTD_KERNELS_PLAN_SHARDS_H_"),
                            ("include/quantd/plan.h", "QUANTD_PLAN_H_")):
            self.write(path, self.tree[path].replace(guard, "QUANTD_H_"))
            self.expect(f"{path}: its include guard is not {guard}")

    def test_slices_taken_out_of_a_message_are_found(self):
        self.plant("server/server.cc", "void F() { buffer.Dump(&slices); }")
        self.expect("server/server.cc takes slices out of a gRPC message")


if __name__ == "__main__":
    unittest.main()
