/* SPDX-License-Identifier: Apache-2.0 */
/* Generated from system_registers.rdl by `python -m scripts.registers`. */
#ifndef MASE_REGISTERS_H
#define MASE_REGISTERS_H

/* Magic: What an accelerator of this kind answers. */
#define MASE_MAGIC 0x00u
#define MASE_MAGIC_VALUE_IS 0x4D415345u

/* Version: Of this register map: a driver refuses another major version. */
#define MASE_VERSION 0x04u
#define MASE_VERSION_MINOR_IS 0x3u
#define MASE_VERSION_MINOR 0xFFFFu
#define MASE_VERSION_MAJOR_IS 0x1u
#define MASE_VERSION_MAJOR 0xFFFF0000u

/* Digest, low half: First 8 bytes of the manifest's digest, which tell designs apart. */
#define MASE_DIGEST_LOW 0x08u

/* Digest, high half: See DIGEST_LOW. */
#define MASE_DIGEST_HIGH 0x0Cu

/* Control: Bits that start something read 0. */
#define MASE_CONTROL 0x10u
#define MASE_CONTROL_START 0x1u
#define MASE_CONTROL_ENABLE 0x2u
#define MASE_CONTROL_SOFT_RESET 0x4u
#define MASE_CONTROL_CLEAR 0x8u

/* Status: What goes on. */
#define MASE_STATUS 0x14u
#define MASE_STATUS_BUSY 0x1u
#define MASE_STATUS_RESETTING 0x2u
#define MASE_STATUS_OCCUPIED 0x4u

/* Interrupt enable: Which bits of INTERRUPT_STATUS raise the interrupt, a level. */
#define MASE_INTERRUPT_ENABLE 0x18u
#define MASE_INTERRUPT_ENABLE_DONE 0x1u
#define MASE_INTERRUPT_ENABLE_ERROR 0x2u

/* Interrupt status: Set by events whether enabled or not; cleared by writing 1. */
#define MASE_INTERRUPT_STATUS 0x1Cu
#define MASE_INTERRUPT_STATUS_DONE 0x1u
#define MASE_INTERRUPT_STATUS_ERROR 0x2u

/* Errors: Each stays until 1 is written to it. */
#define MASE_ERRORS 0x20u
#define MASE_ERRORS_TLAST_EARLY 0x1u
#define MASE_ERRORS_TLAST_LATE 0x2u
#define MASE_ERRORS_READ_BUS 0x4u
#define MASE_ERRORS_WRITE_BUS 0x8u
#define MASE_ERRORS_OVERRUN 0x10u
#define MASE_ERRORS_REFUSED 0x20u

/* Source, low half: Address of the first input frame, a multiple of the bus width. */
#define MASE_SOURCE_LOW 0x24u

/* Source, high half: See SOURCE_LOW. */
#define MASE_SOURCE_HIGH 0x28u

/* Target, low half: Address of the first output frame, a multiple of the bus width. */
#define MASE_TARGET_LOW 0x2Cu

/* Target, high half: See TARGET_LOW. */
#define MASE_TARGET_HIGH 0x30u

/* Frames: Frames of a job; each begins where the one before it ends, padded to the bus width. */
#define MASE_FRAMES 0x34u

/* Parameters late: Cycles in which memory had not brought parameters when it should have; 0 where it does as the design was told. */
#define MASE_PARAMETERS_LATE 0x38u

/* Frames in: Frames whose first beat the core has taken. */
#define MASE_FRAMES_IN 0x40u

/* Frames out: Frames whose last beat the core has given. */
#define MASE_FRAMES_OUT 0x44u

/* Flagged frames: Results of frames that were short, long or read with a bus error. */
#define MASE_FRAMES_FLAGGED 0x48u

/* Cycles, last: Of the last frame: since the frame before it ended, or its own first beat if the core was empty. */
#define MASE_CYCLES_LAST 0x4Cu

/* Cycles, least: Least CYCLES_LAST since the counters were cleared; all ones before the first frame. */
#define MASE_CYCLES_LEAST 0x50u

/* Cycles, most: Most CYCLES_LAST since the counters were cleared. */
#define MASE_CYCLES_MOST 0x54u

/* Stalls in: Cycles of the core's clock in which it would not take a beat that was offered. */
#define MASE_STALLS_IN 0x58u

/* Stalls out: Cycles of the core's clock in which a beat of it was not taken. */
#define MASE_STALLS_OUT 0x5Cu

/* Base, low half: Of the window that buffers must lie in: the address of its first byte. */
#define MASE_BASE_LOW 0x60u

/* Base, high half: See BASE_LOW. */
#define MASE_BASE_HIGH 0x64u

/* Limit, low half: Of the window that buffers must lie in: the address of its last byte. */
#define MASE_LIMIT_LOW 0x68u

/* Limit, high half: See LIMIT_LOW. */
#define MASE_LIMIT_HIGH 0x6Cu

/* Parameters: Of a design whose parameters are loaded, or read from memory; else `stored` is 1 and nothing is taken. Bits that start something read 0. */
#define MASE_PARAMETERS 0x70u
#define MASE_PARAMETERS_STORED 0x1u
#define MASE_PARAMETERS_BUSY 0x2u
#define MASE_PARAMETERS_REFUSED 0x4u
#define MASE_PARAMETERS_BANK 0x8u
#define MASE_PARAMETERS_PENDING 0x10u
#define MASE_PARAMETERS_ANSWER 0x20u
#define MASE_PARAMETERS_ANSWER_LAST 0x40u
#define MASE_PARAMETERS_USE_REFUSED 0x80u
#define MASE_PARAMETERS_GIVE 0x100u
#define MASE_PARAMETERS_GIVE_LAST 0x200u
#define MASE_PARAMETERS_NEXT 0x400u
#define MASE_PARAMETERS_USE 0x800u

/* Parameter word: A word of an image, or where an image lies. */
#define MASE_PARAMETER_WORD 0x74u

/* Parameter answer: A word of the image that is read back. */
#define MASE_PARAMETER_ANSWER 0x78u

/* Parameter digest: Of the last image that was stored, read back or found right in memory; 0 before. */
#define MASE_PARAMETER_DIGEST 0x7Cu

#endif
