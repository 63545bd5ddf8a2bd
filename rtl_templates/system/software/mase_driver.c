/* SPDX-License-Identifier: Apache-2.0 */
#include "mase_driver.h"

#include "mase_registers.h"

static uint32_t get(const struct mase_device *device, uint32_t offset)
{
    return device->hal->read(device->hal->context, offset);
}

static void put(const struct mase_device *device, uint32_t offset, uint32_t value)
{
    device->hal->write(device->hal->context, offset, value);
}

static void put_address(const struct mase_device *device, uint32_t low, uint32_t high, uint64_t address)
{
    put(device, low, (uint32_t)(address & 0xFFFFFFFFu));
    put(device, high, (uint32_t)(address >> 32));
}

int mase_open(struct mase_device *device, const struct mase_hal *hal)
{
    device->hal = hal;
    device->output = NULL;
    device->output_bytes = 0;
    device->started = 0;
    if (get(device, MASE_MAGIC) != MASE_MAGIC_VALUE_IS) {
        return MASE_WRONG_MAGIC;
    }
    if ((get(device, MASE_VERSION) & MASE_VERSION_MAJOR) >> 16 != MASE_VERSION_MAJOR_IS) {
        return MASE_WRONG_VERSION;
    }
    if (get(device, MASE_DIGEST_LOW) != MASE_DESIGN_LOW || get(device, MASE_DIGEST_HIGH) != MASE_DESIGN_HIGH) {
        return MASE_WRONG_DESIGN;
    }
    /* From now on the hardware refuses what is outside, whoever starts it. */
    put_address(device, MASE_BASE_LOW, MASE_BASE_HIGH, hal->base);
    put_address(device, MASE_LIMIT_LOW, MASE_LIMIT_HIGH, hal->limit);
    return MASE_OK;
}

/* Bits of a frame are counted from bit 0 of byte 0. */
static void put_bits(uint8_t *frame, size_t bit, unsigned width, uint64_t value)
{
    while (width > 0) {
        unsigned at = (unsigned)(bit % 8);
        unsigned count = width < 8 - at ? width : 8 - at;
        unsigned mask = ((1u << count) - 1u) << at;

        frame[bit / 8] = (uint8_t)((frame[bit / 8] & ~mask) | (((unsigned)(value & 0xFFu) << at) & mask));
        value >>= count;
        bit += count;
        width -= count;
    }
}

static uint64_t get_bits(const uint8_t *frame, size_t bit, unsigned width)
{
    uint64_t value = 0;
    unsigned have = 0;

    while (have < width) {
        unsigned at = (unsigned)(bit % 8);
        unsigned count = width - have < 8 - at ? width - have : 8 - at;
        uint64_t part = ((unsigned)frame[bit / 8] >> at) & ((1u << count) - 1u);

        value |= part << have;
        bit += count;
        have += count;
    }
    return value;
}

void mase_load(uint8_t *frame, const mase_value *values)
{
    static const struct mase_part parts[] = MASE_INPUT_PARTS;
    size_t i;
    size_t k;

    for (i = 0; i < MASE_INPUT_BYTES; i++) {
        frame[i] = 0;
    }
    for (k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        for (i = 0; i < parts[k].size; i++) {
            put_bits(frame + parts[k].offset, i * parts[k].slot, parts[k].slot, (uint64_t)(int64_t)*values++);
        }
    }
}

void mase_read(const uint8_t *frame, mase_value *values)
{
    static const struct mase_part parts[] = MASE_OUTPUT_PARTS;
    size_t i;
    size_t k;

    for (k = 0; k < sizeof parts / sizeof parts[0]; k++) {
        const uint64_t sign = parts[k].is_signed ? (uint64_t)1 << (parts[k].width - 1) : 0;

        for (i = 0; i < parts[k].size; i++) {
            uint64_t code = get_bits(frame + parts[k].offset, i * parts[k].slot, parts[k].width);
            int64_t half = (int64_t)((code & sign) >> 1);

            *values++ = (mase_value)((int64_t)(code & ~sign) - half - half);
        }
    }
}

#if MASE_LAST != 0
/* The element of a frame of the one input, or of the one output. */
static uint32_t element(const uint8_t *frame, struct mase_part part, size_t i)
{
    return (uint32_t)get_bits(frame + part.offset, i * part.slot, part.width);
}

