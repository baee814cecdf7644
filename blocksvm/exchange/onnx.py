"""ONNX models: a LinearClassifier or LinearRegressor node of the operators for machine learning (ai.onnx.ml).

The input X is float32, (rows, columns), a column for each feature id; the weights are float32, too, as ONNX has them.
Outputs are the label and the decision value of each class, as scikit-learn's converter names and arranges them, or of
real targets the value.
"""

from typing import IO

import numpy as np

from blocksvm import __version__
from blocksvm.base.labels import label_text
from blocksvm.exchange.linear import linear_of, wrong_form
from blocksvm.model.model_file import Model

MOST_BYTES = 1_900_000_000  # of a file of protocol buffers, which ends at 2 GB
OPSET, ML_OPSET, IR = 15, 1, 8  # of 2021: read by all current runtimes


def write(model: Model, file: IO[bytes]) -> tuple[str, ...]:
    """Write the model; returns notes for its users.  InputError where it is too large for ONNX, or none that it has."""
    from onnx import TensorProto, checker, helper

    linear, name = linear_of(model, of_one_label="ONNX's classifiers"), model.path or "the model"
    k = len(linear.labels)
    coefficients = linear.dense("An ONNX model", MOST_BYTES // (2 if k == 2 else 1), 4)
    if max(abs(numbers).max(initial=0.0) for numbers in (linear.weights, linear.intercept)) > np.finfo(np.float32).max:
        raise wrong_form(f"{name}: a weight is too large for float32, which ONNX has")
    intercepts = linear.intercept.astype(np.float32)
    if k == 2:
        coefficients, intercepts = (np.concatenate([-one, one]) for one in (coefficients, intercepts))
    given = {"domain": "ai.onnx.ml", "coefficients": coefficients.ravel().tolist(), "intercepts": intercepts.tolist()}
    if k:
        whole = linear.whole_labels and max(map(abs, linear.labels)) < 2**63
        if whole:
            given["classlabels_ints"] = list(map(int, linear.labels))
        else:
            given["classlabels_strings"] = [one if isinstance(one, str) else label_text(one) for one in linear.labels]
        node = helper.make_node(
            "LinearClassifier", ["X"], ["label", "scores"], multi_class=0, post_transform="NONE", **given
        )
        kind = TensorProto.INT64 if whole else TensorProto.STRING
        shapes = [("label", kind, [None]), ("scores", TensorProto.FLOAT, [None, k])]
    else:
        node = helper.make_node("LinearRegressor", ["X"], ["value"], targets=1, **given)
        shapes = [("value", TensorProto.FLOAT, [None, 1])]
    rows = helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, linear.columns])
    outputs = [helper.make_tensor_value_info(*shape) for shape in shapes]
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    onnx_model = helper.make_model(
        helper.make_graph([node], "blocksvm", [rows], outputs), opset_imports=opsets, ir_version=IR,
        producer_name="blocksvm", producer_version=__version__,
    )  # fmt: skip
    checker.check_model(onnx_model)
    file.write(onnx_model.SerializeToString())
    return (*linear.steps, *linear.notes, "weights and scores are float32")
