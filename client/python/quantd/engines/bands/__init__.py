"""One call of the pure engine as calls for bands of its rows.

What comes of the bands, put together, is byte for byte what one call gives. The
rules are those of the C++ client's client/bands, restated.
"""

from quantd.engines.bands.calls import run
from quantd.engines.bands.cutting import Banded, cut
from quantd.engines.bands.meeting import meet

__all__ = ["Banded", "cut", "meet", "run"]
