/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Verilated model for software in another language, which talks to it over pipes. A command is a
 * line, and so is its answer; numbers are hexadecimal without a prefix:
 *   r OFFSET | w OFFSET VALUE    a register
 *   b BYTES                      a buffer: its handle and its bus address
 *   c HANDLE BYTES DATA          a part of the program's memory becomes the device's
 *   i HANDLE BYTES               the other way round: its data
 *   n | s TICKS                  the time; sleep until an interrupt
 *   f KIND HANDLE | l NUMBER     a fault of the memory, see mase_model.h; interrupts to lose
 *   v                            violations of AXI4 that the memory has seen
 * The first argument is the percentage of stalls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mase_model.h"

static struct mase_hal hal;
static uint8_t *first;

static void data_in(uint8_t *at, unsigned long bytes)
{
    unsigned value;

    while (bytes-- > 0 && scanf("%2x", &value) == 1) {
        *at++ = (uint8_t)value;
    }
}

static void data_out(const uint8_t *at, unsigned long bytes)
{
    while (bytes-- > 0) {
        printf("%02x", *at++);
    }
    printf("\n");
}

static int serve(char command)
{
    unsigned long a = 0;
    unsigned long b = 0;
    uint8_t *buffer;

    if (command != 'n' && command != 'v' && scanf("%lx", &a) != 1) {
        return 0;
    }
    if ((command == 'w' || command == 'c' || command == 'i' || command == 'f') && scanf("%lx", &b) != 1) {
        return 0;
    }
    switch (command) {
    case 'r':
        printf("%lx\n", (unsigned long)hal.read(hal.context, (uint32_t)a));
        return 1;
    case 'w':
        hal.write(hal.context, (uint32_t)a, (uint32_t)b);
        break;
    case 'b':
        buffer = model_buffer(a);
        printf("%lx %lx\n", (unsigned long)(buffer - first), (unsigned long)hal.address(hal.context, buffer));
        return 1;
    case 'c':
        data_in(first + a, b);
        hal.clean(hal.context, first + a, b);
        break;
    case 'i':
        hal.invalidate(hal.context, first + a, b);
        data_out(first + a, b);
        return 1;
    case 'n':
        printf("%lx\n", (unsigned long)hal.now(hal.context));
        return 1;
    case 's':
        hal.sleep(hal.context, (uint32_t)a);
        break;
    case 'f':
        model_fault((enum model_kind)a, first + b);
        break;
    case 'l':
        model_lose_interrupts((int)a);
        break;
    case 'v':
        printf("%x\n", model_violations());
        return 1;
    default:
        return 0;
    }
    printf("\n");
    return 1;
}

int main(int argc, char **argv)
{
    char command;

    model_open(&hal, argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0, 1);
    first = model_buffer(0);
    while (scanf(" %c", &command) == 1 && serve(command)) {
        fflush(stdout);
    }
    return 0;
}
