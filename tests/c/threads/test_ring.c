/* SPDX-License-Identifier: Apache-2.0
 * The ring between the thread that trains and the one that writes, under ThreadSanitizer: every packet comes
 * out once, in order, with what was put into it. */
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 20 * LMI_RING, KEPT = 2 * LMI_RING };

static lmi_ring ring;
static lmi_handed handed[KEPT]; /* more than are ever under way */
static size_t size;             /* of each */
static int64_t refused, most;

static void *train(void *arg) {
    (void)arg;
    for (int64_t i = 0; i < STEPS; i++) {
        lmi_handed *p = &handed[i % KEPT];
        p->info.number = i;
        p->bytes = size;
        while (!lmi_ring_push(&ring, p)) refused++;
    }
    return NULL;
}

static bool write_all(void) {
    bool ok = true;
    for (int64_t i = 0; i < STEPS; i++) {
        lmi_handed *p;
        while (!(p = lmi_ring_pop(&ring))) {}
        int64_t bytes = (int64_t)atomic_load(&ring.bytes);
        most = bytes > most ? bytes : most;
        ok = ok && p->info.number == i && p->bytes == size;
        p->info.number = -1; /* it is this thread's now */
    }
    return ok && !lmi_ring_pop(&ring) && atomic_load(&ring.bytes) == 0;
}

/* -- pieces that are used again ------------------------------------------------------------------ */

static lmi_spares spares;
static _Atomic int64_t taken_twice;

/* A piece is one thread's as long as that has it. */
static void *use_again(void *arg) {
    const lam_step_info info = {.name = arg, .number = 1};
    for (int i = 0; i < STEPS; i++) {
        lmi_handed *mine[3];
        void *more;
        for (int k = 0; k < 3; k++) mine[k] = lmi_handed_new(&spares, &info, (size_t)(i % 64), &more);
        for (int k = 0; k < 3; k++) {
            if (!mine[k] || mine[k]->info.name[0] != *(char *)arg) taken_twice++;
            lmi_handed_give_back(&spares, mine[k]);
        }
    }
    return NULL;
}

static int two_take_and_give(void) {
    pthread_t other;
    char names[2][2] = {"a", "b"};
    if (pthread_create(&other, NULL, use_again, names[0])) return 1;
    use_again(names[1]);
    pthread_join(other, NULL);
    lmi_spares_free(&spares);
    return taken_twice != 0;
}

int main(void) {
    static const size_t sizes[] = {1, LMI_RING_BYTES / 3};
    int failures = two_take_and_give();
    for (int i = 0; i < 2; i++) {
        pthread_t other;
        size = sizes[i];
        refused = most = 0;
        if (pthread_create(&other, NULL, train, NULL)) return 1;
        bool ok = write_all();
        pthread_join(other, NULL);
        failures += !ok || most > LMI_RING_BYTES;
        if (!ok) fprintf(stderr, "steps of %zu bytes, %lld refused\n", size, (long long)refused);
    }
    lmi_handed *p = &handed[0];
    for (int k = 0; k < LMI_RING; k++) failures += !lmi_ring_push(&ring, (p->bytes = 1, p));
    failures += lmi_ring_push(&ring, p); /* it is full */
    return failures != 0;
}
