/* SPDX-License-Identifier: Apache-2.0 */
#include "mase_axi_dma.h"

#include "mase_registers.h"

/* Registers of either channel, from its own base on. */
#define TO_STREAM 0x00u
#define FROM_STREAM 0x30u
#define DMACR 0x00u
#define DMASR 0x04u
#define ADDRESS 0x18u
#define ADDRESS_MSB 0x1Cu
#define LENGTH 0x28u
#define DMACR_RUN 0x1u
#define DMACR_RESET 0x4u
#define DMASR_ERRORS 0x70u
#define DMASR_COMPLETE 0x1000u
#define DMASR_EVENTS 0x7000u

static const struct mase_part inputs[] = MASE_INPUT_PARTS;
static const struct mase_part outputs[] = MASE_OUTPUT_PARTS;

#define INPUTS ((unsigned)(sizeof inputs / sizeof inputs[0]))
#define OUTPUTS ((unsigned)(sizeof outputs / sizeof outputs[0]))
#define DMAS (INPUTS > OUTPUTS ? INPUTS : OUTPUTS)

static void transfer(const struct mase_axi_dma *dma, unsigned number, uint32_t channel, uint64_t address,
                     uint32_t bytes)
{
    dma->write(dma->context, number, channel + DMASR, DMASR_EVENTS);
    dma->write(dma->context, number, channel + DMACR, DMACR_RUN);
    dma->write(dma->context, number, channel + ADDRESS, (uint32_t)(address & 0xFFFFFFFFu));
    if (MASE_ADDRESS_LIMIT > 0xFFFFFFFFu) {
        dma->write(dma->context, number, channel + ADDRESS_MSB, (uint32_t)(address >> 32));
    }
    /* The length starts it. */
    dma->write(dma->context, number, channel + LENGTH, bytes);
}

/* The transfers of all ports on one side. */
static void transfer_record(const struct mase_axi_dma *dma, uint32_t channel, const struct mase_part *parts,
                            unsigned count, uint64_t address, uint32_t bytes)
{
    unsigned k;

    for (k = 0; k < count; k++) {
        uint32_t end = k + 1 < count ? parts[k + 1].offset : bytes;

        transfer(dma, k, channel, address + parts[k].offset, end - parts[k].offset);
    }
}

static void begin_frame(const struct mase_axi_dma *dma)
{
    transfer_record(dma, FROM_STREAM, outputs, OUTPUTS, dma->target, MASE_OUTPUT_BYTES);
    transfer_record(dma, TO_STREAM, inputs, INPUTS, dma->source, MASE_INPUT_BYTES);
}

/* The reset of one channel is that of both. */
static void begin_reset(struct mase_axi_dma *dma)
{
    unsigned k;

    for (k = 0; k < DMAS; k++) {
        dma->write(dma->context, k, TO_STREAM + DMACR, DMACR_RESET);
    }
    dma->below->write(dma->below->context, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_SOFT_RESET);
}

static uint32_t resetting(const struct mase_axi_dma *dma)
{
    uint32_t state = dma->below->read(dma->below->context, MASE_STATUS) & MASE_STATUS_RESETTING;
    unsigned k;

    for (k = 0; k < DMAS; k++) {
        if ((dma->read(dma->context, k, TO_STREAM + DMACR) & DMACR_RESET) != 0) {
            state = MASE_STATUS_RESETTING;
        }
    }
    return state;
}

/* Adds the errors of one side; whether all its transfers have ended. */
static int ended(struct mase_axi_dma *dma, uint32_t channel, unsigned count, uint32_t error)
{
    int all = 1;
    unsigned k;

    for (k = 0; k < count; k++) {
        uint32_t state = dma->read(dma->context, k, channel + DMASR);

        if ((state & DMASR_ERRORS) != 0) {
            dma->errors |= error;
            dma->ending = 1;
        }
        if ((state & DMASR_COMPLETE) == 0) {
            all = 0;
        }
    }
    return all;
}

static void advance(struct mase_axi_dma *dma)
{
    if (!dma->busy) {
        return;
    }
    if (!dma->ending) {
        int all = ended(dma, TO_STREAM, INPUTS, MASE_ERRORS_READ_BUS);

        all &= ended(dma, FROM_STREAM, OUTPUTS, MASE_ERRORS_WRITE_BUS);
        if (dma->ending) {
            begin_reset(dma);
        } else if (all && --dma->frames > 0) {
            dma->source += MASE_INPUT_BYTES;
            dma->target += MASE_OUTPUT_BYTES;
            begin_frame(dma);
        } else if (all) {
            dma->busy = 0;
            dma->done = 1;
        }
    } else if (resetting(dma) == 0) {
        dma->busy = 0;
        dma->done = 1;
    }
}

