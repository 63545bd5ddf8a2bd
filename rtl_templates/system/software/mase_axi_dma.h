/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware layer for a system with streams: AXI DMAs in direct register mode bring the frames (AMD PG021). */
#ifndef MASE_AXI_DMA_H
#define MASE_AXI_DMA_H

#include "mase_driver.h"

struct mase_axi_dma {
    /* The layer below: the registers of the accelerator, caches and time. */
    const struct mase_hal *below;
    /* Registers of an AXI DMA: number 0 is at the first input and the first output, and so on. */
    void *context;
    uint32_t (*read)(void *context, unsigned number, uint32_t offset);
    void (*write)(void *context, unsigned number, uint32_t offset, uint32_t value);
    /* The job. */
    uint64_t source;
    uint64_t target;
    uint32_t frames;
    uint32_t errors;
    int busy;
    int ending; /* a DMA has failed: the reset of all goes on */
    int done;
};

/*
 * Makes `hal` of the four members above, for the same calls of the driver. One transfer a frame and a direction, so
 * that every frame ends with TLAST; the next is begun by mase_wait, which polls. Both buffers must be reachable by
 * the DMAs, and a frame shorter than what their length registers hold.
 */
void mase_axi_dma(struct mase_hal *hal, struct mase_axi_dma *dma);

#endif