uint32_t mase_sequence(const uint8_t *input, const uint8_t *output, uint32_t frames, uint32_t which,
                       mase_value *tokens)
{
    static const struct mase_part prompt[] = MASE_INPUT_PARTS;
    static const struct mase_part chosen[] = MASE_OUTPUT_PARTS;
    const uint32_t each = 2 * MASE_LAST;
    const uint32_t slot = element(input + which * (size_t)MASE_INPUT_BYTES, prompt[0], 0) / each;
    size_t before = 0;
    uint32_t found = 0;
    uint32_t frame;
    size_t i;

    for (frame = 0; frame < which; frame++) {
        if (element(input + frame * (size_t)MASE_INPUT_BYTES, prompt[0], 0) / each == slot) {
            before += MASE_OUTPUT_SIZE;
        }
    }
    for (frame = 0; frame < frames; frame++) {
        for (i = 0; i < MASE_OUTPUT_SIZE; i++) {
            const uint32_t token = element(output + frame * (size_t)MASE_OUTPUT_BYTES, chosen[0], i);

            if (token / each != slot) {
                continue;
            }
            if (before > 0) {
                before--;
                continue;
            }
            tokens[found++] = (mase_value)(token % each);
            if (token % each >= MASE_LAST || found == MASE_OUTPUT_SIZE) {
                return found;
            }
        }
    }
    return found;
}
#endif

static int reachable(const struct mase_hal *hal, uint64_t address, uint64_t bytes)
{
    uint64_t last = address + bytes - 1;

    return last >= address && address >= hal->base && last <= hal->limit && last <= MASE_ADDRESS_LIMIT;
}

int mase_start(struct mase_device *device, const void *input, size_t input_bytes, void *output, size_t output_bytes,
               uint32_t frames)
{
    const struct mase_hal *hal = device->hal;
    uint64_t source = hal->address(hal->context, input);
    uint64_t target = hal->address(hal->context, output);
    uint64_t source_bytes = (uint64_t)frames * MASE_INPUT_BYTES;
    uint64_t target_bytes = (uint64_t)frames * MASE_OUTPUT_BYTES;

    if (frames == 0) {
        return MASE_NO_FRAMES;
    }
    if (source % MASE_BUS_BYTES != 0 || target % MASE_BUS_BYTES != 0) {
        return MASE_UNALIGNED;
    }
    if (source_bytes > input_bytes || target_bytes > output_bytes) {
        return MASE_TOO_SHORT;
    }
    if (!reachable(hal, source, source_bytes) || !reachable(hal, target, target_bytes)) {
        return MASE_UNREACHABLE;
    }
    if (device->started || (get(device, MASE_STATUS) & (MASE_STATUS_BUSY | MASE_STATUS_RESETTING)) != 0) {
        return MASE_BUSY;
    }
    if ((get(device, MASE_PARAMETERS) & MASE_PARAMETERS_STORED) == 0) {
        return MASE_NOT_STORED;
    }
    device->output = output;
    device->output_bytes = (size_t)target_bytes;
    if (hal->clean != NULL) {
        hal->clean(hal->context, input, (size_t)source_bytes);
        /* A dirty line of the output, evicted later, would overwrite a result. */
        hal->clean(hal->context, output, (size_t)target_bytes);
    }
    if (hal->barrier != NULL) {
        hal->barrier(hal->context);
    }
    put(device, MASE_ERRORS, 0xFFFFFFFFu);
    put(device, MASE_INTERRUPT_STATUS, MASE_INTERRUPT_STATUS_DONE | MASE_INTERRUPT_STATUS_ERROR);
    put(device, MASE_INTERRUPT_ENABLE, hal->sleep != NULL ? MASE_INTERRUPT_ENABLE_DONE : 0u);
    put_address(device, MASE_SOURCE_LOW, MASE_SOURCE_HIGH, source);
    put_address(device, MASE_TARGET_LOW, MASE_TARGET_HIGH, target);
    put(device, MASE_FRAMES, frames);
    put(device, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_START);
    device->started = 1;
    return MASE_OK;
}

/* What the sticky errors say; the first that applies. */
static int error_code(uint32_t errors)
{
    if ((errors & MASE_ERRORS_REFUSED) != 0) {
        return MASE_REFUSED;
    }
    if ((errors & MASE_ERRORS_READ_BUS) != 0) {
        return MASE_BUS_READ;
    }
    if ((errors & MASE_ERRORS_WRITE_BUS) != 0) {
        return MASE_BUS_WRITE;
    }
    if ((errors & MASE_ERRORS_OVERRUN) != 0) {
        return MASE_OVERRUN;
    }
    return MASE_OK;
}

