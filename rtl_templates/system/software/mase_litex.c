/* SPDX-License-Identifier: Apache-2.0 */
/* LiteX's own headers need GNU C. */
#include "mase_litex.h"

#include <generated/csr.h>
#include <generated/mem.h>
#include <generated/soc.h>
#include <irq.h>
#include <system.h>

#ifndef CSR_TIMER0_UPTIME_CYCLES_ADDR
#error "the timer has no uptime: give SoCCore timer_uptime=True"
#endif
#ifndef CONFIG_L2_SIZE
#define CONFIG_L2_SIZE 0
#endif

static uint32_t litex_now(void)
{
    timer0_uptime_latch_write(1);
    return (uint32_t)timer0_uptime_cycles_read();
}

/* The data cache writes through; its lines are dropped first, so that the reads that empty the L2 cache get there. */
static void flush(void)
{
    flush_cpu_dcache();
    flush_l2_cache();
}

static void litex_clean(void *context, const void *buffer, size_t bytes)
{
    (void)context;
    (void)buffer;
    (void)bytes;
    flush();
}

static void litex_invalidate(void *context, void *buffer, size_t bytes)
{
    (void)context;
    (void)buffer;
    (void)bytes;
    flush();
}

/* An interrupt that is masked in, but not taken: pending is read from the processor, not over the bus. */
static void litex_sleep(void *context, uint32_t ticks)
{
    const struct mase_litex *litex = context;
    uint32_t begin = litex_now();

    while ((irq_pending() & ((uint32_t)1 << litex->interrupt)) == 0 && litex_now() - begin < ticks) {
    }
}

void mase_litex(struct mase_hal *hal, struct mase_litex *litex, uintptr_t registers, int interrupt)
{
    litex->metal.registers = registers;
    litex->metal.now = litex_now;
    litex->interrupt = (uint32_t)interrupt;
    mase_metal(hal, &litex->metal);
    hal->clean = litex_clean;
    hal->invalidate = litex_invalidate;
    if (interrupt >= 0) {
        /* A handler of one's own must leave this interrupt alone: it is a level, and the driver clears it. */
        irq_setmask(irq_getmask() | (uint32_t)1 << interrupt);
        hal->sleep = litex_sleep;
    }
    hal->base = (uint64_t)MAIN_RAM_BASE + 2 * CONFIG_L2_SIZE;
    hal->limit = (uint64_t)MAIN_RAM_BASE + MAIN_RAM_SIZE - 1;
}
