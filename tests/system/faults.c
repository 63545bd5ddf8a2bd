/* Everything that goes wrong ends with a code, and the next frames are right. Prints what was wrong, if anything. */
#include <stdio.h>

#include "mase_model.h"
#include "mase_registers.h"
#include "mase_selftest.h"
#include "mase_vectors.h"

#define SOON 20000u

static struct mase_hal hal;
static struct mase_buffers buffers;
static int wrong;
static const struct mase_hal *below;
static uint32_t lie_at;

static void print(const char *text)
{
    fputs(text, stdout);
}

static void quiet(const char *text)
{
    (void)text;
}

static void expect(const char *what, int got, int expected)
{
    if (got != expected) {
        printf("%s: %d (%s), expected %d (%s)\n", what, got, mase_text(got), expected, mase_text(expected));
        wrong = 1;
    }
}

static void still_right(const char *what)
{
    if (mase_selftest(&hal, &buffers, SOON, print) != 0) {
        printf("%s: the next frames are wrong\n", what);
        wrong = 1;
    }
}

static uint32_t other_bit(void *context, uint32_t offset)
{
    return below->read(context, offset) ^ (offset == lie_at ? 0x10000u : 0u);
}

static int start(struct mase_device *device, uint32_t frames)
{
    uint32_t i;

    for (i = 0; i < frames; i++) {
        mase_load(buffers.input + i * MASE_INPUT_BYTES, mase_vectors_in[i]);
    }
    return mase_start(device, buffers.input, buffers.input_bytes, buffers.output, buffers.output_bytes, frames);
}

static void identity(void)
{
    struct mase_device device;
    struct mase_hal other = hal;

    below = &hal;
    other.read = other_bit;
    lie_at = MASE_MAGIC;
    expect("no accelerator", mase_open(&device, &other), MASE_WRONG_MAGIC);
    lie_at = MASE_VERSION;
    expect("another register map", mase_open(&device, &other), MASE_WRONG_VERSION);
    lie_at = MASE_DIGEST_LOW;
    expect("another bitstream", mase_open(&device, &other), MASE_WRONG_DESIGN);
    lie_at = MASE_DIGEST_HIGH;
    expect("another bitstream", mase_open(&device, &other), MASE_WRONG_DESIGN);
}

static void arguments(void)
{
    struct mase_device device;
    struct mase_hal window = hal;
    size_t in = buffers.input_bytes;
    size_t out = buffers.output_bytes;

    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("wait for nothing", mase_wait(&device, SOON), MASE_NOT_STARTED);
    expect("no frames", mase_start(&device, buffers.input, in, buffers.output, out, 0), MASE_NO_FRAMES);
    expect("unaligned", mase_start(&device, buffers.input + 1, in, buffers.output, out, 1), MASE_UNALIGNED);
    expect("unaligned", mase_start(&device, buffers.input, in, buffers.output + 2, out, 1), MASE_UNALIGNED);
    expect("short", mase_start(&device, buffers.input, MASE_INPUT_BYTES - 1, buffers.output, out, 1), MASE_TOO_SHORT);
    expect("short", mase_start(&device, buffers.input, in, buffers.output, MASE_OUTPUT_BYTES, 2), MASE_TOO_SHORT);
    window.limit = hal.address(hal.context, buffers.output) + MASE_OUTPUT_BYTES - 2;
    expect("open", mase_open(&device, &window), MASE_OK);
    expect("window", mase_start(&device, buffers.input, in, buffers.output, out, 1), MASE_UNREACHABLE);
    /* What the driver refuses the hardware refuses as well. */
    hal.write(hal.context, MASE_SOURCE_HIGH, 1);
    hal.write(hal.context, MASE_FRAMES, 1);
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_START);
    expect("refused", (int)hal.read(hal.context, MASE_ERRORS), MASE_ERRORS_REFUSED);
    expect("not busy", (int)hal.read(hal.context, MASE_STATUS), 0);
    hal.write(hal.context, MASE_ERRORS, MASE_ERRORS_REFUSED);
    hal.write(hal.context, MASE_SOURCE_HIGH, 0);
    hal.write(hal.context, MASE_SOURCE_LOW, (uint32_t)hal.address(hal.context, buffers.input));
    hal.write(hal.context, MASE_TARGET_LOW, (uint32_t)hal.address(hal.context, buffers.output));
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_START);
    while ((hal.read(hal.context, MASE_STATUS) & MASE_STATUS_BUSY) != 0) {
    }
    expect("outside the window", (int)hal.read(hal.context, MASE_ERRORS), MASE_ERRORS_REFUSED);
    still_right("arguments");
}

