"""Tests a client made from quantd.proto alone, with stock Python gRPC stubs.

Starts a server, or uses a running one (--address, with --ca, --cert and --key
for TLS), calls every method, and compares digests of the bytes. Exits with 77 if
Python has no gRPC, protobuf or numpy.
"""

import argparse
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

try:
  import grpc
  import numpy as np
except ImportError as missing:
  print(f"skipped: {missing}")
  sys.exit(77)

# Public messages of other services that a client needs.
HEALTH_PROTO = """
syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse {
  enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; }
  ServingStatus status = 1;
}
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
"""
STATUS_PROTO = """
syntax = "proto3";
package google.rpc;
import "google/protobuf/any.proto";
message Status {
  int32 code = 1;
  string message = 2;
  repeated google.protobuf.Any details = 3;
}
"""

ROWS, COLS = 200, 320
ARGS = None  # the parsed command line

# Beginnings of the SHA-256 of each result. The bytes are a promise, so these
# never change.
DIGESTS = {
    "quantize": "54e432f51801309a",
    "dequantize_rowwise": "2bcc65fe3c7a6ebb",
    "dequantize_columnwise": "53ef273d21c28531",
    "rht_amax": "89d6b9c988e8852a",
    "apply_rht": "521440239f484374",
}


def make_input():
  """Bell-shaped bf16 values and some outliers, as bytes and as floats."""
  parts = np.arange(4 * ROWS * COLS, dtype=np.uint64)
  for _ in range(2):
    parts = (parts ^ parts >> np.uint64(15)) * 2654435761 % 2**32
  values = parts.reshape(4, ROWS, COLS).sum(0) / 2**32 - 2
  values[::17, ::13] *= 64
  bits = values.astype(np.float32).view(np.uint32) >> 16
  return bits.astype("<u2").tobytes(), (bits << 16).view(np.float32)


