"""Layers and functions of PyTorch for which hardware of fixed shapes and stored parameters makes no sense, and why."""

from __future__ import annotations

_LOSS = "a loss: it is for training, and its other operand is the right answer"
_LAZY = "call the model once: then it is the layer of the same name without Lazy"
_HOLDER = "holds other layers, which are traced"
_RANDOM = "random in evaluation as well"
_SPARSE = "positions that are data: the shape of the result, or what moves where, is not fixed"
_INNER = "no function for models: PyTorch uses it itself"
_FRAMES = "compares the frames of a batch with each other"
_PARTS = "the function behind a layer, with all of its weights as arguments: use the layer"

_REASONS = {
    _LOSS: (
        "AdaptiveLogSoftmaxWithLoss BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss "
        "GaussianNLLLoss HingeEmbeddingLoss HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss MSELoss "
        "MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d "
        "PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss "
        "binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy ctc_loss "
        "gaussian_nll_loss hinge_embedding_loss huber_loss kl_div l1_loss linear_cross_entropy margin_ranking_loss "
        "mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss poisson_nll_loss "
        "smooth_l1_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss"
    ),
    _LAZY: (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"
    ),
    _HOLDER: (
        "Container DataParallel Module ModuleDict ModuleList ParameterDict ParameterList RNNBase RNNCellBase Sequential"
    ),
    _RANDOM: (
        "FractionalMaxPool2d FractionalMaxPool3d fractional_max_pool2d fractional_max_pool2d_with_indices "
        "fractional_max_pool3d fractional_max_pool3d_with_indices gumbel_softmax"
    ),
    _SPARSE: (
        "MaxUnpool1d MaxUnpool2d MaxUnpool3d max_unpool1d max_unpool2d max_unpool3d grid_sample affine_grid "
        "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices "
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"
    ),
    _INNER: (
        "Optional assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function "
        "has_torch_function_unary has_torch_function_variadic grouped_mm scaled_grouped_mm scaled_mm "
        "native_channel_shuffle"
    ),
    _FRAMES: "pdist",
    _PARTS: "multi_head_attention_forward",
}


def reasons() -> dict[str, str]:
    """Name in ``torch.nn`` or ``torch.nn.functional`` -> why there is no hardware for it."""
    return {name: reason for reason, names in _REASONS.items() for name in names.split()}
