"""Server processes on loopback, and a scripted server."""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import grpc

from quantd import quantd_pb2 as pb


class Process:
  """A quantd process, stopped by its process id."""

  def __init__(self, *flags, listen="127.0.0.1:0"):
    self.folder = tempfile.TemporaryDirectory()
    port_file = pathlib.Path(self.folder.name) / "port"
    self.log = open(pathlib.Path(self.folder.name) / "log", "wb")
    self.process = subprocess.Popen(
        [os.environ["QUANTD"], "--listen", listen, "--port-file", port_file,
         "--cpu-threads", "2", *flags], stderr=self.log)
    deadline = time.monotonic() + 30
    while not port_file.exists() or not port_file.read_text().strip():
      if self.process.poll() is not None or time.monotonic() > deadline:
        raise RuntimeError("the server did not start")
      time.sleep(0.01)
    self.address = port_file.read_text().strip()

  def stop(self, how=signal.SIGTERM):
    if self.process.poll() is None:
      self.process.send_signal(how)
      self.process.wait(timeout=60)
    self.log.close()
    self.folder.cleanup()

  def __enter__(self):
    return self

  def __exit__(self, *_):
    self.stop()


def detail(reason, code=grpc.StatusCode.RESOURCE_EXHAUSTED, **fields):
  """Returns the trailer of an error: a google.rpc.Status with one detail."""
  from google.protobuf import any_pb2
  packed = any_pb2.Any(
      type_url="type.googleapis.com/quantd.v1.ErrorDetail",
      value=pb.ErrorDetail(reason=reason, **fields).SerializeToString())
  body = packed.SerializeToString()
  size = bytes([len(body) & 0x7F | 0x80, len(body) >> 7])
  return ("grpc-status-details-bin", b"\x08%c\x1a" % code.value[0] + size + body)


class Scripted:
  """A server that answers each call with the next of some functions.

  They take (request, context), and the last one answers all further calls. With
  `stream` it answers only Stream, and requests are iterators of messages.
  """

  def __init__(self, *answers, stream=False):
    self.answers = list(answers)
    self.stream = stream
    self.calls = []
    self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    self._server.add_generic_rpc_handlers((self,))
    self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
    self._server.start()

  def service(self, call):
    served = "/quantd.v1.Quantd/Stream" if self.stream else "/quantd."
    if not call.method.startswith(served):
      return None  # the C++ client asks for the health of several servers

    def answer(request, context):
      metadata = dict(context.invocation_metadata())
      self.calls.append((time.monotonic(), call.method, metadata))
      script = self.answers
      return (script.pop(0) if len(script) > 1 else script[0])(request, context)
    return (grpc.stream_stream_rpc_method_handler(answer) if self.stream
            else grpc.unary_unary_rpc_method_handler(answer))

  def stop(self):
    self._server.stop(0).wait()


def fails(code, message="no", *trailers):
  def answer(request, context):
    context.set_trailing_metadata(trailers)
    context.abort(code, message)
  return answer


def busy(milliseconds):
  return fails(
      grpc.StatusCode.RESOURCE_EXHAUSTED, "busy",
      detail(pb.ErrorDetail.REASON_BUSY, retry_delay_ms=milliseconds))


def info(request, context):
  return pb.GetServerInfoReply(version="9.9").SerializeToString()


@contextlib.contextmanager
def scripted(*answers, stream=False):
  server = Scripted(*answers, stream=stream)
  try:
    yield server
  finally:
    server.stop()