static void bus_error(enum model_kind kind, const uint8_t *at, int code, uint32_t flagged)
{
    struct mase_device device;
    struct mase_counters counters;

    expect("open", mase_open(&device, &hal), MASE_OK);
    mase_count(&device, &counters, 1);
    model_fault(kind, at);
    expect("start", start(&device, 2), MASE_OK);
    expect("bus error", mase_wait(&device, SOON), code);
    model_fault(MODEL_NONE, NULL);
    mase_count(&device, &counters, 0);
    expect("flagged", (int)counters.frames_flagged, (int)flagged);
    expect("frames", (int)counters.frames_out, 2);
    still_right("bus error");
}

static void twice(void)
{
    struct mase_device device;

    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("start", start(&device, 2), MASE_OK);
    expect("start again", start(&device, 2), MASE_BUSY);
    /* Other software that does not ask. */
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_START);
    expect("overrun", mase_wait(&device, SOON), MASE_OVERRUN);
    still_right("started twice");
}

static void stuck(void)
{
    struct mase_device device;

    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("start", start(&device, 2), MASE_OK);
    model_fault(MODEL_STUCK, NULL);
    expect("memory does not answer", mase_wait(&device, SOON), MASE_TIMEOUT);
    expect("nor for the reset", mase_reset(&device, SOON), MASE_TIMEOUT);
    expect("start in a reset", start(&device, 2), MASE_BUSY);
    model_fault(MODEL_NONE, NULL);
    expect("reset", mase_reset(&device, SOON), MASE_OK);
    expect("wait for nothing", mase_wait(&device, SOON), MASE_NOT_STARTED);
    still_right("stuck memory");
}

/* A reset in every part of a job. */
static void resets(void)
{
    struct mase_device device;
    struct mase_counters counters;
    unsigned cycles;

    for (cycles = 0; cycles < 500; cycles += 13) {
        unsigned i;

        expect("open", mase_open(&device, &hal), MASE_OK);
        expect("start", start(&device, 3), MASE_OK);
        for (i = 0; i < cycles; i += 3) {
            (void)hal.read(hal.context, MASE_STATUS);
        }
        expect("reset", mase_reset(&device, SOON), MASE_OK);
        expect("status", (int)hal.read(hal.context, MASE_STATUS), 0);
        if (mase_selftest(&hal, &buffers, SOON, quiet) != 0) {
            printf("reset after %u cycles: the next frames are wrong\n", cycles);
            wrong = 1;
        }
    }
    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("start", start(&device, 3), MASE_OK);
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_SOFT_RESET);
    expect("reset by others", mase_wait(&device, SOON), MASE_ABANDONED);
    mase_count(&device, &counters, 1);
    still_right("resets");
}

static void paused(void)
{
    struct mase_device device;

    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("start", start(&device, 3), MASE_OK);
    hal.write(hal.context, MASE_CONTROL, 0);
    expect("not enabled", mase_wait(&device, SOON), MASE_TIMEOUT);
    hal.write(hal.context, MASE_CONTROL, MASE_CONTROL_ENABLE);
    expect("enabled", mase_wait(&device, SOON), MASE_OK);
    still_right("paused");
}

static void interrupts(unsigned stalls)
{
    struct mase_device device;

    model_open(&hal, stalls, 1);
    still_right("interrupts");
    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("start", start(&device, 2), MASE_OK);
    model_lose_interrupts(1);
    expect("lost interrupt", mase_wait(&device, SOON), MASE_OK);
    still_right("lost interrupt");
}

static void caches(void)
{
    struct mase_hal whole = hal;

    hal.invalidate = NULL;
    if (mase_selftest(&hal, &buffers, SOON, quiet) == 0) {
        printf("a result that was not invalidated passes\n");
        wrong = 1;
    }
    hal = whole;
    still_right("caches");
}

int main(void)
{
    static const unsigned stalls[] = {0, 50};
    size_t i;

    buffers.input_bytes = (size_t)MASE_VECTORS * MASE_INPUT_BYTES;
    buffers.input = model_buffer(buffers.input_bytes);
    buffers.output_bytes = (size_t)MASE_VECTORS * MASE_OUTPUT_BYTES;
    buffers.output = model_buffer(buffers.output_bytes);
    for (i = 0; i < sizeof stalls / sizeof stalls[0]; i++) {
        model_open(&hal, stalls[i], 0);
        still_right("first frames");
        identity();
        arguments();
        bus_error(MODEL_READ_ERROR, buffers.input + MASE_INPUT_BYTES - 1, MASE_BUS_READ, 1);
        bus_error(MODEL_WRITE_ERROR, buffers.output, MASE_BUS_WRITE, 0);
        twice();
        stuck();
        resets();
        paused();
        caches();
        interrupts(stalls[i]);
        if (model_violations() != 0) {
            printf("%u violations of AXI4\n", model_violations());
            wrong = 1;
        }
    }
    printf(wrong ? "wrong\n" : "all faults have their codes\n");
    return wrong;
}
