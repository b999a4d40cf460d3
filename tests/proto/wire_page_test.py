"""Compares proto/BYTES.md with a server's results.

wire_page.py, written from that page and quantd.proto alone, lays out, decodes,
rotates and joins the same tensors, bit for bit. Exits with 77 if Python has no
gRPC, protobuf or numpy.
"""

import argparse
import itertools
import pathlib
import sys
import tempfile
import unittest

import python_stub_test as stub_test  # exits with 77, too
import grpc
import numpy as np

from wire_page import (F32, FORMATS, Copy, bf16, rotate, rotate_back, roundup)


def make_input(m, k, seed=7):
  values = np.random.default_rng(seed).standard_normal((m, k)).astype(F32)
  values[::11, ::7] *= 64
  return bf16(values)


def payload_of(values):
  return (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(
      "<u2").tobytes()


MASK = bytes([0x15, 0xA7, 0xC2, 0x38, 0x01, 0x80, 0xFF, 0x5A,
              0x3C, 0x99, 0x00, 0x7E, 0xE8, 0xD7, 0x42, 0x06])


class WirePageTest(unittest.TestCase):
  # Uses the server and the stubs of python_stub_test.
  make_stubs = classmethod(stub_test.PythonStubTest.make_stubs.__func__)
  start_server = classmethod(stub_test.PythonStubTest.start_server.__func__)
  stop_server = classmethod(stub_test.PythonStubTest.stop_server.__func__)

  @classmethod
  def setUpClass(cls):
    folder = tempfile.TemporaryDirectory()
    cls.addClassCleanup(folder.cleanup)
    cls.make_stubs(pathlib.Path(folder.name))
    cls.start_server(pathlib.Path(folder.name))
    cls.channel = grpc.insecure_channel(
        cls.address, [("grpc.enable_http_proxy", 0),
                      ("grpc.max_receive_message_length", -1)])
    cls.addClassCleanup(cls.channel.close)
    cls.stub = cls.stubs.QuantdStub(cls.channel)

  def tensor(self, x):
    return self.pb.Tensor(dtype=self.pb.DTYPE_BF16, shape=x.shape)

  def quantize(self, f, x, usage, **options):
    return self.stub.Quantize(self.pb.QuantizeRequest(
        tensor=self.tensor(x), options=self.pb.QuantizeOptions(
            format=getattr(self.pb, "FORMAT_" + f.name), usage=usage,
            **options),
        payload=payload_of(x)), timeout=60)

  def part(self, reply, name):
    """Returns bytes and shape of a tensor in a reply, both empty if the reply lacks it."""
    kind = getattr(self.pb, "TENSOR_KIND_" + name)
    for ref in reply.tensors:
      if ref.kind == kind:
        self.assertEqual(ref.offset % 64, 0)
        return (reply.payload[ref.offset:ref.offset + ref.size],
                list(ref.shape))
    return b"", None

  def copy_of(self, reply, columnwise):
    side = "COLUMNWISE_" if columnwise else "ROWWISE_"
    return [self.part(reply, side + what)
            for what in ("DATA", "SCALE", "AMAX")]

  def floats(self, reply, name):
    return np.frombuffer(self.part(reply, name)[0], "<f4")

  def same(self, got, expected, what):
    got = np.ascontiguousarray(got, F32).view(np.uint32)
    expected = np.ascontiguousarray(expected, F32).view(np.uint32)
    self.assertEqual(got.shape, expected.shape, what)
    self.assertEqual(np.count_nonzero(got != expected), 0, what)

  def check_copy(self, f, x, columnwise, dim=0, form=None, f6=2688, **options):
    """Quantizes, and compares the page's decoding with the server's."""
    pb = self.pb
    usage = pb.USAGE_COLUMNWISE if columnwise else pb.USAGE_ROWWISE
    form = form or pb.CopyForm()
    what = f"{f.name} columnwise={columnwise} rotation {dim} {form}"
    if dim:
      options["rht"] = pb.Rht(rowwise=not columnwise, columnwise=columnwise,
                              dimension=dim, sign_mask=MASK[:dim // 8])
    reply = self.quantize(f, x, usage, form=form, **options)
    copy = Copy(f, columnwise, *x.shape, dim,
                form.scale_layout == pb.LAYOUT_SWIZZLED, form.compact_scales)
    (data, shape), (scale, scale_shape), (amax, _) = self.copy_of(
        reply, columnwise)
    self.assertEqual(shape, copy.data_shape, what)
    self.assertEqual(scale_shape, copy.scale_shape, what)
    operand = copy.decode(data, scale, amax, f6)
    request = pb.DequantizeRequest(
        tensor=self.tensor(x), options=pb.DequantizeOptions(
            format=reply.options.format, usage=usage, output=pb.DTYPE_F32,
            form=form))
    # The payload is back to back; FP8 is decoded with its scale alone.
    request.payload = data + scale + (amax if f.scales == "e4m3" else b"")
    if dim:
      request.options.rotated_dimension = dim
      stays = self.stub.Dequantize(request, timeout=60)
      self.same(operand.T if columnwise else operand,
                np.frombuffer(stays.payload, "<f4").reshape(-1, x.shape[1]),
                what)
      request.options.rotated_dimension = 0
      request.options.inverse_rht.CopyFrom(reply.options.rht)
      operand = rotate_back(operand, dim, MASK)
    back = self.stub.Dequantize(request, timeout=60)
    decoded = np.frombuffer(back.payload, "<f4").reshape(x.shape)
    operand = operand[:, :copy.positions]
    self.same(operand.T if columnwise else operand, decoded, what)
    # Checks the error, too, since both could be wrong in the same way. Outliers
    # cause large errors in square blocks.
    self.assertLess(np.abs(decoded - x).mean() / np.abs(x).mean(), 0.6, what)

  def test_layout_and_decoding_of_every_format(self):
    x = make_input(70, 192)
    for f, columnwise in itertools.product(FORMATS, (False, True)):
      self.check_copy(f, x, columnwise)

  def test_forms(self):
    pb, x = self.pb, make_input(150, 192)
    swizzled = pb.CopyForm(scale_layout=pb.LAYOUT_SWIZZLED)
    for columnwise in (False, True):
      for f in FORMATS[:5]:
        self.check_copy(f, x, columnwise, form=swizzled)
      nvfp4, nvfp4_2d = FORMATS[:2]
      self.check_copy(nvfp4_2d, x, columnwise,
                      form=pb.CopyForm(compact_scales=True))
      self.check_copy(nvfp4, x, columnwise, form=pb.CopyForm(row_scaled=True))
      self.check_copy(nvfp4, x, columnwise, f6=1536,
                      form=pb.CopyForm(scale_256=True),
                      four_over_six=pb.FOUR_OVER_SIX_MAE)

  def test_tiny_and_huge_amaxes(self):
    for amax in (1e-38, 1e-36, 1e36, 3e38):
      x = bf16(make_input(16, 32) * F32(amax / 400))
      for columnwise in (False, True):
        given = self.pb.GivenAmax(rowwise=F32(amax))
        reply = self.quantize(FORMATS[0], x, self.pb.USAGE_BOTH,
                              given_amax=given)
        copy = Copy(FORMATS[0], columnwise, *x.shape)
        parts = [part for part, _ in self.copy_of(reply, columnwise)]
        back = self.stub.Dequantize(self.pb.DequantizeRequest(
            tensor=self.tensor(x), options=self.pb.DequantizeOptions(
                format=reply.options.format, usage=2 if columnwise else 1,
                output=self.pb.DTYPE_F32),
            payload=b"".join(parts)), timeout=60)
        operand = copy.decode(*parts)[:, :copy.positions]
        self.same(operand.T if columnwise else operand,
                  np.frombuffer(back.payload, "<f4").reshape(x.shape), amax)

  def test_decoding_under_profiles(self):
    pb, x, compared = self.pb, make_input(70, 192), 0
    x[3] *= F32(2**-20)  # MX scales that fp16 cannot represent
    outputs = {pb.DTYPE_F32: ("<f4", lambda v: v), pb.DTYPE_BF16: ("<u2", bf16),
               pb.DTYPE_F16: ("<f2", lambda v: v.astype("<f2").astype(F32))}
    for profile, f in itertools.product(pb.Profile.values()[1:], FORMATS):
      try:
        reply = self.quantize(f, x, pb.USAGE_ROWWISE, profile=profile)
      except grpc.RpcError:
        continue  # the library has no such format
      compared += 1
      copy = Copy(f, False, *x.shape)
      (data, _), (scale, _), _ = self.copy_of(reply, False)
      g = (self.part(reply, "ROWWISE_GLOBAL_SCALE")[0] or
           self.part(reply, "ROWWISE_GLOBAL_DIVISOR")[0])
      for output, (dtype, rounded) in outputs.items():
        back = self.stub.Dequantize(pb.DequantizeRequest(
            tensor=self.tensor(x), options=pb.DequantizeOptions(
                format=reply.options.format, output=output, profile=profile),
            payload=data + scale + g), timeout=60)
        got = np.frombuffer(back.payload, dtype)
        got = ((got.astype("<u4") << 16).view("<f4") if dtype == "<u2" else
               got.astype(F32)).reshape(x.shape)
        library = pb.Profile.Name(profile).split("_")[1]
        self.same(copy.decode_under(library, data, scale,
                                    np.frombuffer(g, "<f4"), rounded)[:, :192],
                  got, f"{pb.Profile.Name(profile)} {f.name} {dtype}")
    self.assertEqual(compared, 24)

  def test_echo_fills_in_defaults(self):
    pb, x = self.pb, make_input(1, 64)
    echo = lambda n, **o: self.quantize(FORMATS[n], x, 0, **o).options
    self.assertEqual(echo(0), pb.QuantizeOptions(
        format=pb.FORMAT_NVFP4, usage=pb.USAGE_ROWWISE,
        form=pb.CopyForm(scale_layout=pb.LAYOUT_LINEAR)))
    self.assertEqual(echo(2).scale_rule, pb.SCALE_RULE_UP)
    self.assertTrue(echo(2).HasField("scale_rule") and echo(7).power_of_two)
    self.assertEqual(
        echo(0, given_amax=pb.GivenAmax(rowwise_values=[3])).given_amax,
        pb.GivenAmax(rowwise=3))
    self.assertEqual(
        self.quantize(FORMATS[0], x[0], 0).tensor.flatten_axis, -1)
    self.assertEqual(self.quantize(FORMATS[0], x, 0).tensor.flatten_axis, 1)
    error = self.status_of(lambda: echo(0, scale_rule=pb.SCALE_RULE_UP))
    self.assertIn("scale_rule", error.details())

  def test_rotations(self):
    x = make_input(70, 128)
    for n in (16, 32, 64, 128):
      mask = MASK[:n // 8]
      reply = self.stub.ApplyRht(self.pb.ApplyRhtRequest(
          tensor=self.tensor(x), options=self.pb.ApplyRhtOptions(
              output=self.pb.DTYPE_F32,
              rht=self.pb.Rht(dimension=n, sign_mask=mask)),
          payload=payload_of(x)), timeout=60)
      self.same(rotate(x, n, mask),
                np.frombuffer(reply.payload, "<f4").reshape(x.shape), n)
      amaxes = self.stub.RhtAmax(self.pb.RhtAmaxRequest(
          tensor=self.tensor(x), options=self.pb.RhtAmaxOptions(
              rowwise_rht=True, columnwise_rht=True,
              rht=self.pb.Rht(dimension=n, sign_mask=mask)),
          payload=payload_of(x)), timeout=60)
      tokens = np.zeros((x.shape[1], roundup(x.shape[0], n)), F32)
      tokens[:, :x.shape[0]] = x.T
      for name, operand in (("ROWWISE_RHT_AMAX", x),
                            ("COLUMNWISE_RHT_AMAX", tokens)):
        self.same(self.floats(amaxes, name),
                  [np.abs(bf16(rotate(operand, n, mask))).max()], name)
      for f, columnwise in itertools.product(
          [FORMATS[0]] + FORMATS[2:5], (False, True)):
        self.check_copy(f, x, columnwise, dim=n)

  def test_groups_and_the_order_of_amaxes(self):
    x, rows = make_input(75, 64), [5, 0, 40, 30]
    splits = self.pb.Splits(rows=rows)
    parts = np.split(x, np.cumsum(rows)[:-1])
    lines = self.stub.RhtAmax(self.pb.RhtAmaxRequest(
        tensor=self.tensor(x), options=self.pb.RhtAmaxOptions(
            rowwise=True, columnwise=True, domain=self.pb.AMAX_DOMAIN_ROW,
            splits=splits),
        payload=payload_of(x)), timeout=60)
    self.same(self.floats(lines, "ROWWISE_AMAX"), np.abs(x).max(1), "rows")
    columns = np.concatenate(
        [np.abs(p).max(0, initial=0).astype(F32) for p in parts])
    self.same(self.floats(lines, "COLUMNWISE_AMAX"), columns, "columns")
    for f in FORMATS:
      reply = self.quantize(f, x, self.pb.USAGE_BOTH, splits=splits, amax=True,
                            dbias=True)
      self.same(self.floats(reply, "AMAX"),
                [np.abs(p).max(initial=0) for p in parts], f.name)
      self.assertEqual(self.part(reply, "DBIAS")[1], [4, 64])
      for ref in reply.tensors:
        if not 2 <= ref.kind <= 7 or ref.kind in (4, 7):
          continue
        whole = reply.payload[ref.offset:ref.offset + ref.size]
        for g, p in enumerate(parts):
          alone = self.quantize(f, p, self.pb.USAGE_BOTH)
          name = self.pb.TensorKind.Name(ref.kind).removeprefix("TENSOR_KIND_")
          self.assertEqual(
              whole[ref.group_offsets[g]:ref.group_offsets[g + 1]],
              self.part(alone, name)[0], f"{f.name} {name} {g}")

  def test_amax_alone(self):
    x = make_input(20, 48)
    reply = self.quantize(FORMATS[0], x, self.pb.USAGE_NONE, amax=True)
    self.assertEqual(len(reply.tensors), 1)
    self.same(self.floats(reply, "AMAX"), [np.abs(x).max()], "amax")

  def amax_of_pieces(self, f, pieces, dim):
    """Returns the GivenAmax for the Quantize calls of all pieces."""
    given = self.pb.GivenAmax()
    if f.scales not in ("e4m3", "tensor"):
      return given
    replies = [self.stub.RhtAmax(self.pb.RhtAmaxRequest(
        tensor=self.tensor(p), options=self.pb.RhtAmaxOptions(
            rowwise=not dim, columnwise=not dim, rowwise_rht=bool(dim),
            columnwise_rht=bool(dim),
            rht=self.pb.Rht(dimension=dim, sign_mask=MASK[:dim // 8])
            if dim else None),
        payload=payload_of(p)), timeout=60) for p in pieces]
    rht = "RHT_" if dim else ""
    for side in ("rowwise", "columnwise"):
      name = f"{side.upper()}_{rht}AMAX"
      setattr(given, side, max(self.floats(r, name)[0] for r in replies))
    if f.scales == "tensor":
      given.ClearField("columnwise")  # one amax serves both
    return given

  def check_pieces(self, f, along_rows, dim=0, **options):
    """Checks that three pieces of different sizes give the bytes of the whole."""
    pb, x = self.pb, make_input(296, 384)
    what = f"{f.name} along_rows={along_rows} rotation {dim}"
    if dim:
      options["rht"] = pb.Rht(rowwise=True, columnwise=True, dimension=dim,
                              sign_mask=MASK[:dim // 8])
    cuts = [0, 128, 256, x.shape[0] if along_rows else x.shape[1]]
    whole = self.quantize(f, x, pb.USAGE_BOTH, **options)
    pieces = [x[a:b] if along_rows else x[:, a:b]
              for a, b in zip(cuts, cuts[1:])]
    given = self.amax_of_pieces(f, pieces, dim)
    replies = []
    for start, piece in zip(cuts, pieces):
      if given.ByteSize():
        options["given_amax"] = given
      if options.get("rounding"):
        options["shard"] = pb.Shard(
            row_offset=start if along_rows else 0,
            column_offset=0 if along_rows else start,
            total_columns=x.shape[1])
      replies.append(self.quantize(f, piece, pb.USAGE_BOTH, **options))
    for columnwise in (False, True):
      copies = [Copy(f, columnwise, *p.shape, dim) for p in pieces]
      copy = Copy(f, columnwise, *x.shape, dim)
      parts = [self.copy_of(r, columnwise) for r in replies]
      expected = self.copy_of(whole, columnwise)
      # Pieces hold successive lines, or successive parts of each line.
      axis = 0 if along_rows != columnwise else 1
      data = [np.frombuffer(p[0][0], np.uint8).reshape(c.data_shape)
              for p, c in zip(parts, copies)]
      joined = np.concatenate(data, 1 - axis if copy.transposed_as_it_lies
                              else axis)
      self.assertEqual(joined.tobytes(), expected[0][0], what)
      entries = [c.entries(p[1][0]) for p, c in zip(parts, copies)]
      joined = (entries[0] if f.scales == "tensor" else
                np.concatenate(entries, axis))
      np.testing.assert_array_equal(joined, copy.entries(expected[1][0]), what)
      for part in parts:
        self.assertEqual(part[2], expected[2], what)

  def test_pieces_join_to_the_whole(self):
    for f, along_rows in itertools.product(FORMATS, (False, True)):
      self.check_pieces(f, along_rows)
    for along_rows in (False, True):
      self.check_pieces(FORMATS[0], along_rows, dim=64)
      self.check_pieces(FORMATS[3], along_rows, dim=64)
      self.check_pieces(FORMATS[0], along_rows,
                        rounding=self.pb.ROUNDING_STOCHASTIC,
                        stochastic=self.pb.Stochastic(seed=5))

  def status_of(self, call):
    with self.assertRaises(grpc.RpcError) as caught:
      call()
    return caught.exception

  def test_a_wrong_cut_is_refused(self):
    error = self.status_of(lambda: self.quantize(
        FORMATS[0], make_input(40, 64), self.pb.USAGE_COLUMNWISE,
        rounding=self.pb.ROUNDING_STOCHASTIC,
        shard=self.pb.Shard(row_offset=10)))
    self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
    self.assertIn("shard.row_offset", error.details())

  def test_default_limits_of_channels(self):
    x = make_input(2048, 2048)  # 2.2 MiB of codes and scales each way
    request = self.pb.QuantizeRequest(
        tensor=self.tensor(x), options=self.pb.QuantizeOptions(
            format=self.pb.FORMAT_NVFP4, usage=self.pb.USAGE_BOTH),
        payload=payload_of(x))
    with grpc.insecure_channel(
        self.address, [("grpc.enable_http_proxy", 0)]) as stock:
      error = self.status_of(
          lambda: self.stubs.QuantdStub(stock).Quantize(request, timeout=60))
    self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
    self.assertNotIn("grpc-status-details-bin",
                     dict(error.trailing_metadata() or ()))
    self.assertGreater(
        len(self.stub.Quantize(request, timeout=60).payload), 4 << 20)

  def test_compression_is_refused_and_unknown_fields_are_dropped(self):
    x = make_input(16, 32)
    request = self.pb.QuantizeRequest(
        tensor=self.tensor(x), options=self.pb.QuantizeOptions(
            format=self.pb.FORMAT_NVFP4),
        payload=payload_of(x))
    error = self.status_of(lambda: self.stub.Quantize(
        request, timeout=60, compression=grpc.Compression.Gzip))
    self.assertEqual(error.code(), grpc.StatusCode.UNIMPLEMENTED)
    plain = self.stub.Quantize(request, timeout=60)
    raw = self.channel.unary_unary(
        "/quantd.v1.Quantd/Quantize",
        response_deserializer=self.pb.QuantizeReply.FromString)
    unknown = b"\xf8\x04\x07"  # field 79, of the reserved ones, is 7
    echoed = raw(unknown + request.SerializeToString(), timeout=60)
    for reply in (plain, echoed):
      reply.request_id = ""
    self.assertEqual(echoed, plain)


if __name__ == "__main__":
  parser = argparse.ArgumentParser()
  for name in ("server", "proto", "protoc", "plugin"):
    parser.add_argument(f"--{name}", required=True)
  stub_test.ARGS, rest = parser.parse_known_args()
  unittest.main(argv=[sys.argv[0]] + rest)