static int finished(struct mase_device *device)
{
    const struct mase_hal *hal = device->hal;

    device->started = 0;
    put(device, MASE_INTERRUPT_STATUS, MASE_INTERRUPT_STATUS_DONE | MASE_INTERRUPT_STATUS_ERROR);
    if (hal->barrier != NULL) {
        hal->barrier(hal->context);
    }
    if (hal->invalidate != NULL) {
        hal->invalidate(hal->context, device->output, device->output_bytes);
    }
    return error_code(get(device, MASE_ERRORS));
}

int mase_wait(struct mase_device *device, uint32_t timeout)
{
    const struct mase_hal *hal = device->hal;
    uint32_t begin = hal->now(hal->context);

    if (!device->started) {
        return MASE_NOT_STARTED;
    }
    for (;;) {
        uint32_t spent = hal->now(hal->context) - begin;
        uint32_t busy = get(device, MASE_STATUS) & MASE_STATUS_BUSY;

        /* In this order: a job that ends between the two reads is found done. */
        if ((get(device, MASE_INTERRUPT_STATUS) & MASE_INTERRUPT_STATUS_DONE) != 0) {
            return finished(device);
        }
        if (busy == 0) {
            int code = error_code(get(device, MASE_ERRORS));

            device->started = 0;
            return code != MASE_OK ? code : MASE_ABANDONED;
        }
        if (spent >= timeout) {
            return MASE_TIMEOUT;
        }
        /* An interrupt that is lost costs the rest of the time, not the result. */
        if (hal->sleep != NULL) {
            hal->sleep(hal->context, timeout - spent);
        }
    }
}

int mase_reset(struct mase_device *device, uint32_t timeout)
{
    const struct mase_hal *hal = device->hal;
    uint32_t begin = hal->now(hal->context);

    put(device, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_SOFT_RESET);
    while ((get(device, MASE_STATUS) & MASE_STATUS_RESETTING) != 0) {
        if (hal->now(hal->context) - begin >= timeout) {
            return MASE_TIMEOUT;
        }
    }
    device->started = 0;
    return MASE_OK;
}

/* Waits until the bits of PARAMETERS under a mask have a value. */
static int settled(const struct mase_device *device, uint32_t mask, uint32_t value, uint32_t timeout)
{
    const struct mase_hal *hal = device->hal;
    uint32_t begin = hal->now(hal->context);

    while ((get(device, MASE_PARAMETERS) & mask) != value) {
        if (hal->now(hal->context) - begin >= timeout) {
            return MASE_TIMEOUT;
        }
    }
    return MASE_OK;
}

/* Gives words, the last one with the end of the image. */
static int give(const struct mase_device *device, const uint32_t *image, size_t words, uint32_t timeout)
{
    size_t i;
    int code;

    for (i = 0; i < words; i++) {
        code = settled(device, MASE_PARAMETERS_PENDING, 0, timeout);
        if (code != MASE_OK) {
            return code;
        }
        put(device, MASE_PARAMETER_WORD, image[i]);
        put(device, MASE_PARAMETERS, i + 1 < words ? MASE_PARAMETERS_GIVE : MASE_PARAMETERS_GIVE_LAST);
    }
    return settled(device, MASE_PARAMETERS_PENDING, 0, timeout);
}

int mase_store(struct mase_device *device, const uint32_t *image, size_t words, uint32_t timeout)
{
    static const uint32_t end = 0;
    uint32_t state;
    int code = MASE_OK;

    if (words != MASE_IMAGE_WORDS || words == 0) {
        return MASE_BAD_IMAGE;
    }
    if ((get(device, MASE_PARAMETERS) & MASE_PARAMETERS_BUSY) != 0) {
        /* Another program has not ended its image. */
        code = give(device, &end, 1, timeout);
    }
    if (code == MASE_OK) {
        code = settled(device, MASE_PARAMETERS_BUSY, 0, timeout);
    }
    if (code == MASE_OK) {
        code = give(device, image, words, timeout);
    }
    if (code == MASE_OK) {
        code = settled(device, MASE_PARAMETERS_BUSY, 0, timeout);
    }
    if (code != MASE_OK) {
        return code;
    }
    state = get(device, MASE_PARAMETERS);
    if ((state & MASE_PARAMETERS_REFUSED) != 0 || get(device, MASE_PARAMETER_DIGEST) != image[words - 1]) {
        return MASE_BAD_IMAGE;
    }
    return MASE_OK;
}

