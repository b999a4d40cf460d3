"""Runs README.md's example of stock Python stubs against a server, with only
the address changed. Exits with 77 if Python has no gRPC, protobuf or numpy.
"""

import argparse
import pathlib
import tempfile
import unittest

import python_stub_test as stub_test  # exits with 77, too


class ReadmeTest(unittest.TestCase):
  # Uses the server and the stubs of python_stub_test.
  make_stubs = classmethod(stub_test.PythonStubTest.make_stubs.__func__)
  start_server = classmethod(stub_test.PythonStubTest.start_server.__func__)
  stop_server = classmethod(stub_test.PythonStubTest.stop_server.__func__)

  def test_example(self):
    # Takes the last example. The one before it uses the package and has its own
    # test.
    readme = pathlib.Path(__file__).parents[2] / "README.md"
    _, _, rest = readme.read_text().rpartition("```python\n")
    example, end, _ = rest.partition("```\n")
    self.assertTrue(end, "README.md has no Python")
    self.assertIn("quantd_pb2_grpc", example)
    self.assertIn('"127.0.0.1:50151"', example)
    folder = tempfile.TemporaryDirectory()
    self.addClassCleanup(folder.cleanup)
    self.make_stubs(pathlib.Path(folder.name))
    self.start_server(pathlib.Path(folder.name))
    names = {}
    exec(example.replace("127.0.0.1:50151", self.address), names)
    parts = {name: len(part) for name, part in names["parts"].items()}
    # Scales of 64 lines are padded to 128.
    self.assertEqual(parts, {"TENSOR_KIND_ROWWISE_DATA": 64 * 256,
                             "TENSOR_KIND_ROWWISE_SCALE": 128 * 256 // 32})


if __name__ == "__main__":
  parser = argparse.ArgumentParser(description=__doc__)
  for name in ("server", "proto", "protoc", "plugin"):
    parser.add_argument(f"--{name}", required=True)
  stub_test.ARGS = parser.parse_args()
  unittest.main(argv=["readme_test"])
