"""``python -m mase_hw.cli``."""

import sys

from mase_hw.cli.main import main

sys.exit(main())
