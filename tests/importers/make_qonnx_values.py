"""Write what the executor of QONNX gives for the networks of the tests.

``python -m tests.importers.make_qonnx_values`` needs the package qonnx (1.0), which the tests do without.
"""

import json

import numpy as np
import onnx
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes

from tests.importers.qonnx_networks import NETWORKS, VALUES, digest, inputs


def main() -> None:
    """Write the file."""
    onnx.IR_VERSION = 10  # of the parts that the executor makes of a model, for any ONNX Runtime
    found = {}
    for name, make in NETWORKS.items():
        net = make()
        made, x = net.model(), inputs(net)
        whole = ModelWrapper(made).transform(InferShapes())
        y = np.concatenate([np.asarray(execute_onnx(whole, {"x": frame[None]})["y"]) for frame in x])
        found[name] = {"digest": digest(net.model(), x), "shape": y.shape, "values": y.reshape(-1).tolist()}
    text = json.dumps(found, indent=None)
    VALUES.write_text(text.replace("}, ", "},\n ") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
