"""Tests of TLS, tokens and Unix sockets."""

import hashlib
import shutil
import subprocess

import pytest
from servers import Process

import quantd


def openssl(*words):
  subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
  """A certificate authority, and its certificate for 127.0.0.1 and quantd.test."""
  if shutil.which("openssl") is None:
    pytest.skip("OPENSSL IS NOT INSTALLED")
  folder = tmp_path_factory.mktemp("pki")
  ca, key = folder / "ca.pem", folder / "ca.key"
  ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
  openssl("req", "-x509", *ec, "-keyout", key, "-out", ca, "-subj", "/CN=ca", "-days", 2)
  openssl("req", *ec, "-keyout", folder / "s.key", "-out", folder / "s.csr", "-subj",
          "/CN=quantd.test")
  names = folder / "names"
  names.write_text("subjectAltName=IP:127.0.0.1,DNS:quantd.test")
  openssl("x509", "-req", "-in", folder / "s.csr", "-CA", ca, "-CAkey", key,
          "-CAcreateserial", "-out", folder / "s.pem", "-days", 2, "-extfile", names)
  return folder


def test_tls_and_token(pki, connect, x, tmp_path):
  tokens, secret = tmp_path / "tokens", tmp_path / "secret"
  secret.write_text("abc-123\n")
  tokens.write_text(hashlib.sha256(b"abc-123").hexdigest() + "\n")
  tls = quantd.Tls(ca=str(pki / "ca.pem"))
  with Process("--tls-cert", pki / "s.pem", "--tls-key", pki / "s.key",
               "--token-file", tokens) as server:
    q = connect(server.address, tls=tls, token_file=str(secret))
    assert q.quantize(x, "nvfp4").request_id
    named = quantd.Tls(ca=str(pki / "ca.pem"), server_name="quantd.test")
    assert connect(server.address, tls=named, token="abc-123").info().version
    for token in (None, "wrong"):
      with pytest.raises(quantd.Unauthenticated):
        connect(server.address, tls=tls, token=token).info()
    once = quantd.Retry(max_attempts=1)
    for wrong in (None, quantd.Tls(), quantd.Tls(tls.ca, server_name="other.test")):
      with pytest.raises(quantd.Error):
        connect(server.address, tls=wrong, token="abc-123", retry=once).info(timeout=5)
    assert "abc-123" not in repr(q) + repr(q._settings)


def test_mutual_tls(pki, connect):
  pair = {"cert": str(pki / "s.pem"), "key": str(pki / "s.key")}
  ca = str(pki / "ca.pem")
  with Process("--tls-cert", pki / "s.pem", "--tls-key", pki / "s.key",
               "--tls-client-ca", ca) as server:
    assert connect(server.address, tls=quantd.Tls(ca=ca, **pair)).info().version
    with pytest.raises(quantd.Error):
      connect(server.address, tls=quantd.Tls(ca=ca), retry=quantd.Retry(1)).info(timeout=5)
  other = pki / "ca.key"
  with pytest.raises(quantd.Invalid):
    connect("127.0.0.1:1", tls=quantd.Tls(cert=pair["cert"], key=str(other)))


def test_unix_sockets(connect, x, tmp_path):
  path = tmp_path / "s"
  with Process(listen=f"unix:{path}"):
    q = connect(f"unix:{path}", token="travels-nowhere")
    assert q.quantize(x, "nvfp4").dequantize().shape == x.shape


def test_names(connect, server):
  """A name stands for all its addresses; those that do not answer are skipped.
  """
  port = server.rpartition(":")[2]
  assert connect(f"localhost:{port}").info().version
  with pytest.raises(quantd.Unavailable):
    connect("no-such-host.invalid:1", retry=quantd.Retry(1)).info(timeout=5)
