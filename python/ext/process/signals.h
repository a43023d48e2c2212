/* SPDX-License-Identifier: Apache-2.0
 * signals: the last words of the command. A signal that ends the process, as a segmentation fault in a
 * kernel, is told with the layer that ran; Ctrl-C ends the process also while nothing listens to it. For the
 * command's own process only. And what notes a signal that ends a program while it is recorded. */
#ifndef LMX_SIGNALS_H
#define LMX_SIGNALS_H

#include <stdbool.h>
#include <stddef.h>

/* Writes where the process is, at most `room` bytes, and returns how many; 0: nothing is known. It runs in a
 * handler. */
typedef size_t (*lmx_place_now)(char *to, size_t room);

/* From now on a fatal signal writes one line to the error stream: `what` (of which the beginning is copied),
 * the signal, and the place. The signal then ends the process as without this. False if that is not possible.
 */
bool lmx_last_words(const char *what, lmx_place_now place);
void lmx_no_last_words(void); /* restores what was there before */

/* From now on the process ends by SIGINT if it still runs `ms` milliseconds after a Ctrl-C, or at the second
 * one. False if Ctrl-C is ignored. */
bool lmx_end_at_interrupt(int ms);
void lmx_not_at_interrupt(void);

/* From now on a signal that ends the process calls `report`, in its handler, with the signal's name, and then
 * does what it would without this. Signals that the program handles or ignores already are left alone, except
 * fatal ones. A second call does nothing. */
typedef void (*lmx_signal_report)(const char *name);
void lmx_tell_signals(lmx_signal_report report);
void lmx_tell_no_signals(void); /* restores what was there before, unless the program has replaced it */

#endif
