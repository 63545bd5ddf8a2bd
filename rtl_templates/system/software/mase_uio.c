/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "mase_uio.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define REGISTER_BYTES 4096u
/* As u-dma-buf has it: which way data goes. */
#define TO_DEVICE 1
#define FROM_DEVICE 2

static int attribute(const struct mase_uio *uio, const char *name, int flags)
{
    char path[MASE_UIO_PATH + 32];

    (void)snprintf(path, sizeof path, "%s/%s", uio->sync, name);
    return open(path, flags);
}

static int get_attribute(const struct mase_uio *uio, const char *name, uint64_t *value)
{
    char text[32];
    int file = attribute(uio, name, O_RDONLY);
    ssize_t got;

    if (file < 0) {
        return -1;
    }
    got = read(file, text, sizeof text - 1);
    (void)close(file);
    if (got <= 0) {
        return -1;
    }
    text[got] = '\0';
    /* The address is hexadecimal with a prefix, the size decimal. */
    return sscanf(text, text[0] == '0' && text[1] == 'x' ? "%" SCNx64 : "%" SCNu64, value) == 1 ? 0 : -1;
}

static void put_attribute(struct mase_uio *uio, const char *name, uint64_t value)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%" PRIu64 "\n", value);
    int file = attribute(uio, name, O_WRONLY);

    if (file < 0 || write(file, text, (size_t)length) != length) {
        uio->failed = 1;
    }
    if (file >= 0) {
        (void)close(file);
    }
}

static void sync_part(struct mase_uio *uio, const void *buffer, size_t bytes, int direction, const char *whose)
{
    put_attribute(uio, "sync_offset", (uint64_t)((const uint8_t *)buffer - uio->buffer));
    put_attribute(uio, "sync_size", bytes);
    put_attribute(uio, "sync_direction", (uint64_t)direction);
    put_attribute(uio, whose, 1);
}

static uint32_t uio_read(void *context, uint32_t offset)
{
    return ((struct mase_uio *)context)->registers[offset / 4];
}

static void uio_write(void *context, uint32_t offset, uint32_t value)
{
    ((struct mase_uio *)context)->registers[offset / 4] = value;
}

static uint64_t uio_address(void *context, const void *buffer)
{
    const struct mase_uio *uio = context;

    return uio->address + (uint64_t)((const uint8_t *)buffer - uio->buffer);
}

static void uio_clean(void *context, const void *buffer, size_t bytes)
{
    sync_part(context, buffer, bytes, TO_DEVICE, "sync_for_device");
}

static void uio_invalidate(void *context, void *buffer, size_t bytes)
{
    sync_part(context, buffer, bytes, FROM_DEVICE, "sync_for_cpu");
}

static void uio_barrier(void *context)
{
    (void)context;
    __sync_synchronize();
}

static uint32_t uio_now(void *context)
{
    struct timespec now;

    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u);
}

/* UIO masks the interrupt when it comes: it is allowed again before every wait. */
static void uio_sleep(void *context, uint32_t ticks)
{
    struct mase_uio *uio = context;
    struct pollfd event = {0, POLLIN, 0};
    uint32_t word = 1;

    event.fd = uio->device;
    if (write(uio->device, &word, sizeof word) != (ssize_t)sizeof word) {
        uio->failed = 1;
    }
    if (poll(&event, 1, (int)(ticks / 1000u) + 1) > 0 && read(uio->device, &word, sizeof word) < 0) {
        uio->failed = 1;
    }
}

int mase_uio_open(struct mase_uio *uio, struct mase_hal *hal, const char *device, const char *memory,
                  const char *sysfs)
{
    const struct mase_hal made = {uio, uio_read, uio_write, uio_address, uio_clean, uio_invalidate, uio_barrier,
                                  uio_now, uio_sleep, 0, 0};
    uint64_t size = 0;
    void *place;

    memset(uio, 0, sizeof *uio);
    uio->device = -1;
    uio->memory = -1;
    if (strlen(sysfs) >= sizeof uio->sync) {
        return -1;
    }
    (void)strcpy(uio->sync, sysfs);
    if (get_attribute(uio, "phys_addr", &uio->address) != 0 || get_attribute(uio, "size", &size) != 0 || size == 0) {
        return -1;
    }
    uio->bytes = (size_t)size;
    uio->device = open(device, O_RDWR);
    /* Without O_SYNC the buffer is cached, and the sync calls do their work. */
    uio->memory = open(memory, O_RDWR);
    if (uio->device < 0 || uio->memory < 0) {
        mase_uio_close(uio);
        return -1;
    }
    place = mmap(NULL, REGISTER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, uio->device, 0);
    if (place != MAP_FAILED) {
        uio->registers = place;
        place = mmap(NULL, uio->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, uio->memory, 0);
    }
    if (place == MAP_FAILED) {
        mase_uio_close(uio);
        return -1;
    }
    uio->buffer = place;
    *hal = made;
    hal->base = uio->address;
    hal->limit = uio->address + size - 1;
    return 0;
}

void mase_uio_close(struct mase_uio *uio)
{
    if (uio->registers != NULL) {
        (void)munmap((void *)(uintptr_t)uio->registers, REGISTER_BYTES);
    }
    if (uio->buffer != NULL) {
        (void)munmap(uio->buffer, uio->bytes);
    }
    if (uio->device >= 0) {
        (void)close(uio->device);
    }
    if (uio->memory >= 0) {
        (void)close(uio->memory);
    }
    memset(uio, 0, sizeof *uio);
    uio->device = -1;
    uio->memory = -1;
}
