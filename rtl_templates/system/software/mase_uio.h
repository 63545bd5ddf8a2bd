/* SPDX-License-Identifier: Apache-2.0 */
/* The hardware layer of Linux: registers and interrupt over UIO, buffers over u-dma-buf. Time is in microseconds. */
#ifndef MASE_UIO_H
#define MASE_UIO_H

#include "mase_driver.h"

#define MASE_UIO_PATH 256

struct mase_uio {
    int device;                   /* /dev/uioN */
    int memory;                   /* /dev/udmabufN */
    volatile uint32_t *registers;
    uint8_t *buffer;
    size_t bytes;                 /* of the buffer */
    uint64_t address;             /* of the buffer at the bus */
    char sync[MASE_UIO_PATH];     /* /sys/class/u-dma-buf/udmabufN */
    int failed;                   /* a call of the system failed since it was opened */
};

/*
 * Opens both devices; `sysfs` is the folder of the u-dma-buf below /sys/class. The window of the
 * layer is its buffer. 0, or -1 with errno set, and nothing is open.
 */
int mase_uio_open(struct mase_uio *uio, struct mase_hal *hal, const char *device, const char *memory,
                  const char *sysfs);
void mase_uio_close(struct mase_uio *uio);

#endif