class PythonStubTest(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls.folder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(cls.folder.cleanup)
    folder = pathlib.Path(cls.folder.name)
    cls.input, cls.values = make_input()
    cls.make_stubs(folder)
    cls.server = None
    if ARGS.address:
      cls.address = ARGS.address
    else:
      cls.start_server(folder)
    cls.channel = cls.open_channel()
    cls.addClassCleanup(cls.channel.close)
    cls.stub = cls.stubs.QuantdStub(cls.channel)

  @classmethod
  def make_stubs(cls, folder):
    (folder / "health.proto").write_text(HEALTH_PROTO)
    (folder / "rpc_status.proto").write_text(STATUS_PROTO)
    proto = pathlib.Path(ARGS.proto)
    subprocess.run([
        ARGS.protoc, f"--plugin=protoc-gen-grpc_python={ARGS.plugin}",
        f"--proto_path={proto.parent}", f"--proto_path={folder}",
        f"--python_out={folder}", f"--grpc_python_out={folder}",
        proto.name, "health.proto", "rpc_status.proto"
    ], check=True)
    sys.path.insert(0, str(folder))
    import health_pb2, health_pb2_grpc, quantd_pb2, quantd_pb2_grpc
    import rpc_status_pb2
    cls.pb, cls.stubs = quantd_pb2, quantd_pb2_grpc
    cls.health, cls.health_stubs = health_pb2, health_pb2_grpc
    cls.rpc_status = rpc_status_pb2

  @classmethod
  def open_channel(cls):
    options = [("grpc.enable_http_proxy", 0)]
    if not ARGS.ca:
      return grpc.insecure_channel(cls.address, options)
    ca, key, cert = (pathlib.Path(path).read_bytes() if path else None
                     for path in (ARGS.ca, ARGS.key, ARGS.cert))
    return grpc.secure_channel(
        cls.address, grpc.ssl_channel_credentials(ca, key, cert), options)

  @classmethod
  def start_server(cls, folder):
    port_file = folder / "port"
    cls.server = subprocess.Popen([
        ARGS.server, "--listen", "127.0.0.1:0", "--port-file", port_file
    ])
    cls.addClassCleanup(cls.stop_server)
    deadline = time.monotonic() + 60
    while not port_file.exists():
      if cls.server.poll() is not None or time.monotonic() > deadline:
        raise RuntimeError("the server did not start")
      time.sleep(0.02)
    cls.address = port_file.read_text().strip()

  @classmethod
  def stop_server(cls):
    cls.server.terminate()
    try:
      cls.server.wait(timeout=60)
    finally:
      cls.server.kill()

  def setUp(self):
    if self.server:
      self.assertIsNone(self.server.poll(), "the server is gone")

  def tensor(self):
    return self.pb.Tensor(dtype=self.pb.DTYPE_BF16, shape=[ROWS, COLS])

  def quantize_request(self):
    return self.pb.QuantizeRequest(
        tensor=self.tensor(), options=self.pb.QuantizeOptions(
            format=self.pb.FORMAT_NVFP4, usage=self.pb.USAGE_BOTH,
            rht=self.pb.Rht(columnwise=True)),
        payload=self.input)

  def check_bytes(self, name, payload):
    self.assertEqual(hashlib.sha256(payload).hexdigest()[:16], DIGESTS[name],
                     name)

  def test_quantize_and_dequantize_both_copies(self):
    reply = self.stub.Quantize(self.quantize_request(), timeout=60)
    self.check_bytes("quantize", reply.payload)
    self.assertEqual([ref.kind for ref in reply.tensors], list(range(2, 8)))
    self.assertEqual(reply.tensor.flatten_axis, 1)
    # The options are echoed in a message of the same type.
    asked = self.quantize_request().options
    asked.MergeFrom(reply.options)
    self.assertEqual(asked, reply.options)
    self.assertEqual(reply.options.rht.sign_mask, b"\xe8\xd7")
    self.assertEqual(reply.options.rht.dimension, 16)
    self.assertFalse(reply.report.saw_nan or reply.report.saw_inf)
    self.assertTrue(reply.report.device)
    self.assertTrue(reply.request_id)
    for usage, name in ((self.pb.USAGE_ROWWISE, "dequantize_rowwise"),
                        (self.pb.USAGE_COLUMNWISE, "dequantize_columnwise")):
      request = self.pb.DequantizeRequest(
          tensor=reply.tensor, options=self.pb.DequantizeOptions(
              format=reply.options.format, usage=usage,
              output=self.pb.DTYPE_F32),
          tensors=reply.tensors, payload=reply.payload)
      if usage == self.pb.USAGE_COLUMNWISE:
        request.options.inverse_rht.CopyFrom(reply.options.rht)
      back = self.stub.Dequantize(request, timeout=60)
      self.check_bytes(name, back.payload)
      # Checks the values, too, since both sides could be wrong in the same way.
      values = np.frombuffer(back.payload, "<f4").reshape(ROWS, COLS)
      error = np.abs(values - self.values).mean() / np.abs(self.values).mean()
      self.assertLess(error, 0.15, name)

  def test_streams_give_the_same_bytes(self):
    request = self.quantize_request()
    request.ClearField("payload")

    def messages():
      yield self.pb.StreamRequest(quantize=request,
                                  payload_bytes=len(self.input))
      for at in range(0, len(self.input), 9999):
        yield self.pb.StreamRequest(chunk=self.input[at:at + 9999])

    replies = list(self.stub.Stream(messages(), timeout=60))
    self.check_bytes("quantize", b"".join(r.chunk for r in replies))
    last = replies[-1]
    self.assertEqual((last.WhichOneof("reply"), last.chunk), ("quantize", b""))
    unary = self.stub.Quantize(self.quantize_request(), timeout=60)
    self.assertEqual(last.quantize.tensors, unary.tensors)
    self.assertEqual(last.quantize.options, unary.options)
    short = [next(messages())]
    detail = self.refused(
        lambda: list(self.stub.Stream(iter(short), timeout=60)))
    self.assertEqual(detail.field, "payload")

  def test_describe_quantize(self):
    request = self.quantize_request()
    reply = self.stub.Quantize(request, timeout=60)
    request.ClearField("payload")
    described = self.stub.DescribeQuantize(request, timeout=60)
    self.assertEqual(list(described.tensors), list(reply.tensors))
    self.assertEqual(described.input_bytes, len(self.input))
    self.assertEqual(described.output_bytes, len(reply.payload))
    self.assertTrue(described.request_id)
    request.options.format = self.pb.FORMAT_FP8_E4M3  # the format has no rotation
    detail = self.refused(
        lambda: self.stub.DescribeQuantize(request, timeout=60))
    self.assertEqual((detail.reason, detail.field),
                     (self.pb.ErrorDetail.REASON_INVALID_FIELD, "rht"))
    raw = self.channel.unary_unary("/quantd.v1.Quantd/DescribeQuantize")
    detail = self.refused(lambda: raw(b"\x0a\x7fxx", timeout=60))
    self.assertEqual(detail.reason, self.pb.ErrorDetail.REASON_MALFORMED)

  def test_rht_amax(self):
    reply = self.stub.RhtAmax(self.pb.RhtAmaxRequest(
        tensor=self.tensor(), options=self.pb.RhtAmaxOptions(
            rowwise=True, rowwise_rht=True, columnwise_rht=True),
        payload=self.input), timeout=60)
    self.check_bytes("rht_amax", reply.payload)
    ref = reply.tensors[0]
    self.assertEqual(ref.kind, self.pb.TENSOR_KIND_ROWWISE_AMAX)
    amax = np.frombuffer(reply.payload, "<f4", 1, ref.offset)[0]
    self.assertEqual(amax, np.abs(self.values).max())

  def test_apply_rht(self):
    reply = self.stub.ApplyRht(self.pb.ApplyRhtRequest(
        tensor=self.tensor(), options=self.pb.ApplyRhtOptions(
            output=self.pb.DTYPE_F32, rht=self.pb.Rht(sign_mask=b"\x34\x12")),
        payload=self.input), timeout=60)
    self.check_bytes("apply_rht", reply.payload)

  def test_server_info_and_health(self):
    info = self.stub.GetServerInfo(self.pb.GetServerInfoRequest(), timeout=60)
    self.assertTrue(info.version)
    self.assertGreaterEqual(len(info.devices), 1)
    self.assertEqual(info.devices[0].state, self.pb.Device.STATE_HEALTHY)
    self.assertIn(self.pb.FORMAT_NVFP4, [f.format for f in info.formats])
    self.assertEqual(info.limits.max_rank, 8)
    health = self.health_stubs.HealthStub(self.channel)
    check = health.Check(self.health.HealthCheckRequest(), timeout=60)
    self.assertEqual(check.status, self.health.HealthCheckResponse.SERVING)

  def refused(self, call):
    """Returns the ErrorDetail of a call that must be refused as invalid."""
    with self.assertRaises(grpc.RpcError) as caught:
      call()
    error = caught.exception
    self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT,
                     error.details())
    trailers = dict(error.trailing_metadata())
    self.assertTrue(trailers["quantd-request-id"])
    status = self.rpc_status.Status.FromString(
        trailers["grpc-status-details-bin"])
    self.assertEqual(status.code, 3)
    self.assertEqual(status.message, error.details())
    self.assertEqual(len(status.details), 1)
    detail = self.pb.ErrorDetail()
    self.assertTrue(status.details[0].Unpack(detail))
    return detail

  def test_illegal_requests_are_typed(self):
    invalid = self.pb.ErrorDetail.REASON_INVALID_FIELD
    short = self.quantize_request()
    short.payload = self.input[:-2]
    detail = self.refused(lambda: self.stub.Quantize(short, timeout=60))
    self.assertEqual(
        (detail.reason, detail.field, detail.expected, detail.got),
        (invalid, "payload", f"{ROWS * COLS * 2} bytes",
         f"{ROWS * COLS * 2 - 2} bytes"))
    dtype = self.quantize_request()
    dtype.tensor.dtype = 99
    detail = self.refused(lambda: self.stub.Quantize(dtype, timeout=60))
    self.assertEqual(
        (detail.reason, detail.field, detail.expected, detail.got),
        (invalid, "tensor.dtype", "f32, f16 or bf16", "number 99"))
    mask = self.quantize_request()
    mask.options.rht.sign_mask = b""
    detail = self.refused(lambda: self.stub.Quantize(mask, timeout=60))
    self.assertEqual((detail.reason, detail.field), (invalid, "rht.sign_mask"))

  def test_malformed_messages_are_reported_as_such(self):
    raw = self.channel.unary_unary("/quantd.v1.Quantd/Quantize")
    detail = self.refused(lambda: raw(b"\x0a\x7fxx", timeout=60))
    self.assertEqual(detail.reason, self.pb.ErrorDetail.REASON_MALFORMED)


if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  for name in ("proto", "protoc", "plugin"):
    parser.add_argument(f"--{name}", required=True)
  tested = parser.add_mutually_exclusive_group(required=True)
  for name in ("server", "address"):
    tested.add_argument(f"--{name}")
  for name in ("ca", "cert", "key"):
    parser.add_argument(f"--{name}")
  ARGS, rest = parser.parse_known_args()
  unittest.main(argv=[sys.argv[0]] + rest)
