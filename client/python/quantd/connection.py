"""A connection to servers, and the calls that it makes."""

from quantd.engines.engine import Engine, Settings

__all__ = ["Connection", "connect"]


class Connection:
  """A thread-safe, picklable handle on one or several servers."""

  def __init__(self, settings: Settings, engine: str | None = None) -> None:
    """Connects to nothing yet: the first call does."""
    from quantd.engines import open_engine

    self._settings = settings
    self._engine: Engine = open_engine(settings, engine)


def connect(target: str, *, engine: str | None = None) -> Connection:
  """A connection to `target`, by `engine`: "grpc", "native" or the default."""
  return Connection(Settings(target), engine)