int mase_recall(struct mase_device *device, uint32_t *image, size_t words, uint32_t timeout)
{
    static const uint32_t question = 0x4D415352u;
    size_t i;
    int code;

    if (words != MASE_IMAGE_WORDS || words == 0) {
        return MASE_BAD_IMAGE;
    }
    code = give(device, &question, 1, timeout);
    if (code == MASE_OK && (get(device, MASE_PARAMETERS) & MASE_PARAMETERS_REFUSED) != 0) {
        return MASE_NOT_STORED;
    }
    for (i = 0; i < words && code == MASE_OK; i++) {
        code = settled(device, MASE_PARAMETERS_ANSWER, MASE_PARAMETERS_ANSWER, timeout);
        if (code == MASE_OK) {
            image[i] = get(device, MASE_PARAMETER_ANSWER);
            put(device, MASE_PARAMETERS, MASE_PARAMETERS_NEXT);
        }
    }
    return code == MASE_OK ? settled(device, MASE_PARAMETERS_BUSY, 0, timeout) : code;
}

int mase_use(struct mase_device *device, const void *image, size_t bytes, uint32_t timeout)
{
    const struct mase_hal *hal = device->hal;
    const uint32_t pending = MASE_PARAMETERS_BUSY | MASE_PARAMETERS_PENDING;
    const uint8_t *end = (const uint8_t *)image + bytes;
    uint64_t address = hal->address(hal->context, image);
    uint32_t digest;
    uint32_t state;
    int code;

    if (bytes != MASE_OUTSIDE_BYTES || bytes == 0) {
        return MASE_BAD_IMAGE;
    }
    if (address % MASE_BUS_BYTES != 0) {
        return MASE_UNALIGNED;
    }
    if (!reachable(hal, address, bytes) || (address + bytes) / MASE_BUS_BYTES > UINT32_MAX) {
        return MASE_UNREACHABLE;
    }
    if (hal->clean != NULL) {
        hal->clean(hal->context, image, bytes);
    }
    if (hal->barrier != NULL) {
        hal->barrier(hal->context);
    }
    code = settled(device, pending, 0, timeout);
    if (code == MASE_OK) {
        put(device, MASE_PARAMETER_WORD, (uint32_t)(address / MASE_BUS_BYTES));
        put(device, MASE_PARAMETERS, MASE_PARAMETERS_USE);
        code = settled(device, pending, 0, timeout);
    }
    if (code != MASE_OK) {
        return code;
    }
    digest = end[-4] | (uint32_t)end[-3] << 8 | (uint32_t)end[-2] << 16 | (uint32_t)end[-1] << 24;
    state = get(device, MASE_PARAMETERS);
    if ((state & MASE_PARAMETERS_USE_REFUSED) != 0 || get(device, MASE_PARAMETER_DIGEST) != digest) {
        return MASE_BAD_IMAGE;
    }
    return MASE_OK;
}

void mase_count(const struct mase_device *device, struct mase_counters *counters, int clear)
{
    counters->frames_in = get(device, MASE_FRAMES_IN);
    counters->frames_out = get(device, MASE_FRAMES_OUT);
    counters->frames_flagged = get(device, MASE_FRAMES_FLAGGED);
    counters->cycles_last = get(device, MASE_CYCLES_LAST);
    counters->cycles_least = get(device, MASE_CYCLES_LEAST);
    counters->cycles_most = get(device, MASE_CYCLES_MOST);
    counters->stalls_in = get(device, MASE_STALLS_IN);
    counters->stalls_out = get(device, MASE_STALLS_OUT);
    counters->parameters_late = get(device, MASE_PARAMETERS_LATE);
    if (clear) {
        put(device, MASE_CONTROL, MASE_CONTROL_ENABLE | MASE_CONTROL_CLEAR);
    }
}

const char *mase_text(int code)
{
    static const char *const texts[MASE_CODES] = {
        "no error",
        "no accelerator answers at this address",
        "the registers have another major version than the driver",
        "the bitstream holds another design than the driver was made for",
        "a job needs at least one frame",
        "a buffer is not aligned to the bus width",
        "a buffer is too short for the frames",
        "a buffer is outside the window or beyond the reach of the bus master",
        "a job or a reset is going on",
        "the hardware refused the job",
        "no job was started",
        "time is up and the job goes on",
        "a read from memory was answered with an error",
        "a write to memory was answered with an error",
        "the hardware was told to start while a job ran",
        "the job was abandoned by a reset",
        "no whole set of parameters is stored",
        "the image of the parameters is incomplete, changed or of another design",
    };

    return code >= 0 && code < MASE_CODES ? texts[code] : "an unknown code";
}
