"""A server that a test kills after a number of calls."""

import pathlib
import re
import threading
import time
import urllib.request

from servers import Process

RECORDS = 10000
SHAPE = (16, 64)


class Metered(Process):
  """A server that counts its calls."""

  def __init__(self):
    super().__init__("--metrics-address", "127.0.0.1:0")
    port_file = pathlib.Path(self.folder.name) / "port.metrics"
    while not port_file.exists() or not port_file.read_text().strip():
      time.sleep(0.01)
    self.metrics = port_file.read_text().strip()
    self.killed_after = None

  def calls(self):
    """Returns the number of Quantize calls that it answered."""
    with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=5) as page:
      text = page.read().decode()
    counts = re.findall(
        r'^quantd_requests_total\{[^}]*Quantize"[^}]*\} (\d+)', text, re.M)
    return sum(map(int, counts))

  def kill_after(self, calls, how):
    """Sends the signal `how` to the server after that many calls."""
    def watch():
      while self.process.poll() is None:
        try:
          answered = self.calls()
        except OSError:  # it was already stopped
          return
        if answered >= calls:
          self.process.send_signal(how)
          self.process.wait()
          self.killed_after = answered
          return
        time.sleep(0.005)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread
