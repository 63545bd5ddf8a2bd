/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of one accelerator of a LiteX SoC. */
#include <generated/mem.h>
#include <generated/soc.h>

#include "mase_litex.h"
#include "mase_selftest.h"
#include "mase_vectors.h"

/* So that the same buffers are used again. */
#define FRAMES_A_JOB ((MASE_VECTORS + 1) / 2)
#define INPUT_BYTES (FRAMES_A_JOB * MASE_INPUT_BYTES)
#define OUTPUT_BYTES (FRAMES_A_JOB * MASE_OUTPUT_BYTES)
/* A hundred times what the design takes: a self-test that hangs is to end. */
#define TIMEOUT (UINT64_C(1000000) + UINT64_C(100) * MASE_VECTORS * MASE_INTERVAL)

int mase_soc_selftest(void (*print)(const char *text));

static struct mase_buffers buffers;
static void (*barrier)(void *context);

/* A processor may fetch lines of the output ahead while a job runs; this one does not, so that the program does. */
static void fetch_ahead(void *context)
{
    const volatile uint8_t *output = buffers.output;
    size_t i;

    barrier(context);
    for (i = 0; i < buffers.output_bytes; i += 4) {
        (void)output[i];
    }
}

int mase_soc_selftest(void (*print)(const char *text))
{
    struct mase_hal hal;
    struct mase_litex litex;
    const uint32_t timeout = TIMEOUT < UINT32_MAX ? (uint32_t)TIMEOUT : UINT32_MAX;

    mase_litex(&hal, &litex, MASE_BASE, MASE_INTERRUPT);
    barrier = hal.barrier;
    hal.barrier = fetch_ahead;
    buffers.input = (uint8_t *)(uintptr_t)hal.base;
    buffers.input_bytes = INPUT_BYTES;
    buffers.output = buffers.input + (INPUT_BYTES + 63) / 64 * 64;
    buffers.output_bytes = OUTPUT_BYTES;
    buffers.parameters = buffers.output + (OUTPUT_BYTES + 63) / 64 * 64;
    return mase_selftest_load(&hal, &buffers, timeout, print) || mase_selftest(&hal, &buffers, timeout, print);
}
