"""Makes the kits of the neighbouring folders importable, so that this folder also runs alone."""

import sys
from pathlib import Path

for _folder in ("truth", "projectors"):
    _path = str(Path(__file__).parent.parent / _folder)
    if _path not in sys.path:
        sys.path.append(_path)
