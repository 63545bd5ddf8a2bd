/* SPDX-License-Identifier: Apache-2.0 */
#include "mase_selftest.h"

#include "mase_vectors.h"

static void number(void (*print)(const char *text), int64_t value)
{
    char text[24];
    char *at = text + sizeof text - 1;
    uint64_t left = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;

    *at = '\0';
    do {
        *--at = (char)('0' + (int)(left % 10));
        left /= 10;
    } while (left != 0);
    if (value < 0) {
        *--at = '-';
    }
    print(at);
}

static int failed(void (*print)(const char *text), const char *what, int code)
{
    print("FAIL: ");
    print(what);
    print(": ");
    print(mase_text(code));
    print("\n");
    return 1;
}

#if MASE_SLOTS <= 1
/* The first element of a frame that differs; 0 if none does. */
static int differs(void (*print)(const char *text), uint32_t frame, const uint8_t *got, const uint8_t *expected)
{
    static mase_value left[MASE_OUTPUT_SIZE];
    static mase_value right[MASE_OUTPUT_SIZE];
    size_t i;

    mase_read(got, left);
    mase_read(expected, right);
    for (i = 0; i < MASE_OUTPUT_SIZE; i++) {
        if (left[i] != right[i]) {
            print("FAIL: frame ");
            number(print, frame);
            print(", element ");
            number(print, (int64_t)i);
            print(": got ");
            number(print, left[i]);
            print(", expected ");
            number(print, right[i]);
            print("\n");
            return 1;
        }
    }
    return 0;
}
#endif

/* A job of frames in the input buffer, from its start to its end; 1 if it fails. */
static int job(struct mase_device *device, const struct mase_buffers *buffers, uint32_t frames, uint32_t timeout,
               void (*print)(const char *text))
{
    int code;
    size_t i;

    /* What an earlier job left must not pass for a result. */
    for (i = 0; i < frames * (size_t)MASE_OUTPUT_BYTES; i++) {
        buffers->output[i] = 0xA5;
    }
    code = mase_start(device, buffers->input, buffers->input_bytes, buffers->output, buffers->output_bytes, frames);
    if (code != MASE_OK) {
        return failed(print, "start", code);
    }
    code = mase_wait(device, timeout);
    return code == MASE_OK ? 0 : failed(print, "wait", code);
}

#if MASE_CONTEXT != 0 || MASE_LAST != 0
/* Before text, which has no spaces of its own between ids. */
#define MASE_BEGIN (MASE_LETTERS != 0 ? " " : "")

/* An id as a character, or as a number with a space before it. */
static void say(void (*print)(const char *text), mase_value token)
{
#if MASE_LETTERS != 0
    print(token < MASE_LETTERS ? mase_letters[token] : "?");
#else
    print(" ");
    number(print, token);
#endif
}
#endif

#if MASE_LAST != 0
/* The tokens of a prompt or of a sequence. */
static void say_all(void (*print)(const char *text), const mase_value *tokens, size_t most)
{
    size_t i;

    for (i = 0; i < most; i++) {
        say(print, tokens[i] % MASE_LAST);
        if (tokens[i] % (2 * MASE_LAST) >= MASE_LAST) {
            return;
        }
    }
}
#endif

#if MASE_SLOTS > 1
/* The sequence of a prompt, wherever its tokens are between those of other slots; 1 if it is not the expected one. */
static int differs_in_turn(void (*print)(const char *text), const struct mase_buffers *buffers, uint32_t frames,
                           uint32_t frame, const uint8_t *expected)
{
    static mase_value got[MASE_OUTPUT_SIZE];
    static mase_value right[MASE_OUTPUT_SIZE];
    uint32_t count = mase_sequence(buffers->input, buffers->output, frames, frame, got);
    uint32_t i;

    mase_read(expected, right);
    for (i = 0; i < count; i++) {
        if (got[i] != right[i] % (2 * MASE_LAST)) {
            break;
        }
    }
    if (count == 0 || i < count) {
        print("FAIL: sequence ");
        number(print, frame);
        print(", token ");
        number(print, i);
        print("\n");
        return 1;
    }
    return 0;
}
#endif

