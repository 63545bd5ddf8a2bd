/* SPDX-License-Identifier: Apache-2.0 */
/* Driver of a system made by mase_hw: C99, no allocation, no globals. */
#ifndef MASE_DRIVER_H
#define MASE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "mase_design.h"

/* What a call returns; mase_text says it in words. */
enum mase_code {
    MASE_OK = 0,
    MASE_WRONG_MAGIC,
    MASE_WRONG_VERSION,
    MASE_WRONG_DESIGN,
    MASE_NO_FRAMES,
    MASE_UNALIGNED,
    MASE_TOO_SHORT,
    MASE_UNREACHABLE,
    MASE_BUSY,
    MASE_REFUSED,
    MASE_NOT_STARTED,
    MASE_TIMEOUT,
    MASE_BUS_READ,
    MASE_BUS_WRITE,
    MASE_OVERRUN,
    MASE_ABANDONED,
    MASE_NOT_STORED,
    MASE_BAD_IMAGE,
    MASE_CODES
};

/*
 * The hardware as the driver sees it. `context` is given back to every function.
 * `sleep` returns at an interrupt or after so many ticks, whichever comes first; without
 * one (NULL) the driver polls. `clean`, `invalidate` and `barrier` may be NULL where
 * memory is coherent and accesses stay in order.
 */
struct mase_hal {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
    uint64_t (*address)(void *context, const void *buffer);
    void (*clean)(void *context, const void *buffer, size_t bytes);
    void (*invalidate)(void *context, void *buffer, size_t bytes);
    void (*barrier)(void *context);
    uint32_t (*now)(void *context);
    void (*sleep)(void *context, uint32_t ticks);
    /* Bus addresses that buffers may lie at: base to limit, both included. */
    uint64_t base;
    uint64_t limit;
};

struct mase_device {
    const struct mase_hal *hal;
    void *output;
    size_t output_bytes;
    int started;
};

struct mase_counters {
    uint32_t frames_in;
    uint32_t frames_out;
    uint32_t frames_flagged;
    uint32_t cycles_last;
    uint32_t cycles_least;
    uint32_t cycles_most;
    uint32_t stalls_in;
    uint32_t stalls_out;
    uint32_t parameters_late;
};

/* Compares magic, version and digest with what the software was made for. */
int mase_open(struct mase_device *device, const struct mase_hal *hal);

/*
 * Integers of all inputs, one behind the other, to a record of MASE_INPUT_BYTES, and a record of
 * MASE_OUTPUT_BYTES to integers of all outputs. A frame of a job is such a record.
 */
void mase_load(uint8_t *frame, const mase_value *values);
void mase_read(const uint8_t *frame, mase_value *values);

/*
 * Of a design that generates by itself: the tokens of one of the sequences that a job of so many prompts has left, the
 * mark at the last one and without their slot, and how many there are. Tokens of several slots come as they are chosen;
 * those of a slot belong to its prompts in their order.
 */
uint32_t mase_sequence(const uint8_t *input, const uint8_t *output, uint32_t frames, uint32_t which,
                       mase_value *tokens);

/* Starts a job of frames that lie one behind the other; the buffers are the device's until it ends. */
int mase_start(struct mase_device *device, const void *input, size_t input_bytes, void *output, size_t output_bytes,
               uint32_t frames);

/* Waits for the end of the job, at most so many ticks. After MASE_TIMEOUT the job runs on: wait again, or reset. */
int mase_wait(struct mase_device *device, uint32_t timeout);

/* Abandons the job; MASE_TIMEOUT if the memory leaves a burst unanswered for so many ticks. */
int mase_reset(struct mase_device *device, uint32_t timeout);

/*
 * Loads the parameters of a design that has them in RAM: an image of MASE_IMAGE_WORDS words, as `mase-hw weights`
 * writes it. Frames that run are finished with those they began with. Waits at most so many ticks for any word.
 */
int mase_store(struct mase_device *device, const uint32_t *image, size_t words, uint32_t timeout);

/* Reads the image of what is stored. */
int mase_recall(struct mase_device *device, uint32_t *image, size_t words, uint32_t timeout);

/*
 * Uses the parameters of an image that lies in a buffer of MASE_OUTSIDE_BYTES bytes, as `mase-hw weights` writes it to
 * external.bin. The hardware reads all of it first, once the frames inside have left, and refuses one that is changed
 * or of another design; it then goes on with the image before. The buffer is the device's until another one is used.
 */
int mase_use(struct mase_device *device, const void *image, size_t bytes, uint32_t timeout);

/* Reads the counters, and clears them if asked to. */
void mase_count(const struct mase_device *device, struct mase_counters *counters, int clear);

/* A code in words. */
const char *mase_text(int code);

#endif
