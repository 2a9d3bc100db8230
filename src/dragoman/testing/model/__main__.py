"""`python -m dragoman.testing.model`: the model server by itself."""

from __future__ import annotations

import sys

from dragoman.testing.model.server import main

sys.exit(main())
