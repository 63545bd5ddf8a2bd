"""The four reference topologies of MLPerf Tiny in int8, with random weights, whole and small."""

from __future__ import annotations

from tests.importers.tflite_files import File, Value, schema


def averaged(f: File, x: Value) -> Value:
    """The average of an image, for each channel."""
    size = (x.shape[1], x.shape[2])
    return f.pool(x, "AVERAGE", size, size)


def softmax(f: File, x: Value) -> Value:
    """What ends a classifier."""
    options = schema.SoftmaxOptionsT()
    options.beta = 1.0
    return f.function("SOFTMAX", x, 1 / 256, -128, options)


def resnet8(side: int = 32, width: int = 16, seed: int = 21) -> tuple[File, Value]:
    """Image classification: a residual network of eight layers. The file, and what its softmax reads."""
    f = File(seed)
    x = f.conv(f.input(1, side, side, 3, scale=0.004, zero=-128), width, activation="relu", zero=-128)
    for stage in range(3):
        outputs, stride = width << stage, (1, 1) if stage == 0 else (2, 2)
        y = f.conv(x, outputs, stride=stride, activation="relu", zero=-128)
        y = f.conv(y, outputs)
        x = x if stage == 0 else f.conv(x, outputs, (1, 1), stride)
        x = f.binary("ADD", x, y, 1.2 * max(x.scale, y.scale), activation="relu", zero=-128)
    x = averaged(f, x)
    x = f.dense(f.reshape(x, 1, x.shape[3]), 10)
    f.output(softmax(f, x))
    return f, x


def ds_cnn(height: int = 49, width: int = 10, channels: int = 64, blocks: int = 4) -> tuple[File, Value]:
    """Keyword spotting: depthwise separable convolutions."""
    f = File(22)
    x = f.input(1, height, width, 1, scale=0.58, zero=83)
    x = f.conv(x, channels, (10, 4), (2, 2), activation="relu", zero=-128)
    for _ in range(blocks):
        x = f.depthwise(x, activation="relu", zero=-128)
        x = f.conv(x, channels, (1, 1), activation="relu", zero=-128)
    x = averaged(f, x)
    x = f.dense(f.reshape(x, 1, channels), 12)
    f.output(softmax(f, x))
    return f, x


def mobilenet(side: int = 96, width: int = 8) -> tuple[File, Value]:
    """Visual wake words: MobileNetV1 with a quarter of the channels."""
    f = File(23)
    x = f.input(1, side, side, 3, scale=0.0078, zero=-1)
    x = f.conv(x, width, stride=(2, 2), activation="relu", zero=-128)
    for outputs, stride in ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *[(16, 1)] * 5, (32, 2), (32, 1)):
        x = f.depthwise(x, stride=(stride, stride), activation="relu", zero=-128)
        x = f.conv(x, outputs * width, (1, 1), activation="relu", zero=-128)
    x = averaged(f, x)
    x = f.dense(f.reshape(x, 1, x.shape[3]), 2)
    f.output(softmax(f, x))
    return f, x


def autoencoder(inputs: int = 640, width: int = 128, inner: int = 8) -> tuple[File, Value]:
    """Anomaly detection: a fully connected autoencoder."""
    f = File(24)
    x = f.input(1, inputs, scale=0.38, zero=92)
    for outputs in (width, width, width, width, inner, width, width, width, width):
        x = f.dense(x, outputs, "relu", zero=-128)
    x = f.dense(x, inputs)
    f.output(x)
    return f, x
