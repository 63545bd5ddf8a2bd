/* SPDX-License-Identifier: Apache-2.0 */
#include "mase_selftest.h"

#include "mase_vectors.h"

static void number(void (*print)(const char *text), int64_t value)
{
    char text[24];
    char *at = text + sizeof text - 1;
    uint64_t left = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;

    *at = '\0';
    do {
        *--at = (char)('0' + (int)(left % 10));
        left /= 10;
    } while (left != 0);
    if (value < 0) {
        *--at = '-';
    }
    print(at);
}

static int failed(void (*print)(const char *text), const char *what, int code)
{
    print("FAIL: ");
    print(what);
    print(": ");
    print(mase_text(code));
    print("\n");
    return 1;
}

/* The first element of a frame that differs; 0 if none does. */
static int differs(void (*print)(const char *text), uint32_t frame, const uint8_t *got, const uint8_t *expected)
{
    static mase_value left[MASE_OUTPUT_SIZE];
    static mase_value right[MASE_OUTPUT_SIZE];
    size_t i;

    mase_read(got, left);
    mase_read(expected, right);
    for (i = 0; i < MASE_OUTPUT_SIZE; i++) {
        if (left[i] != right[i]) {
            print("FAIL: frame ");
            number(print, frame);
            print(", element ");
            number(print, (int64_t)i);
            print(": got ");
            number(print, left[i]);
            print(", expected ");
            number(print, right[i]);
            print("\n");
            return 1;
        }
    }
    return 0;
}

int mase_selftest(const struct mase_hal *hal, const struct mase_buffers *buffers, uint32_t timeout,
                  void (*print)(const char *text))
{
    size_t fits_in = buffers->input_bytes / MASE_INPUT_BYTES;
    size_t fits_out = buffers->output_bytes / MASE_OUTPUT_BYTES;
    size_t fits = fits_in < fits_out ? fits_in : fits_out;
    struct mase_device device;
    struct mase_counters counters;
    uint32_t done = 0;
    int code = mase_open(&device, hal);

    if (code != MASE_OK) {
        return failed(print, "open", code);
    }
    if (fits == 0) {
        return failed(print, "buffers", MASE_TOO_SHORT);
    }
    mase_count(&device, &counters, 1);
    while (done < MASE_VECTORS) {
        uint32_t frames = MASE_VECTORS - done < fits ? MASE_VECTORS - done : (uint32_t)fits;
        uint32_t frame;
        size_t i;

        for (frame = 0; frame < frames; frame++) {
            mase_load(buffers->input + frame * MASE_INPUT_BYTES, mase_vectors_in[done + frame]);
        }
        /* What an earlier job left must not pass for a result. */
        for (i = 0; i < frames * (size_t)MASE_OUTPUT_BYTES; i++) {
            buffers->output[i] = 0xA5;
        }
        code = mase_start(&device, buffers->input, buffers->input_bytes, buffers->output, buffers->output_bytes, frames);
        if (code != MASE_OK) {
            return failed(print, "start", code);
        }
        code = mase_wait(&device, timeout);
        if (code != MASE_OK) {
            return failed(print, "wait", code);
        }
        for (frame = 0; frame < frames; frame++) {
            if (differs(print, done + frame, buffers->output + frame * MASE_OUTPUT_BYTES, mase_vectors_out[done + frame])) {
                return 1;
            }
        }
        done += frames;
    }
    mase_count(&device, &counters, 0);
    print("PASS: ");
    number(print, MASE_VECTORS);
    print(" frames, ");
    number(print, counters.cycles_last);
    print(" cycles for the last (");
    number(print, MASE_INTERVAL);
    print(" predicted)\n");
    return 0;
}
