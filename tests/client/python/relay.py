"""A server that forwards calls to a real one, and can change their replies."""

import concurrent.futures
import contextlib
import threading

import grpc

from quantd import quantd_pb2 as pb

_PREFIX = "/quantd.v1.Quantd/"


class Relay:
  """Counts calls, and changes their replies.

  `stream` gets the messages of a Stream call, its context and the same method
  of the real server, and yields the messages to return. `info` changes a
  GetServerInfoReply.
  """

  def __init__(self, target, stream=None, info=None):
    self._stream, self._info = stream, info
    self._lock = threading.Lock()
    self.calls = {}  # by method name
    self.chunk_bytes = 0
    self.metadata = []
    self._channel = grpc.insecure_channel(target, [
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_send_message_length", -1)])
    self._threads = concurrent.futures.ThreadPoolExecutor(24)
    self._server = grpc.server(
        self._threads,
        options=[("grpc.max_receive_message_length", -1)])
    self._server.add_generic_rpc_handlers((self,))
    self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
    self._server.start()

  def service(self, call):
    if not call.method.startswith(_PREFIX):
      return None
    name = call.method.removeprefix(_PREFIX)
    with self._lock:
      self.calls[name] = self.calls.get(name, 0) + 1
      self.metadata.append((name, dict(call.invocation_metadata)))
    if name == "Stream":
      return grpc.stream_stream_rpc_method_handler(self._pass_stream)

    def one(request, context):
      try:
        reply = self._channel.unary_unary(call.method)(request, timeout=30)
      except grpc.RpcError as failed:
        context.set_trailing_metadata(failed.trailing_metadata())
        context.abort(failed.code(), failed.details())
      if name == "GetServerInfo" and self._info is not None:
        info = pb.GetServerInfoReply.FromString(reply)
        self._info(info)
        reply = info.SerializeToString()
      return reply

    return grpc.unary_unary_rpc_method_handler(one)

  def _pass_stream(self, messages, context):
    def counted():
      with contextlib.suppress(grpc.RpcError):  # the call is over
        for message in messages:
          size = len(pb.StreamRequest.FromString(message).chunk)
          with self._lock:
            self.chunk_bytes += size
          yield message

    def real(sent):
      call = self._channel.stream_stream(_PREFIX + "Stream")(sent, timeout=30)
      context.add_callback(call.cancel)
      return call

    try:
      if self._stream is None:
        yield from real(counted())
      else:
        yield from self._stream(counted(), context, real)
    except grpc.RpcError as failed:
      context.set_trailing_metadata(failed.trailing_metadata())
      context.abort(failed.code(), failed.details())

  def stop(self):
    self._server.stop(0).wait()
    self._channel.close()
    self._threads.shutdown()


@contextlib.contextmanager
def relayed(target, **changes):
  made = Relay(target, **changes)
  try:
    yield made
  finally:
    made.stop()
