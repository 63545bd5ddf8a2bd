/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters through the registers: both sets, images that are refused, a reset. Prints what was wrong. */
#define SOON 20000u
#include "checks.h"

#define mase_weights own
#include "own.h"
#undef mase_weights
#define mase_weights other
#include "other.h"

int main(void)
{
    static uint32_t image[MASE_IMAGE_WORDS];

    open_model();
    expect("the parameters at power-up", selftest(), 0);
    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("recall", mase_recall(&device, image, MASE_IMAGE_WORDS, SOON), MASE_OK);
    expect("what is there at power-up", memcmp(image, own, sizeof own), 0);
    expect("store", mase_store(&device, other, MASE_IMAGE_WORDS, SOON), MASE_OK);
    expect("other parameters, other results", selftest(), 1);
    expect("store", mase_store(&device, own, MASE_IMAGE_WORDS, SOON), MASE_OK);
    expect("its own again", selftest(), 0);
    expect("short", mase_store(&device, own, MASE_IMAGE_WORDS - 1, SOON), MASE_BAD_IMAGE);
    expect("nothing was touched", selftest(), 0);

    memcpy(image, own, sizeof own);
    image[1] ^= 1u;
    expect("another design", mase_store(&device, image, MASE_IMAGE_WORDS, SOON), MASE_BAD_IMAGE);
    expect("which changes nothing", selftest(), 0);
    image[1] ^= 1u;
    image[3] ^= 1u;
    expect("changed", mase_store(&device, image, MASE_IMAGE_WORDS, SOON), MASE_BAD_IMAGE);
#if BANKS == 1
    expect("nothing whole is left", one_frame(), MASE_NOT_STORED);
    expect("nor read back", mase_recall(&device, image, MASE_IMAGE_WORDS, SOON), MASE_NOT_STORED);
#else
    expect("the other bank is used", selftest(), 0);
#endif
    expect("store", mase_store(&device, own, MASE_IMAGE_WORDS, SOON), MASE_OK);
    expect("right again", selftest(), 0);

    /* A program that ends in the middle of an image, and the next one. */
    hal.write(hal.context, MASE_PARAMETER_WORD, own[0]);
    hal.write(hal.context, MASE_PARAMETERS, MASE_PARAMETERS_GIVE);
    expect("open", mase_open(&device, &hal), MASE_OK);
    expect("after another program", mase_store(&device, own, MASE_IMAGE_WORDS, SOON), MASE_OK);
    hal.write(hal.context, MASE_PARAMETER_WORD, own[0]);
    hal.write(hal.context, MASE_PARAMETERS, MASE_PARAMETERS_GIVE);
    expect("a reset", mase_reset(&device, SOON), MASE_OK);
    expect("which ends it", selftest(), 0);
    return verdict();
}