#if MASE_CONTEXT != 0
#define MASE_PROMPT ((MASE_CONTEXT + 1) / 2)

/* The id that a result names, or the first one of its highest scores. */
static mase_value next_token(const uint8_t *result)
{
    static mase_value scores[MASE_OUTPUT_SIZE];
    size_t best = 0;
    size_t i;

    mase_read(result, scores);
    for (i = 1; i < MASE_OUTPUT_SIZE; i++) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    return MASE_OUTPUT_SIZE == 1 ? scores[0] : (mase_value)best;
}

static int differs_at(void (*print)(const char *text), const char *what, uint32_t token, int64_t got, int64_t expected)
{
    print("FAIL: ");
    print(what);
    print(" of token ");
    number(print, token);
    print(": got ");
    number(print, got);
    print(", expected ");
    number(print, expected);
    print("\n");
    return 1;
}

/*
 * Continues the first half of the first sequence after a reset, each token when the result of the one before is there,
 * until the context is full; then all of it enters once more, as many tokens at a time as fit.
 */
static int generate(struct mase_device *device, const struct mase_buffers *buffers, uint32_t fits, uint32_t timeout,
                    void (*print)(const char *text))
{
    static mase_value tokens[MASE_CONTEXT];
    struct mase_counters counters;
    uint32_t at;
    uint32_t i;
    int code = mase_reset(device, timeout);

    if (code != MASE_OK) {
        return failed(print, "reset", code);
    }
    for (at = 0; at < MASE_CONTEXT; at++) {
        tokens[at] = at < MASE_PROMPT ? mase_vectors_in[at][0] : next_token(buffers->output);
        mase_load(buffers->input, &tokens[at]);
        mase_count(device, &counters, 1);
        if (job(device, buffers, 1, timeout, print)) {
            return 1;
        }
        mase_count(device, &counters, 0);
        if (counters.cycles_last != mase_token_cycles[at]) {
            return differs_at(print, "cycles", at, counters.cycles_last, mase_token_cycles[at]);
        }
        if (at < MASE_PROMPT && differs(print, at, buffers->output, mase_vectors_out[at])) {
            return 1;
        }
    }
    for (at = 0; at < MASE_CONTEXT; at += fits) {
        uint32_t frames = MASE_CONTEXT - at < fits ? MASE_CONTEXT - at : fits;

        for (i = 0; i < frames; i++) {
            mase_load(buffers->input + i * MASE_INPUT_BYTES, &tokens[at + i]);
        }
        if (job(device, buffers, frames, timeout, print)) {
            return 1;
        }
        for (i = 0; i < frames; i++) {
            uint32_t behind = at + i + 1;
            mase_value token = next_token(buffers->output + i * MASE_OUTPUT_BYTES);

            if (behind >= MASE_PROMPT && behind < MASE_CONTEXT && token != tokens[behind]) {
                return differs_at(print, "choice", behind, token, tokens[behind]);
            }
        }
    }
    print("PASS: ");
    number(print, MASE_VECTORS);
    print(" tokens, ");
    number(print, counters.cycles_last);
    print(" cycles for the last of ");
    number(print, MASE_CONTEXT);
    print(" (");
    number(print, mase_token_cycles[MASE_CONTEXT - 1]);
    print(" predicted):");
    for (at = 0; at < MASE_CONTEXT; at++) {
        if (at == 0 || at == MASE_PROMPT) {
            print(at == 0 ? "" : " |");
            print(MASE_BEGIN);
        }
        say(print, tokens[at]);
    }
    print("\n");
    return 0;
}
#endif

