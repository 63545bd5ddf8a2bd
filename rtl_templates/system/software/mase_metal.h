/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware layer of the driver without an operating system: registers and buffers at their bus addresses. */
#ifndef MASE_METAL_H
#define MASE_METAL_H

#include "mase_driver.h"

struct mase_metal {
    /* Address of the registers. */
    uintptr_t registers;
    /* A counter that wraps, in the ticks that timeouts are given in. */
    uint32_t (*now)(void);
};

/*
 * Polls, and takes memory for coherent; where a cache lies between, set `clean` and
 * `invalidate` of `hal` afterwards. Where it can be told, set `base` and `limit` as well.
 */
void mase_metal(struct mase_hal *hal, struct mase_metal *metal);

#endif