static uint32_t dma_read(void *context, uint32_t offset)
{
    struct mase_axi_dma *dma = context;
    uint32_t value = dma->below->read(dma->below->context, offset);

    switch (offset) {
    case MASE_STATUS:
        advance(dma);
        return (value & ~MASE_STATUS_BUSY) | (dma->busy ? MASE_STATUS_BUSY : 0u) | resetting(dma);
    case MASE_INTERRUPT_STATUS:
        return (value & ~MASE_INTERRUPT_STATUS_DONE) | (dma->done ? MASE_INTERRUPT_STATUS_DONE : 0u);
    case MASE_ERRORS:
        return value | dma->errors;
    default:
        return value;
    }
}

static uint64_t half(uint64_t address, uint32_t value, int high)
{
    return high ? (address & 0xFFFFFFFFu) | (uint64_t)value << 32 : (address >> 32) << 32 | value;
}

static void control(struct mase_axi_dma *dma, uint32_t value)
{
    if ((value & MASE_CONTROL_SOFT_RESET) != 0) {
        dma->busy = 0;
        begin_reset(dma);
        return;
    }
    dma->below->write(dma->below->context, MASE_CONTROL, value & ~MASE_CONTROL_START);
    if ((value & MASE_CONTROL_START) == 0) {
        return;
    }
    if (dma->busy) {
        dma->errors |= MASE_ERRORS_OVERRUN;
        return;
    }
    dma->busy = 1;
    dma->ending = 0;
    begin_frame(dma);
}

static void dma_write(void *context, uint32_t offset, uint32_t value)
{
    struct mase_axi_dma *dma = context;

    switch (offset) {
    case MASE_SOURCE_LOW:
    case MASE_SOURCE_HIGH:
        dma->source = half(dma->source, value, offset == MASE_SOURCE_HIGH);
        return;
    case MASE_TARGET_LOW:
    case MASE_TARGET_HIGH:
        dma->target = half(dma->target, value, offset == MASE_TARGET_HIGH);
        return;
    case MASE_FRAMES:
        dma->frames = value;
        return;
    case MASE_CONTROL:
        control(dma, value);
        return;
    case MASE_ERRORS:
        dma->errors &= ~value;
        break;
    case MASE_INTERRUPT_STATUS:
        if ((value & MASE_INTERRUPT_STATUS_DONE) != 0) {
            dma->done = 0;
        }
        break;
    default:
        break;
    }
    dma->below->write(dma->below->context, offset, value);
}

static uint64_t dma_address(void *context, const void *buffer)
{
    const struct mase_hal *below = ((struct mase_axi_dma *)context)->below;

    return below->address(below->context, buffer);
}

static void dma_clean(void *context, const void *buffer, size_t bytes)
{
    const struct mase_hal *below = ((struct mase_axi_dma *)context)->below;

    below->clean(below->context, buffer, bytes);
}

static void dma_invalidate(void *context, void *buffer, size_t bytes)
{
    const struct mase_hal *below = ((struct mase_axi_dma *)context)->below;

    below->invalidate(below->context, buffer, bytes);
}

static void dma_barrier(void *context)
{
    const struct mase_hal *below = ((struct mase_axi_dma *)context)->below;

    below->barrier(below->context);
}

static uint32_t dma_now(void *context)
{
    const struct mase_hal *below = ((struct mase_axi_dma *)context)->below;

    return below->now(below->context);
}

void mase_axi_dma(struct mase_hal *hal, struct mase_axi_dma *dma)
{
    const struct mase_hal *below = dma->below;

    dma->source = 0;
    dma->target = 0;
    dma->frames = 0;
    dma->errors = 0;
    dma->busy = 0;
    dma->ending = 0;
    dma->done = 0;
    hal->context = dma;
    hal->read = dma_read;
    hal->write = dma_write;
    hal->address = dma_address;
    hal->clean = below->clean != NULL ? dma_clean : NULL;
    hal->invalidate = below->invalidate != NULL ? dma_invalidate : NULL;
    hal->barrier = below->barrier != NULL ? dma_barrier : NULL;
    hal->now = dma_now;
    hal->sleep = NULL;
    hal->base = below->base;
    hal->limit = below->limit;
}
