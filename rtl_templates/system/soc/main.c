/* SPDX-License-Identifier: Apache-2.0 */
/* The self-tests of all accelerators of a LiteX SoC, one after the other; says how each ended, and then EOT. */
#include <generated/csr.h>
#include <stddef.h>
#include <stdint.h>
#include <system.h>

#ifdef CSR_SDRAM_BASE
#include <generated/sdram_phy.h>
#endif

#define EOT "\004"
/* SELFTESTS(USE) is USE(name) for the function of every accelerator; mase_soc.py defines it. */
#define DECLARE(selftest) int selftest(void (*print)(const char *text));
#define RUN(selftest) selftest(print);

SELFTESTS(DECLARE)

int main(void);
void isr(void);
void *memset(void *to, int value, size_t bytes);
void *memcpy(void *to, const void *from, size_t bytes);

/* What the compiler may call. */
void *memset(void *to, int value, size_t bytes)
{
    volatile unsigned char *at = to;

    while (bytes-- > 0) {
        *at++ = (unsigned char)value;
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    volatile unsigned char *at = to;
    const unsigned char *source = from;

    while (bytes-- > 0) {
        *at++ = *source++;
    }
    return to;
}

/* No interrupt is taken. */
void isr(void)
{
}

static void print(const char *text)
{
    while (*text != '\0') {
        while (uart_txfull_read()) {
        }
        uart_rxtx_write((uint32_t)(unsigned char)*text++);
    }
}

int main(void)
{
#ifdef CSR_SDRAM_BASE
    sdram_dfii_control_write(DFII_CONTROL_CKE | DFII_CONTROL_ODT | DFII_CONTROL_RESET_N);
    init_sequence();
    sdram_dfii_control_write(DFII_CONTROL_SEL);
#endif
    SELFTESTS(RUN)
    print(EOT);
    for (;;) {
    }
}
