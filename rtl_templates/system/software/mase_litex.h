/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware layer of the driver in a LiteX SoC. */
#ifndef MASE_LITEX_H
#define MASE_LITEX_H

#include "mase_metal.h"

struct mase_litex {
    /* The first, so that its functions take this as their context. */
    struct mase_metal metal;
    uint32_t interrupt;
};

/*
 * `registers` and `interrupt` are those of <generated/mem.h> and <generated/soc.h>: MASE_BASE and MASE_INTERRUPT for
 * an accelerator with the name `mase`; without interrupts (-1) the driver polls. Ticks are cycles of the system clock.
 * Buffers lie in the main memory, behind what flush_l2_cache reads: the driver refuses others as unreachable.
 */
void mase_litex(struct mase_hal *hal, struct mase_litex *litex, uintptr_t registers, int interrupt);

#endif
