/* SPDX-License-Identifier: Apache-2.0 */
#include "mase_metal.h"

static volatile uint32_t *at(const void *context, uint32_t offset)
{
    return (volatile uint32_t *)(((const struct mase_metal *)context)->registers + offset);
}

static uint32_t metal_read(void *context, uint32_t offset)
{
    return *at(context, offset);
}

static void metal_write(void *context, uint32_t offset, uint32_t value)
{
    *at(context, offset) = value;
}

static uint64_t metal_address(void *context, const void *buffer)
{
    (void)context;
    return (uintptr_t)buffer;
}

static void metal_barrier(void *context)
{
    (void)context;
    __sync_synchronize();
}

static uint32_t metal_now(void *context)
{
    return ((const struct mase_metal *)context)->now();
}

void mase_metal(struct mase_hal *hal, struct mase_metal *metal)
{
    hal->context = metal;
    hal->read = metal_read;
    hal->write = metal_write;
    hal->address = metal_address;
    hal->clean = NULL;
    hal->invalidate = NULL;
    hal->barrier = metal_barrier;
    hal->now = metal_now;
    hal->sleep = NULL;
    hal->base = 0;
    hal->limit = UINT64_MAX;
}
