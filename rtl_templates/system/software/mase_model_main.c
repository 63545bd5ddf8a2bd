/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test on the Verilated model. Arguments: percent of stalls; anything more uses the interrupt. */
#include <stdio.h>
#include <stdlib.h>

#include "mase_selftest.h"
#include "mase_vectors.h"
#include "mase_model.h"

static void print(const char *text)
{
    fputs(text, stdout);
}

int main(int argc, char **argv)
{
    struct mase_hal hal;
    uint32_t timeout;
    struct mase_buffers buffers;
    /* A hundred times what the design takes: memory may stall, but a self-test that hangs is to end. */
    uint64_t most = UINT64_C(1000000) + UINT64_C(100) * MASE_VECTORS * MASE_INTERVAL;

    model_open(&hal, argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0, argc > 2);
    buffers.input_bytes = (size_t)MASE_VECTORS * MASE_INPUT_BYTES;
    buffers.input = model_buffer(buffers.input_bytes);
    buffers.output_bytes = (size_t)MASE_VECTORS * MASE_OUTPUT_BYTES;
    buffers.output = model_buffer(buffers.output_bytes);
    buffers.parameters = model_buffer(MASE_OUTSIDE_BYTES);
    timeout = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    return mase_selftest_load(&hal, &buffers, timeout, print) || mase_selftest(&hal, &buffers, timeout, print);
}
