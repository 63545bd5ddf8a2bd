/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test in a LiteX SoC; says how it ended, and then EOT. */
#include <generated/csr.h>
#include <generated/mem.h>
#include <generated/soc.h>
#include <system.h>

#include "mase_litex.h"
#include "mase_selftest.h"
#include "mase_vectors.h"

#ifdef CSR_SDRAM_BASE
#include <generated/sdram_phy.h>
#endif

#define EOT "\004"
/* So that the same buffers are used again. */
#define FRAMES_A_JOB ((MASE_VECTORS + 1) / 2)
#define INPUT_BYTES (FRAMES_A_JOB * MASE_INPUT_BYTES)
#define OUTPUT_BYTES (FRAMES_A_JOB * MASE_OUTPUT_BYTES)
/* A hundred times what the design takes: a self-test that hangs is to end. */
#define TIMEOUT (UINT64_C(1000000) + UINT64_C(100) * MASE_VECTORS * MASE_INTERVAL)

int main(void);
void isr(void);
void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

static struct mase_buffers buffers;
static void (*barrier)(void *context);

/* What the compiler may call. */
void *memset(void *to, int value, size_t bytes)
{
    volatile unsigned char *at = to;

    while (bytes-- > 0) {
        *at++ = (unsigned char)value;
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    volatile unsigned char *at = to;
    const unsigned char *source = from;

    while (bytes-- > 0) {
        *at++ = *source++;
    }
    return to;
}

/* No interrupt is taken. */
void isr(void)
{
}

static void print(const char *text)
{
    while (*text != '\0') {
        while (uart_txfull_read()) {
        }
        uart_rxtx_write((uint32_t)(unsigned char)*text++);
    }
}

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

int main(void)
{
    struct mase_hal hal;
    struct mase_litex litex;

#ifdef CSR_SDRAM_BASE
    sdram_dfii_control_write(DFII_CONTROL_CKE | DFII_CONTROL_ODT | DFII_CONTROL_RESET_N);
    init_sequence();
    sdram_dfii_control_write(DFII_CONTROL_SEL);
#endif
    mase_litex(&hal, &litex, MASE_BASE, MASE_INTERRUPT);
    barrier = hal.barrier;
    hal.barrier = fetch_ahead;
    buffers.input = (uint8_t *)(uintptr_t)hal.base;
    buffers.input_bytes = INPUT_BYTES;
    buffers.output = buffers.input + (INPUT_BYTES + 63) / 64 * 64;
    buffers.output_bytes = OUTPUT_BYTES;
    mase_selftest(&hal, &buffers, TIMEOUT < UINT32_MAX ? (uint32_t)TIMEOUT : UINT32_MAX, print);
    print(EOT);
    for (;;) {
    }
}
