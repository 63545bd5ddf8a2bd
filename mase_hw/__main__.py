"""``python -m mase_hw``: the command ``mase-hw``."""

import sys

from mase_hw.cli.main import main

sys.exit(main())
