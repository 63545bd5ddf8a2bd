/*
 * The driver of a system with streams, on a stand-in for AXI DMAs in direct register mode (PG021) and for the
 * accelerator behind them, which knows the frames of the vectors. Prints what was wrong, if anything.
 */
#include <stdio.h>
#include <string.h>

#include "mase_axi_dma.h"
#include "mase_registers.h"
#include "mase_selftest.h"
#include "mase_vectors.h"

#define DMAS 2u
#define SOON 500u
#define PLACE 0x10000u

static struct {
    uint32_t control[2];
    uint32_t status[2];
    uint32_t address[2];
    uint32_t length[2];
    int due[2]; /* a transfer was started and has not ended */
} dmas[DMAS];

/* Memory as the program sees it through its cache, and as the DMAs see it: input, then output. */
static uint8_t cached[2][2 * MASE_INPUT_BYTES + 2 * MASE_OUTPUT_BYTES];
static uint8_t *const seen = cached[0];
static uint8_t *const memory = cached[1];
static uint32_t registers[32];
static uint32_t ticks;
static unsigned failing; /* the channel, from 1, whose next transfer ends with an error */
static int stuck;
static int wrong;
static const char *broken;

static const struct mase_part inputs[] = MASE_INPUT_PARTS;
static const struct mase_part outputs[] = MASE_OUTPUT_PARTS;

static void check(const char *what, int good)
{
    if (!good) {
        printf("%s\n", what);
        wrong = 1;
    }
}

/* When the parts of a frame have come at all inputs, and all outputs are awaited, they all move. */
static void compute(void)
{
    uint8_t record[MASE_INPUT_BYTES];
    unsigned k, i;

    for (k = 0; k < DMAS; k++) {
        if (!dmas[k].due[0] || !dmas[k].due[1]) {
            return;
        }
    }
    if (stuck) {
        return;
    }
    if (failing != 0) {
        dmas[1].status[failing - 1] |= 0x4021u; /* halted, slave error, error interrupt */
        failing = 0;
        stuck = 1;
        return;
    }
    for (i = 0; i < MASE_VECTORS; i++) {
        int same = 1;

        mase_load(record, mase_vectors_in[i]);
        for (k = 0; k < DMAS; k++) {
            same &= memcmp(record + inputs[k].offset, memory + dmas[k].address[0] - PLACE, dmas[k].length[0]) == 0;
        }
        if (same) {
            break;
        }
    }
    check("a frame is none of the vectors", i < MASE_VECTORS);
    for (k = 0; k < DMAS && i < MASE_VECTORS; k++) {
        uint32_t end = k + 1 < DMAS ? outputs[k + 1].offset : MASE_OUTPUT_BYTES;

        check("a transfer has another length than its frame", dmas[k].length[1] == end - outputs[k].offset);
        memcpy(memory + dmas[k].address[1] - PLACE, mase_vectors_out[i] + outputs[k].offset, end - outputs[k].offset);
        dmas[k].due[0] = dmas[k].due[1] = 0;
        dmas[k].status[0] |= 0x1002u;
        dmas[k].status[1] |= 0x1002u;
    }
}

static uint32_t dma_read(void *context, unsigned number, uint32_t offset)
{
    unsigned channel = offset >= 0x30u;

    (void)context;
    if (offset % 0x30u == 0x00u) {
        return dmas[number].control[channel];
    }
    check("a read of another register", offset % 0x30u == 0x04u);
    return dmas[number].status[channel];
}

static void dma_write(void *context, unsigned number, uint32_t offset, uint32_t value)
{
    unsigned channel = offset >= 0x30u;

    (void)context;
    check("there is no such DMA", number < DMAS);
    switch (offset % 0x30u) {
    case 0x00u:
        if ((value & 4u) != 0) {
            memset(&dmas[number], 0, sizeof dmas[number]);
            dmas[number].status[0] = dmas[number].status[1] = 1;
            stuck = 0;
        } else {
            dmas[number].control[channel] = value;
            dmas[number].status[channel] &= ~(value & 1u);
        }
        break;
    case 0x04u:
        dmas[number].status[channel] &= ~(value & 0x7000u);
        break;
    case 0x18u:
        check("an address while a transfer goes on", !dmas[number].due[channel]);
        dmas[number].address[channel] = value;
        break;
    case 0x28u:
        check("a length while the channel does not run", (dmas[number].status[channel] & 1u) == 0);
        check("an event was left", (dmas[number].status[channel] & 0x7000u) == 0);
        dmas[number].length[channel] = value;
        dmas[number].status[channel] &= ~2u;
        dmas[number].due[channel] = 1;
        break;
    default:
        check("a write of another register", 0);
    }
}

