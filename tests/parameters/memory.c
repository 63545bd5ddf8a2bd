/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters in memory through the registers: both sets, images that are refused, faults, resets. Prints what was wrong. */
#define SOON 40000u
#include "checks.h"
#include "images.h"

static uint8_t *second;

static int use(const uint8_t *image)
{
    return mase_use(&device, image, MASE_OUTSIDE_BYTES, SOON);
}

static void refused(void)
{
    struct mase_hal window = hal;

    expect("short", mase_use(&device, second, MASE_OUTSIDE_BYTES - MASE_BUS_BYTES, SOON), MASE_BAD_IMAGE);
    expect("unaligned", use(second + 1), MASE_UNALIGNED);
    window.limit = hal.address(hal.context, second) + MASE_OUTSIDE_BYTES - 2;
    expect("open", mase_open(&device, &window), MASE_OK);
    expect("window", use(second), MASE_UNREACHABLE);
    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("nothing was touched", selftest(), 0);

    memcpy(second, other, MASE_OUTSIDE_BYTES);
    second[MASE_OUTSIDE_BYTES / 3] ^= 1u;
    expect("changed", use(second), MASE_BAD_IMAGE);
    expect("which changes nothing", selftest(), 0);
    memcpy(second, other, MASE_OUTSIDE_BYTES);
    memcpy(second + MASE_OUTSIDE_BYTES / 2, own + MASE_OUTSIDE_BYTES / 2, MASE_OUTSIDE_BYTES - MASE_OUTSIDE_BYTES / 2);
    expect("torn", use(second), MASE_BAD_IMAGE);
    expect("which changes nothing", selftest(), 0);
}

static void faults(void)
{
    memcpy(second, own, MASE_OUTSIDE_BYTES);
    model_fault(MODEL_STUCK, NULL);
    expect("memory that does not answer", use(second), MASE_TIMEOUT);
    expect("nor a reset", mase_reset(&device, SOON), MASE_TIMEOUT);
    model_fault(MODEL_NONE, NULL);
    expect("the reset", mase_reset(&device, SOON), MASE_OK);
    expect("with one of both images", selftest(), 0);
    expect("use", use(buffers.parameters), MASE_OK);

    model_fault(MODEL_READ_ERROR, buffers.parameters + MASE_BUS_BYTES);
    expect("an error where parameters lie", selftest(), 1);
    /* Its word may have been read ahead, before the job begins. */
    expect("is seen", one_frame(), MASE_OK);
    expect("by the job", mase_wait(&device, SOON), MASE_BUS_READ);
    model_fault(MODEL_NONE, NULL);
    expect("as the next", one_frame(), MASE_OK);
    expect("may use such a word", mase_wait(&device, SOON), MASE_BUS_READ);
    expect("a reset forgets them", mase_reset(&device, SOON), MASE_OK);
    expect("right again", selftest(), 0);
}

static void resets(void)
{
    uint32_t cycles;

    for (cycles = 1; cycles < 400; cycles += 23) {
        uint32_t begin = hal.now(hal.context);

        hal.write(hal.context, MASE_PARAMETER_WORD, (uint32_t)(hal.address(hal.context, second) / MASE_BUS_BYTES));
        hal.write(hal.context, MASE_PARAMETERS, MASE_PARAMETERS_USE);
        while (hal.now(hal.context) - begin < cycles) {
            hal.read(hal.context, MASE_STATUS);
        }
        expect("a reset", mase_reset(&device, SOON), MASE_OK);
        expect("with the same parameters", selftest(), 0);
    }
}

int main(void)
{
    struct mase_counters counters;

    open_model();
    buffers.parameters = model_buffer(MASE_OUTSIDE_BYTES);
    second = model_buffer(MASE_OUTSIDE_BYTES);
    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("no image", one_frame(), MASE_NOT_STORED);
    expect("the parameters of the bundle", mase_selftest_load(&hal, &buffers, SOON, quiet), 0);
    expect("their results", selftest(), 0);
    memcpy(second, other, MASE_OUTSIDE_BYTES);
    expect("use", use(second), MASE_OK);
    expect("other parameters, other results", selftest(), 1);
    expect("use", use(buffers.parameters), MASE_OK);
    expect("its own again", selftest(), 0);
    mase_count(&device, &counters, 0);
    expect("a memory slower than stated is late", counters.parameters_late != 0, 1);
    refused();
    faults();
    memcpy(second, own, MASE_OUTSIDE_BYTES);
    resets();
    expect("rules of AXI4 that were broken", (int)model_violations(), 0);
    return verdict();
}
