/* The UIO layer on files that stand in for /dev and /sys, served by the Verilated model. Argument: their folder. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mase_model.h"
#include "mase_selftest.h"
#include "mase_uio.h"
#include "mase_vectors.h"

static const char *folder;
static struct mase_hal model;  /* what serves */
static struct mase_hal uio_hal; /* what is tested */
static struct mase_uio uio;
static uint8_t *mirror; /* the part of the model's memory that the buffer is */
static int forgets;

static void name(char *path, const char *file)
{
    (void)snprintf(path, 256, "%s/%s", folder, file);
}

static unsigned long attribute(const char *file)
{
    char path[256];
    unsigned long value = 0;
    FILE *stream;

    name(path, file);
    stream = fopen(path, "r");
    if (stream == NULL || fscanf(stream, "%lu", &value) != 1) {
        exit(4);
    }
    (void)fclose(stream);
    return value;
}

static uint32_t serve_read(void *context, uint32_t offset)
{
    (void)context;
    return model.read(model.context, offset);
}

static void serve_write(void *context, uint32_t offset, uint32_t value)
{
    (void)context;
    model.write(model.context, offset, value);
}

/* What the kernel does when the attributes are written: the part that they name goes to the device. */
static void serve_clean(void *context, const void *buffer, size_t bytes)
{
    unsigned long offset;

    uio_hal.clean(context, buffer, bytes);
    offset = attribute("sync_offset");
    if (attribute("sync_direction") != 1) {
        exit(5);
    }
    memcpy(mirror + offset, uio.buffer + offset, attribute("sync_size"));
    model.clean(model.context, mirror + offset, attribute("sync_size"));
}

static void serve_invalidate(void *context, void *buffer, size_t bytes)
{
    unsigned long offset;

    if (forgets) {
        return;
    }
    uio_hal.invalidate(context, buffer, bytes);
    offset = attribute("sync_offset");
    if (attribute("sync_direction") != 2) {
        exit(5);
    }
    model.invalidate(model.context, mirror + offset, attribute("sync_size"));
    memcpy(uio.buffer + offset, mirror + offset, attribute("sync_size"));
}

/* The model's clock runs while the program sleeps. */
static void serve_sleep(void *context, uint32_t ticks)
{
    uio_hal.sleep(context, 1000);
    model.sleep(model.context, ticks < 20000u ? ticks : 20000u);
}

static void print(const char *text)
{
    fputs(text, stdout);
}

int main(int argc, char **argv)
{
    char device[256];
    char memory[256];
    struct mase_hal hal;
    struct mase_buffers buffers;
    int i;

    folder = argc > 1 ? argv[1] : ".";
    name(device, "uio0");
    name(memory, "udmabuf0");
    if (mase_uio_open(&uio, &uio_hal, "missing", memory, folder) == 0 ||
        mase_uio_open(&uio, &uio_hal, device, "missing", folder) == 0 ||
        mase_uio_open(&uio, &uio_hal, device, memory, "missing") == 0) {
        return 2;
    }
    if (mase_uio_open(&uio, &uio_hal, device, memory, folder) != 0) {
        return 3;
    }
    /* The registers are the mapped file. */
    printf("registers %lx\n", (unsigned long)uio_hal.read(uio_hal.context, 0));
    uio_hal.write(uio_hal.context, 0x34, 0x12345678u);
    model_open(&model, 30, 1);
    mirror = model_buffer(uio.bytes);
    if (model.address(model.context, mirror) != uio.address) {
        return 6;
    }
    hal = uio_hal;
    hal.read = serve_read;
    hal.write = serve_write;
    hal.clean = serve_clean;
    hal.invalidate = serve_invalidate;
    hal.sleep = serve_sleep;
    buffers.input = uio.buffer;
    buffers.input_bytes = 2 * (size_t)MASE_INPUT_BYTES;
    buffers.output = uio.buffer + 4096;
    buffers.output_bytes = 2 * (size_t)MASE_OUTPUT_BYTES;
    for (i = 0; i < 2; i++) {
        if (mase_selftest(&hal, &buffers, 1000000u, print) != 0) {
            return 1;
        }
    }
    forgets = 1;
    if (mase_selftest(&hal, &buffers, 1000000u, print) == 0) {
        return 7;
    }
    if (uio.failed) {
        return 8;
    }
    mase_uio_close(&uio);
    return 0;
}