int mase_selftest_load(const struct mase_hal *hal, const struct mase_buffers *buffers, uint32_t timeout,
                       void (*print)(const char *text))
{
    struct mase_device device;
    int code = mase_open(&device, hal);

#if MASE_IMAGE_WORDS != 0
    if (code == MASE_OK) {
        code = mase_store(&device, mase_image, MASE_IMAGE_WORDS, timeout);
    }
#endif
#if MASE_OUTSIDE_BYTES != 0
    if (code == MASE_OK) {
        size_t i;

        for (i = 0; i < MASE_OUTSIDE_BYTES; i++) {
            buffers->parameters[i] = (uint8_t)(mase_outside[i / 4] >> 8 * (i % 4));
        }
        code = mase_use(&device, buffers->parameters, MASE_OUTSIDE_BYTES, timeout);
    }
#endif
    (void)buffers;
    (void)timeout;
    return code == MASE_OK ? 0 : failed(print, "parameters", code);
}

int mase_selftest(const struct mase_hal *hal, const struct mase_buffers *buffers, uint32_t timeout,
                  void (*print)(const char *text))
{
    size_t fits_in = buffers->input_bytes / MASE_INPUT_BYTES;
    size_t fits_out = buffers->output_bytes / MASE_OUTPUT_BYTES;
    size_t fits = fits_in < fits_out ? fits_in : fits_out;
    struct mase_device device;
    struct mase_counters counters;
    uint32_t done = 0;
#if MASE_LAST != 0
    static mase_value chosen[MASE_OUTPUT_SIZE];
#endif
    int code = mase_open(&device, hal);

    if (code != MASE_OK) {
        return failed(print, "open", code);
    }
    if (fits == 0) {
        return failed(print, "buffers", MASE_TOO_SHORT);
    }
    mase_count(&device, &counters, 1);
    while (done < MASE_VECTORS) {
        uint32_t frames = MASE_VECTORS - done < fits ? MASE_VECTORS - done : (uint32_t)fits;
        uint32_t frame;

        for (frame = 0; frame < frames; frame++) {
            mase_load(buffers->input + frame * MASE_INPUT_BYTES, mase_vectors_in[done + frame]);
        }
        if (job(&device, buffers, frames, timeout, print)) {
            return 1;
        }
        for (frame = 0; frame < frames; frame++) {
#if MASE_SLOTS > 1
            if (differs_in_turn(print, buffers, frames, frame, mase_vectors_out[done + frame])) {
#else
            if (differs(print, done + frame, buffers->output + frame * MASE_OUTPUT_BYTES, mase_vectors_out[done + frame])) {
#endif
                return 1;
            }
        }
        done += frames;
    }
#if MASE_CONTEXT != 0
    return generate(&device, buffers, (uint32_t)fits, timeout, print);
#else
    mase_count(&device, &counters, 0);
    print("PASS: ");
    number(print, MASE_VECTORS);
#if MASE_SLOTS > 1
    print(" sequences in ");
    number(print, MASE_SLOTS);
    print(" slots:");
    for (done = 0; done < MASE_VECTORS; done++) {
        print(done != 0 ? ";" : "");
        print(MASE_BEGIN);
        say_all(print, mase_vectors_in[done], MASE_INPUT_SIZE);
        print(" |");
        print(MASE_BEGIN);
        mase_read(mase_vectors_out[done], chosen);
        say_all(print, chosen, MASE_OUTPUT_SIZE);
    }
    print("\n");
    return 0;
#else
    print(" frames, ");
    number(print, counters.cycles_last);
    print(" cycles for the last (");
    number(print, MASE_INTERVAL);
    print(" predicted)");
#if MASE_OUTSIDE_BYTES != 0
    print(", parameters late in ");
    number(print, counters.parameters_late);
    print(" cycles");
#endif
#if MASE_LAST != 0
    print(":");
    print(MASE_BEGIN);
    say_all(print, mase_vectors_in[MASE_VECTORS - 1], MASE_INPUT_SIZE);
    print(" |");
    print(MASE_BEGIN);
    mase_read(buffers->output, chosen);
    say_all(print, chosen, MASE_OUTPUT_SIZE);
#endif
    print("\n");
    return 0;
#endif
#endif
}