static uint32_t get(void *context, uint32_t offset)
{
    (void)context;
    return registers[offset / 4];
}

static void put(void *context, uint32_t offset, uint32_t value)
{
    (void)context;
    check("the accelerator has no jobs", offset != MASE_CONTROL || (value & MASE_CONTROL_START) == 0);
    if (offset == MASE_CONTROL && (value & MASE_CONTROL_SOFT_RESET) != 0) {
        registers[MASE_ERRORS / 4] = 0;
    }
}

static uint64_t address(void *context, const void *buffer)
{
    (void)context;
    return PLACE + (uint64_t)((const uint8_t *)buffer - seen);
}

static void clean(void *context, const void *buffer, size_t bytes)
{
    (void)context;
    memcpy(memory + ((const uint8_t *)buffer - seen), buffer, bytes);
}

static void invalidate(void *context, void *buffer, size_t bytes)
{
    (void)context;
    memcpy(buffer, memory + ((uint8_t *)buffer - seen), bytes);
}

static uint32_t now(void *context)
{
    (void)context;
    if (++ticks % 7u == 0) {
        compute();
    }
    return ticks;
}

static void say(const char *text)
{
    if (strncmp(text, "FAIL", 4) == 0) {
        broken = text;
    }
}

int main(void)
{
    static const int codes[2] = {MASE_BUS_READ, MASE_BUS_WRITE};
    struct mase_hal below = {NULL, get, put, address, clean, invalidate, NULL, now, NULL, PLACE, 0};
    struct mase_hal hal;
    struct mase_axi_dma dma;
    struct mase_device device;
    struct mase_buffers buffers = {seen, 2 * MASE_INPUT_BYTES, seen + 2 * MASE_INPUT_BYTES, 2 * MASE_OUTPUT_BYTES, NULL};
    unsigned i;

    below.limit = PLACE + sizeof cached[0] - 1;
    registers[MASE_MAGIC / 4] = MASE_MAGIC_VALUE_IS;
    registers[MASE_VERSION / 4] = MASE_VERSION_MAJOR_IS << 16;
    registers[MASE_DIGEST_LOW / 4] = MASE_DESIGN_LOW;
    registers[MASE_DIGEST_HIGH / 4] = MASE_DESIGN_HIGH;
    registers[MASE_PARAMETERS / 4] = MASE_PARAMETERS_STORED;
    dma.below = &below;
    dma.context = NULL;
    dma.read = dma_read;
    dma.write = dma_write;
    mase_axi_dma(&hal, &dma);
    check("the self-test fails", mase_selftest(&hal, &buffers, SOON, say) == 0);
    check("it opens", mase_open(&device, &hal) == MASE_OK);
    mase_load(buffers.input, mase_vectors_in[0]);
    mase_load(buffers.input + MASE_INPUT_BYTES, mase_vectors_in[1]);
#define START mase_start(&device, buffers.input, buffers.input_bytes, buffers.output, buffers.output_bytes, 2)
    for (i = 0; i < 2; i++) {
        failing = i + 1;
        check("a job after an error starts", START == MASE_OK);
        check("an error has its code", mase_wait(&device, SOON) == codes[i]);
        check("frames after an error", mase_selftest(&hal, &buffers, SOON, say) == 0);
    }
    check("a job starts", START == MASE_OK);
    check("a second one is refused", START == MASE_BUSY);
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_START);
    check("past the driver it is an overrun", mase_wait(&device, SOON) == MASE_OVERRUN);
    stuck = 1;
    check("a job that stays starts", START == MASE_OK);
    check("nothing moves", mase_wait(&device, SOON) == MASE_TIMEOUT);
    check("a reset", mase_reset(&device, SOON) == MASE_OK);
    check("frames after a reset", mase_selftest(&hal, &buffers, SOON, say) == 0);
    check("a job is given up", START == MASE_OK);
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_SOFT_RESET);
    check("it has its code", mase_wait(&device, SOON) == MASE_ABANDONED);
    check("no self-test has failed", broken == NULL);
    below.invalidate = NULL;
    mase_axi_dma(&hal, &dma);
    check("a cache that is not invalidated is seen", mase_selftest(&hal, &buffers, SOON, say) != 0);
    return wrong;
}
