/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that check parameters have in common; SOON is how long they wait. What is wrong is printed. */
#include <stdio.h>
#include <string.h>

#include "mase_model.h"
#include "mase_registers.h"
#include "mase_selftest.h"
#include "mase_vectors.h"

static struct mase_hal hal;
static struct mase_buffers buffers;
static struct mase_device device;
static int wrong;

static void quiet(const char *text)
{
    (void)text;
}

static void expect(const char *what, int got, int expected)
{
    if (got != expected) {
        printf("%s: %d, expected %d\n", what, got, expected);
        wrong = 1;
    }
}

/* Whether the vectors of the bundle, which are those of its own parameters, are computed. */
static int selftest(void)
{
    return mase_selftest(&hal, &buffers, SOON, quiet);
}

static void open_model(void)
{
    model_open(&hal, 20, 0);
    buffers.input_bytes = (size_t)MASE_VECTORS * MASE_INPUT_BYTES;
    buffers.input = model_buffer(buffers.input_bytes);
    buffers.output_bytes = (size_t)MASE_VECTORS * MASE_OUTPUT_BYTES;
    buffers.output = model_buffer(buffers.output_bytes);
}

/* A job of one frame. */
static int one_frame(void)
{
    return mase_start(&device, buffers.input, buffers.input_bytes, buffers.output, buffers.output_bytes, 1);
}

static int verdict(void)
{
    if (!wrong) {
        puts("OK");
    }
    return wrong;
}
