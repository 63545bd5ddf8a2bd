/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MASE_SELFTEST_H
#define MASE_SELFTEST_H

#include "mase_driver.h"

struct mase_buffers {
    uint8_t *input;
    size_t input_bytes;
    uint8_t *output;
    size_t output_bytes;
    uint8_t *parameters; /* MASE_OUTSIDE_BYTES bytes, if that is not 0 */
};

/*
 * Plays the vectors of the bundle, as many at a time as the buffers hold. Prints PASS and
 * the cycles of a frame, or the first element that differs, or the error. 0 if it passes.
 *
 * Of a design that decodes a frame is a token. The first half of the first sequence is then
 * continued token by token, until the context is full, and what was written is printed.
 * One that generates by itself is given a prompt, and what comes of it is printed.
 */
int mase_selftest(const struct mase_hal *hal, const struct mase_buffers *buffers, uint32_t timeout,
                  void (*print)(const char *text));

/* Loads the parameters of the vectors by the driver, if they are not in ROM. 0 if that went well. */
int mase_selftest_load(const struct mase_hal *hal, const struct mase_buffers *buffers, uint32_t timeout,
                       void (*print)(const char *text));

#endif
